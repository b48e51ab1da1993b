"""The page of `fedtide reproduce`: what a paper claims, what was found, and how."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from fedtide.files import atomic
from fedtide.report import reproduction_words as told
from fedtide.report import svg, words
from fedtide.report.page import environment
from fedtide.report.reproduction_figures import pictures, slim
from fedtide.report.reproduction_numbers import Facts, Level, measured
from fedtide.report.reproduction_numbers import rows as methods_of
from fedtide.report.statistics import Metric

_COLUMNS: dict[str, tuple[str, Metric]] = {
    "late": ("Late accuracy", "accuracy"),
    "average": ("Average accuracy", "accuracy"),
    "best": ("Highest accuracy", "accuracy"),
    "spread": ("Spread over rounds", "accuracy"),
    "worst_decile": ("Worst tenth of clients", "accuracy"),
    "objective": ("Objective", "objective"),
    "tail_loss": ("Loss of the worst tenth", "objective"),
}


def facts(study: Any) -> dict[str, Any]:
    """A study (`fedtide.experiments.study`) as plain data."""
    return study.model_dump(mode="json")


def rows(judged: Iterable[Any], decided: Callable[[Any], str] | None = None) -> list[dict[str, Any]]:
    """Judged claims (`fedtide.experiments.claims`) as plain data, with what was found in words as `ours`.

    `decided` tells of a claim what decides it.
    """
    found = []
    for one in judged:
        row = one.claim.model_dump(mode="json") | {
            "verdict": one.verdict,
            "why": one.why,
            "replicas": one.replicas,
            "comparisons": [comparison._asdict() for comparison in one.comparisons],
            "decided": decided(one.claim) if decided is not None else "",
        }
        found.append(row | {"ours": told.ours(row), "mark": told.MARKS[row["verdict"]]})
    return found


def render(study: Facts, results: Facts, claims: Sequence[Facts]) -> str:
    """The page as text, from `facts`, the results of `reproduce` and `rows`."""
    figures = {name: _slim(picture) for name, picture in pictures(study, results).items()}
    return environment().get_template("reproduction.html").render(
        about=results,
        title=f"{words.clean(study['figure'])}: {words.clean(study['title'])}",
        meta=_meta(study, results),
        answer=told.answer(claims),
        text=[" ".join(part.split()) for part in study["about"].strip().split("\n\n")],
        figures=figures,
        claims=[_claim(row) for row in claims],
        tables=[_table(study, case) for case in results["cases"]],
        how=told.how(study, results),
        chosen=[_chosen(*one) for one in told.chosen(results)],
        several=len(results["cases"]) > 1,
        warnings=told.warnings(results),
        palette=[svg.LIGHT, svg.DARK],
        paper=svg.PAPER,
    )  # fmt: skip


def write(path: str | os.PathLike[str], study: Facts, results: Facts, claims: Sequence[Facts]) -> Path:
    """Writes the page; a reader finds the old file or the whole new one, never a part."""
    path, text = Path(path), render(study, results, claims)
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def _slim(picture: Any) -> Any:
    return picture._replace(wide=slim(picture.wide), narrow=slim(picture.narrow))


def _meta(study: Facts, results: Facts) -> list[str]:
    methods = {m["label"] for case in results["cases"] for m in case["methods"]}
    return [
        words.count(len(methods), "method"),
        words.count(len(results["cases"]), "case"),
        f"scale: {results['scale']}",
        f"took {told.duration(results['seconds'])}",
    ]


def _claim(row: Facts) -> dict[str, Any]:
    many = len(row["comparisons"]) > 1
    return {
        **row,
        "told": told.verdict(row),
        "because": told.because(row),
        "details": [
            {
                "case": words.clean(c["case"]),
                "against": words.clean(c["against"]),
                "found": told.comparison(row, c),
                "outcome": c["outcome"],
            }
            for c in (row["comparisons"] if many else ())
        ],
    }


def _chosen(case: str, label: str, settings: str, edges: list[str]) -> dict[str, Any]:
    return {"case": words.clean(case), "name": words.clean(label), "settings": settings, "edges": edges}


def _table(study: Facts, case: Facts) -> dict[str, Any]:
    """All measures of all methods of a case."""
    found = methods_of(study, case)
    columns = [key for key in _COLUMNS if any(measured(case, row.found, key) is not None for row in found)]
    highest = {"late", "average", "best", "worst_decile"}
    lines = []
    for row in found:
        cells = [_cell(key, measured(case, row.found, key)) for key in columns]
        lines.append({"name": words.clean(row.label), "colour": row.colour % len(svg.LIGHT), "hollow": row.published,
                      "cells": cells, "diverged": sum(row.found["diverged"])})  # fmt: skip
    for i, key in enumerate(columns):
        levels = [line["cells"][i]["mean"] for line in lines if line["cells"][i]["mean"] is not None]
        best = (max if key in highest else min)(levels) if levels else None
        for line in lines:
            line["cells"][i]["best"] = best is not None and line["cells"][i]["mean"] == best
    return {
        "title": words.clean(case["label"]),
        "columns": [_COLUMNS[key][0] for key in columns],
        "rows": lines,
        "diverged": any(line["diverged"] for line in lines),
    }


def _cell(key: str, level: Level | None) -> dict[str, Any]:
    if level is None:
        return {"text": words.NOTHING, "spread": None, "mean": None}
    kind = _COLUMNS[key][1]
    text = f"{100 * level.mean:.2f}" if key == "spread" else words.value(kind, level.mean)
    spread = None if level.low is None or level.high is None else words.spread(kind, level.low, level.high)
    if key == "spread" and spread is not None:
        spread = f"{100 * level.ends[0]:.2f} to {100 * level.ends[1]:.2f}"
    return {"text": text, "spread": spread, "mean": level.mean}
