"""The report as one self-contained HTML file: no network access, no scripts, no fonts."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polars as pl

from fedtide import summaries
from fedtide import text as words
from fedtide.files import write_text
from fedtide.report.answer import answer, excluded_shares
from fedtide.report.classes import by_class, class_accuracy, importance
from fedtide.report.clients import fleet
from fedtide.report.curves import learning, objective
from fedtide.report.frame import Cell, page
from fedtide.report.maps import available, included
from fedtide.report.picture import Picture
from fedtide.statistics import Estimated, Metric

FEW_SEEDS = 5


def render(
    rounds: pl.DataFrame, clients: pl.DataFrame | None, about: Mapping[str, Any], baseline: str | None = None
) -> str:
    """The page as text. The baseline is the first method by default. Without records of clients (None, or a table
    without rows) the page omits what needs them and says so."""
    about = dict(about)
    base = summaries.chosen_baseline(rounds, baseline)
    summary = summaries.summary(rounds, clients, base)
    seeds = summaries.per_seed(rounds)
    methods = summaries.labels(rounds)
    finished = seeds.filter(~pl.col("diverged")).select("method", "seed")
    kept = None if clients is None or clients.is_empty() else clients
    recorded = kept.join(finished, on=["method", "seed"], how="semi") if kept is not None else None
    pictures: dict[str, Picture | None] = {"learning": learning(rounds, base)}
    if summary["metric"][0] == "accuracy":
        pictures["objective"] = objective(rounds)
    kinds = classes = None
    if recorded is not None and recorded.height:
        kinds = fleet(recorded, about)
        classes = class_accuracy(recorded, kinds)
        pictures["available"] = available(recorded, kinds)
        pictures["included"] = included(recorded, kinds, methods)
        pictures["importance"] = importance(recorded, kinds, methods)
        pictures["by_class"] = by_class(classes, kinds, methods)
    return page(
        "fedtide.report",
        "report.html",
        about=about,
        title=words.clean(about.get("title") or "Comparison of methods"),
        meta=_meta(rounds, about, len(methods), seeds["seed"].n_unique()),
        answer=answer(summary, seeds, classes, kinds, excluded_shares(rounds, about)),
        figures=pictures,
        recorded=kept is not None,
        finished=kinds is not None,
        several_classes=kinds is not None and len(kinds.names) > 1,
        kind=summary["metric"][0],
        rows=_rows(summary),
        baseline=base,
        warnings=_warnings(summary, about),
        seeds=seeds["seed"].unique().sort().to_list(),
    )


def write(
    path: str | os.PathLike[str],
    rounds: pl.DataFrame,
    clients: pl.DataFrame | None,
    about: Mapping[str, Any],
    baseline: str | None = None,
) -> Path:
    """Writes the page atomically."""
    return write_text(path, render(rounds, clients, about, baseline))


def _meta(rounds: pl.DataFrame, about: dict[str, Any], methods: int, seeds: int) -> list[str]:
    problem, process = about.get("problem") or {}, about.get("availability") or {}
    facts = [
        words.count(methods, "method"),
        words.count(seeds, "seed"),
        words.count(rounds.select(pl.col("round").max()).item(), "round"),
    ]
    if problem.get("clients"):
        facts.append(words.count(problem["clients"], "client"))
    named = (("problem", problem), ("availability", process))
    return facts + [f"{kind}: {words.clean(part['name'])}" for kind, part in named if part.get("name")]


class Forest(NamedTuple):
    """A difference and its interval on a scale from 0 to 100, on which 50 is no difference."""

    low: str
    mean: str
    high: str
    verdict: Literal["better", "worse", "unclear"]


class Row(NamedTuple):
    """A method in the table."""

    name: str
    diverged: int
    baseline: bool
    cells: dict[str, Cell]  # by column of the summary
    forest: Forest | None


def _rows(summary: pl.DataFrame) -> list[Row]:
    """The table's cells, with the best of each column marked and each difference placed on a common scale."""
    kind: Metric = summary["metric"][0]
    up = kind == "accuracy"
    ends = [abs(x) for c in ("difference", "difference_low", "difference_high") for x in summary[c] if x is not None]
    scale = max(ends, default=0.0) or 1.0
    rows = []
    for row in summary.iter_rows(named=True):
        cells = {}
        for name in ("final", "average"):
            low, high = row[f"{name}_low"], row[f"{name}_high"]
            cells[name] = Cell(words.value(kind, row[name]), None if low is None else words.spread(kind, low, high))
        for name in ("difference", "average_difference"):
            mean, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
            between = None if low is None else f"{words.change(kind, low)} to {words.change(kind, high)}"
            cells[name] = Cell(words.change(kind, mean), between)
        cells["worst_decile"] = Cell(words.percent(row["worst_decile"]))
        cells["objective"] = Cell(words.value("objective", row["objective"]))
        gap = Estimated(row["difference"], row["difference_low"], row["difference_high"])
        forest = None if row["baseline"] else _forest(gap, scale, up)
        rows.append(Row(words.clean(row["method"]), row["diverged"], row["baseline"], cells, forest))
    for name, highest in {"final": up, "average": up, "worst_decile": True, "objective": False}.items():
        at = summary[name].arg_max() if highest else summary[name].arg_min()
        texts = [row.cells[name].text for row in rows]
        if at is not None and len(set(texts)) > 1:  # equal texts are equally good
            for row in rows:
                row.cells[name] = row.cells[name]._replace(best=row.cells[name].text == texts[at])
    return rows


def _forest(gap: Estimated, scale: float, up: bool) -> Forest | None:
    if gap.mean is None:
        return None
    low, high = (gap.mean, gap.mean) if gap.low is None or gap.high is None else (gap.low, gap.high)
    verdict = "unclear" if not gap.apart else "better" if (low > 0) == up else "worse"
    left, middle, right = (f"{50 + 46 * x / scale:.1f}" for x in (low, gap.mean, high))
    return Forest(left, middle, right, verdict)


def _warnings(summary: pl.DataFrame, about: dict[str, Any]) -> list[str]:
    lines = [words.clean(text) for text in about.get("warnings") or []]
    for row in summary.filter(pl.col("diverged") > 0).iter_rows(named=True):
        lost = words.count(row["diverged"], "seed")
        what = "the objective became non-finite; excluded from all figures and means"
        lines.append(f"{words.clean(row['method'])}: {lost} diverged ({what}).")
    ends = summary["round"].unique().sort().to_list()
    if len(ends) > 1:
        at = ", ".join(map(str, ends))
        lines.append(f"Methods ran for different numbers of rounds: their last evaluations are at rounds {at}.")
    most = summary["seeds"].max()
    if isinstance(most, int) and 1 < most < FEW_SEEDS:
        lines.append(f"With {most} seeds the intervals are only indicative; use {FEW_SEEDS} or more.")
    if most == 1:
        lines.append("With one seed there are no intervals: differences may be due to chance.")
    return lines
