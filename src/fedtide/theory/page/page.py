"""The page of `fedtide theory`: predictions for a federation before it is simulated."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fedtide import text as words
from fedtide.report.frame import page
from fedtide.theory.page import figures as theory_figures
from fedtide.theory.page.words import answer, error, kinds, left_out
from fedtide.theory.prediction import MethodPrediction, Prediction

_MOST_LISTED = 20


def render(prediction: Prediction, about: Mapping[str, Any]) -> str:
    """The page as text; `about` holds title, command, config, problem and availability names."""
    excluding = {label: f.exclusions for label, f in prediction.methods.items() if f.exclusions is not None}
    label, excluded = next(iter(excluding.items()), ("", None))
    pictures = {
        "presence": theory_figures.presence(prediction),
        "importance": theory_figures.importance(prediction),
        "paths": theory_figures.paths(prediction),
        "parts": theory_figures.parts(prediction),
        "trials": None if excluded is None else theory_figures.trials(excluded),
    }
    return page(
        "fedtide.theory.page",
        "theory.html",
        about=about,
        title=words.clean(about.get("title") or "Predictions"),
        meta=_meta(prediction, about),
        answer=answer(prediction),
        figures=pictures,
        prediction=prediction,
        rows=[_row(label, f) for label, f in prediction.methods.items()],
        kinds=kinds(prediction),
        notes=_notes(prediction),
        rough=[words.clean(label) for label, f in prediction.methods.items() if f.rough and not f.diverges],
        chooser=label,
        excluded=excluded,
        left_out="" if excluded is None else left_out(prediction, excluded),
        most_listed=_MOST_LISTED,
        bounds={words.clean(label): f.bound for label, f in prediction.methods.items() if f.bound is not None},
        error=error,
        percent=words.percent,
        signed=_signed,
        length=_length,
    )


class PredictionRow(NamedTuple):
    """A method's numbers, as text."""

    name: str
    misplaced: str
    bias: str
    distance: str
    error: str
    convergence: str
    variance: str
    largest: str


def summary(prediction: Prediction) -> list[tuple[str, str, str, str, str]]:
    """For the terminal: method, misplaced importance, bias, predicted error and its largest part."""
    rows = [_row(label, f) for label, f in prediction.methods.items()]
    return [(row.name, row.misplaced, row.bias, row.error, row.largest) for row in rows]


def _row(label: str, f: MethodPrediction) -> PredictionRow:
    limit = (words.NOTHING,) * 2 if f.bias is None else (error(f.bias.error), error(f.bias.distance))
    end = ("diverges" if f.diverges else words.NOTHING, *(words.NOTHING,) * 3)
    if f.finite_path is not None:
        parts = f.finite_path.parts
        end = (error(f.finite_path.error[-1]), error(parts.convergence), error(parts.variance), parts.largest)
    return PredictionRow(words.clean(label), words.percent(f.misplaced), *limit, *end)


def _notes(prediction: Prediction) -> list[tuple[str, str]]:
    """The labels of the methods that share a note, and the note."""
    labels: dict[str, list[str]] = {}
    for label, f in prediction.methods.items():
        if f.note:
            labels.setdefault(f.note, []).append(words.clean(label))
    return [(", ".join(names) + (" (each)" if len(names) > 1 else ""), note) for note, names in labels.items()]


def _meta(prediction: Prediction, about: Mapping[str, Any]) -> list[str]:
    facts = [
        words.count(len(prediction.methods), "method"),
        words.count(prediction.rounds, "round"),
        words.count(len(prediction.clients.importance), "client"),
    ]
    return facts + [f"{kind}: {words.clean(about[kind])}" for kind in ("problem", "availability") if about.get(kind)]


def _signed(number: float) -> str:
    return words.number(round(number, 2) + 0.0, ".2f")


def _length(rounds: float, share: float) -> str:
    """A mean run in rounds, for a state in which clients spend this share of rounds."""
    if share <= 1e-9:
        return words.NOTHING
    return f"{rounds:,.3g}" if np.isfinite(rounds) else "∞"
