"""The report as one HTML file that needs nothing else: no network, no scripts, no fonts."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
import polars as pl
from markupsafe import Markup

from fedtide.files import atomic
from fedtide.report import figures, statistics, svg, words
from fedtide.report.clients import fleet

FEW_SEEDS = 5


def render(
    rounds: pl.DataFrame, clients: pl.DataFrame | None, about: Mapping[str, Any], baseline: str | None = None
) -> str:
    """The page as text. The baseline is the first method unless chosen; what needs clients is left out without them
    (None, or a table without rows), and the page says so."""
    about = dict(about)
    base = statistics.chosen_baseline(rounds, baseline)
    summary = statistics.summary(rounds, clients, base)
    seeds = statistics.per_seed(rounds)
    methods = statistics.labels(rounds)
    finished = seeds.filter(~pl.col("diverged")).select("method", "seed")
    kept = clients if statistics.has_clients(clients) else None
    recorded = kept.join(finished, on=["method", "seed"], how="semi") if kept is not None else None
    pictures: dict[str, figures.Picture | None] = {"learning": figures.learning(rounds, base)}
    if summary["metric"][0] == "accuracy":
        pictures["objective"] = figures.objective(rounds)
    kinds = classes = None
    if recorded is not None and recorded.height:
        kinds = fleet(recorded, about)
        classes = figures.class_accuracy(recorded, kinds)
        pictures["available"] = figures.available(recorded, kinds)
        pictures["included"] = figures.included(recorded, kinds, methods)
        pictures["importance"] = figures.importance(recorded, kinds, methods)
        pictures["by_class"] = figures.by_class(classes, kinds, methods)
    return environment().get_template("report.html").render(
        about=about,
        title=words.clean(about.get("title") or "Comparison of methods"),
        meta=_meta(rounds, about, len(methods), seeds["seed"].n_unique()),
        answer=words.answer(summary, seeds, classes, kinds),
        figures={name: picture for name, picture in pictures.items() if picture is not None},
        recorded=kept is not None,
        finished=kinds is not None,
        several_classes=kinds is not None and len(kinds.names) > 1,
        kind=summary["metric"][0],
        rows=_rows(summary),
        baseline=base,
        warnings=_warnings(summary, about),
        palette=[svg.LIGHT, svg.DARK],
        paper=svg.PAPER,
        seeds=seeds["seed"].unique().sort().to_list(),
    )  # fmt: skip


def write(
    path: str | os.PathLike[str],
    rounds: pl.DataFrame,
    clients: pl.DataFrame | None,
    about: Mapping[str, Any],
    baseline: str | None = None,
) -> Path:
    """Writes the page; a reader finds the old file or the whole new one, never a part."""
    path = Path(path)
    text = render(rounds, clients, about, baseline)
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fedtide.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "clean": words.clean,
        "short": words.short,
        "drawing": lambda text: Markup(text),  # our own SVG, in which labels are escaped already
        "setting": words.setting,
        "unbroken": lambda text: text.replace(" = ", "\u00a0=\u00a0"),
        "settings": words.settings,
        "sentence": lambda name: str(name).replace("_", " "),
    }
    return environment


def _meta(rounds: pl.DataFrame, about: dict[str, Any], methods: int, seeds: int) -> list[str]:
    problem, process = about.get("problem") or {}, about.get("availability") or {}
    facts = [words.count(methods, "method"), words.count(seeds, "seed"), words.count(_last(rounds), "round")]
    if problem.get("clients"):
        facts.append(words.count(problem["clients"], "client"))
    facts += [
        f"{kind}: {words.clean(part['name'])}"
        for kind, part in (("problem", problem), ("availability", process))
        if part.get("name")
    ]
    return facts


def _last(rounds: pl.DataFrame) -> int:
    return int(rounds.select(pl.col("round").max()).item())


def _rows(summary: pl.DataFrame) -> list[dict[str, Any]]:
    """The table's cells, with the best of each column marked and each difference placed on a common scale."""
    kind: statistics.Metric = summary["metric"][0]
    up = kind == "accuracy"
    ends = [abs(x) for c in ("difference", "difference_low", "difference_high") for x in summary[c] if x is not None]
    scale = max(ends, default=0.0) or 1.0

    def level(row: dict[str, Any], name: str) -> dict[str, Any]:
        low, high = row[f"{name}_low"], row[f"{name}_high"]
        spread = None if low is None else words.spread(kind, low, high)
        return {"text": words.value(kind, row[name]), "spread": spread, "best": False}

    def difference(row: dict[str, Any], name: str) -> dict[str, Any]:
        low, high = row[f"{name}_low"], row[f"{name}_high"]
        spread = None if low is None else f"{words.change(kind, low)} to {words.change(kind, high)}"
        return {"text": words.change(kind, row[name]), "spread": spread, "best": False}

    out = []
    for row in summary.iter_rows(named=True):
        cells = {name: level(row, name) for name in ("final", "average")}
        cells |= {name: difference(row, name) for name in ("difference", "average_difference")}
        cells["worst_decile"] = {"text": words.percent(row["worst_decile"]), "spread": None, "best": False}
        cells["objective"] = {"text": words.value("objective", row["objective"]), "spread": None, "best": False}
        forest = None
        if row["difference"] is not None and not row["baseline"]:
            low = row["difference"] if row["difference_low"] is None else row["difference_low"]
            high = row["difference"] if row["difference_high"] is None else row["difference_high"]
            good, bad = (low > 0, high < 0) if up else (high < 0, low > 0)
            verdict = (
                "unclear" if row["difference_low"] is None else "better" if good else "worse" if bad else "unclear"
            )
            place = [50 + 46 * x / scale for x in (low, row["difference"], high)]
            forest = {
                "low": f"{place[0]:.1f}",
                "mean": f"{place[1]:.1f}",
                "high": f"{place[2]:.1f}",
                "verdict": verdict,
            }
        out.append({**row, "name": words.clean(row["method"]), "cells": cells, "forest": forest})
    for name, highest in {"final": up, "average": up, "worst_decile": True, "objective": False}.items():
        at = summary[name].arg_max() if highest else summary[name].arg_min()
        texts = [row["cells"][name]["text"] for row in out]
        if at is not None and len(set(texts)) > 1:  # what reads alike is alike
            for row in out:
                row["cells"][name]["best"] = row["cells"][name]["text"] == texts[at]
    return out


def _warnings(summary: pl.DataFrame, about: dict[str, Any]) -> list[str]:
    said = [words.clean(text) for text in about.get("warnings") or []]
    for row in summary.filter(pl.col("diverged") > 0).iter_rows(named=True):
        lost = words.count(row["diverged"], "seed")
        what = "the objective was not a finite number; left out of every figure and mean"
        said.append(f"{words.clean(row['method'])}: {lost} diverged ({what}).")
    ends = summary["round"].unique().sort().to_list()
    if len(ends) > 1:
        said.append(
            f"Not all methods ran equally long: the last evaluations are at rounds {', '.join(map(str, ends))}."
        )
    most = summary["seeds"].max()
    if isinstance(most, int) and 1 < most < FEW_SEEDS:
        said.append(f"With {most} seeds the intervals are only indicative; take {FEW_SEEDS} or more.")
    if most == 1:
        said.append("With one seed there are no intervals: differences may be chance.")
    return said
