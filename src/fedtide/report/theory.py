"""The page of `fedtide theory`: what a federation will see, before it is simulated."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedtide.files import atomic
from fedtide.report import svg, theory_figures, words
from fedtide.report.page import environment
from fedtide.report.theory_words import PARTS, Kind, answer, error, kinds, largest_part, left_out
from fedtide.theory.outlook import Forecast, Outlook

_MOST_LISTED = 20


def render(outlook: Outlook, about: Mapping[str, Any]) -> str:
    """The page as text; `about` holds title, command, config, problem and availability names."""
    choosers = [label for label, f in outlook.forecasts.items() if f.exclusions is not None]
    pictures = {
        "presence": theory_figures.presence(outlook),
        "importance": theory_figures.importance(outlook),
        "paths": theory_figures.paths(outlook),
        "parts": theory_figures.parts(outlook),
        "trials": theory_figures.trials(outlook, choosers[0]) if choosers else None,
    }
    return environment().get_template("theory.html").render(
        about=about,
        title=words.clean(about.get("title") or "What theory says"),
        meta=_meta(outlook, about),
        answer=answer(outlook),
        figures={name: picture for name, picture in pictures.items() if picture is not None},
        rows=[_row(label, f) for label, f in outlook.forecasts.items()],
        kinds=[_kind(k) for k in kinds(outlook)],
        notes=_notes(outlook),
        rough=[words.clean(label) for label, f in outlook.forecasts.items() if f.rough and not f.diverges],
        chooser=_chooser(outlook, choosers[0]) if choosers else None,
        bounds=_bounds(outlook),
        constants=_constants(outlook),
        chains=outlook.fleet.chains,
        sampled=None if outlook.fleet.observed is None else len(outlook.fleet.observed),
        known=outlook.constants is not None,
        rounds=outlook.rounds,
        palette=[svg.LIGHT, svg.DARK],
        paper=svg.PAPER,
    )  # fmt: skip


def write(path: str | os.PathLike[str], outlook: Outlook, about: Mapping[str, Any]) -> Path:
    """Writes the page; a reader finds the old file or the whole new one, never a part."""
    path, text = Path(path), render(outlook, about)
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def summary(outlook: Outlook) -> list[tuple[str, str, str, str, str]]:
    """For the terminal: method, misplaced importance, bias, predicted error, what it is mostly."""
    rows = [_row(label, f) for label, f in outlook.forecasts.items()]
    return [(r["name"], r["misplaced"], r["bias"], r["error"], r["mostly"]) for r in rows]


def _notes(outlook: Outlook) -> list[tuple[str, str]]:
    """Who is concerned, and the note: once for all who share it."""
    labels: dict[str, list[str]] = {}
    for label, f in outlook.forecasts.items():
        if f.note:
            labels.setdefault(f.note, []).append(words.clean(label))
    return [(", ".join(names) + (", each" if len(names) > 1 else ""), note) for note, names in labels.items()]


def _meta(outlook: Outlook, about: Mapping[str, Any]) -> list[str]:
    facts = [
        words.count(len(outlook.forecasts), "method"),
        words.count(outlook.rounds, "round"),
        words.count(len(outlook.fleet.importance), "client"),
    ]
    return facts + [f"{kind}: {words.clean(about[kind])}" for kind in ("problem", "availability") if about.get(kind)]


def _row(label: str, f: Forecast) -> dict[str, str]:
    path, there = f.path, f.bias
    predicted = path is not None and not f.diverges
    return {
        "name": words.clean(label),
        "misplaced": words.NOTHING if f.misplaced is None else words.percent(f.misplaced),
        "bias": words.NOTHING if there is None else error(there.error),
        "distance": words.NOTHING if there is None else error(there.distance),
        "error": "diverges" if f.diverges else error(float(path.error[-1])) if path is not None else words.NOTHING,
        "to_go": error(float(path.convergence[-1])) if predicted and path is not None else words.NOTHING,
        "cloud": error(float(path.cloud[-1])) if predicted and path is not None else words.NOTHING,
        "mostly": PARTS[largest_part(f)] if predicted else words.NOTHING,
    }


def _signed(number: float) -> str:
    return f"{round(number, 2) + 0.0:.2f}".replace("-", "−")


def _kind(kind: Kind) -> dict[str, str]:
    def rounds(length: float, share: float) -> str:
        if share <= 1e-9:
            return words.NOTHING
        return f"{length:,.3g}" if np.isfinite(length) else "∞"

    return {
        "name": kind.name,
        "clients": f"{len(kind.clients):,}",
        "availability": words.percent(kind.availability),
        "correlation": _signed(kind.correlation),
        "present": rounds(kind.present_run, kind.availability),
        "absent": rounds(kind.absent_run, 1 - kind.availability),
        "target": words.percent(kind.target),
    }


def _chooser(outlook: Outlook, label: str) -> dict[str, Any]:
    found = outlook.forecasts[label].exclusions
    assert found is not None
    last = {trial.client: trial for trial in found.trials}
    gone = [trial for client, trial in last.items() if not found.kept[client]]
    gone.sort(key=lambda trial: -trial.fall)
    rows = [
        {
            "client": trial.client,
            "availability": words.percent(outlook.fleet.availability[trial.client], 0),
            "correlation": _signed(outlook.fleet.correlation[trial.client]),
            "gap": error(float(found.gap[trial.client])),
            "gain": error(trial.faster),
            "price": error(trial.biased),
            "sweep": "most correlated first" if trial.sweep == "correlation" else "least available first",
        }
        for trial in gone[:_MOST_LISTED]
    ]
    return {"label": label, "words": left_out(outlook, label), "rows": rows, "more": len(gone) - len(rows)}


def _bounds(outlook: Outlook) -> dict[str, Any] | None:
    found = {words.clean(label): f.bound for label, f in outlook.forecasts.items() if f.bound is not None}
    if not found:
        return None
    names = list(next(iter(found.values())).terms)
    rows = [
        {"name": label, "total": error(b.total), "terms": [error(b[n]) for n in names], "most": names.index(b.dominant)}
        for label, b in found.items()
    ]
    return {"terms": [name.replace("_", " ") for name in names], "rows": rows}


def _constants(outlook: Outlook) -> list[tuple[str, str]]:
    c = outlook.constants
    if c is None or outlook.optimum is None or outlook.start is None:
        return []
    return [
        ("Optimum F*", error(outlook.optimum)),
        ("Error at the start", error(outlook.start)),
        ("Smoothness L", f"{c.smoothness:.3g}"),
        ("Convexity μ", f"{c.convexity:.3g}"),
        ("Condition κ = L/μ", f"{c.condition:,.3g}"),
        ("Slope D on W", f"{c.slope:.3g}"),
        ("Height H on W", f"{c.height:.3g}"),
        ("Diameter of W", f"{c.diameter:.3g}"),
    ]
