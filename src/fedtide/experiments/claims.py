"""Verdicts: what a study's numbers say about its claims, by rules that are part of the study.

A claim compares a method with others, or with a number, in some cases; of several classes, class by class. Each
comparison has an interval for the mean paired difference (Student's t over data draws, or over seeds where there is one
draw), of 95 % for all comparisons of a claim together (Bonferroni's rule). A comparison holds where the whole interval
is on the claim's side of its threshold, is refuted where none of it is, and is undecided otherwise, as it is with fewer
than three replicas or where nothing differs at all. A claim holds where all its comparisons do, does not hold where one
is refuted, and holds partly where some do and none is refuted. Accuracies are compared in points.

A run that diverged is right about nothing; where less is better, a method that diverged has lost.
"""

from collections import Counter
from typing import Any, Literal, NamedTuple

import numpy as np

from fedtide.errors import FedtideError
from fedtide.experiments.study import Claim, Study
from fedtide.report.reproduction_numbers import level, replicas, values

Verdict = Literal["holds", "partly", "undecided", "does not hold", "not tested"]
Outcome = Literal["holds", "undecided", "refuted"]

_LEVEL = 0.95
_FEWEST = 3  # replicas that decide anything
_POINTS = {"late", "average", "best", "spread", "worst_decile", "classes", "included"}  # shares, told in points


class Comparison(NamedTuple):
    """One difference and its interval; None where a single run gives none."""

    case: str
    against: str
    mean: float
    low: float | None
    high: float | None
    outcome: Outcome
    replicas: int  # independent differences
    tie: bool  # whether all of them are the threshold itself


class Judged(NamedTuple):
    """A claim with its verdict and what it rests on."""

    claim: Claim
    verdict: Verdict
    comparisons: list[Comparison]
    replicas: int  # independent differences in each comparison, at least
    why: str


def judge(study: Study, results: dict[str, Any] | None) -> list[Judged]:
    """A verdict for each of the study's claims; `results` are those of `reproduce`."""
    changes = study.scales.get(results["scale"]) if results else None
    return [_judged(claim, results, changes.caveat if changes else "") for claim in study.claims]


_MEASURED = {
    "late": "test accuracy over the last fifth of the run",
    "average": "test accuracy, averaged over the run",
    "best": "highest test accuracy of the run",
    "spread": "standard deviation of test accuracy over the last fifth of the run",
    "worst_decile": "accuracy of the tenth of the clients served worst",
    "objective": "training objective",
    "tail_loss": "training loss of the worst tenth of the clients",
    "included": "share of its own rounds in which it is invited",
    "speedup": "rounds that the other needs for its final accuracy, over those needed here",
}


def unit(claim: Claim) -> str:
    """What its differences are counted in."""
    what = "points" if claim.measure in _POINTS else "times" if claim.measure == "speedup" else ""
    return f"{what} per unit of the axis".strip() if claim.trend else what


def in_words(claim: Claim) -> str:
    """The statistic and the threshold that decide a claim."""
    classes = " and on ".join(f"class {c}" for c in claim.classes)
    what = _MEASURED.get(claim.measure, f"accuracy on {classes}")
    whose = f"{claim.method} ({claim.group})" if claim.group else claim.method
    rival = " and of ".join(_rivals(claim)) or claim.against_group
    if claim.measure == "speedup":
        less = f", against {rival}"
    elif rival:
        less = f", less that of {rival}"
    else:
        less = f", less {claim.value:g}" if claim.value else ""
    slope = "the slope over the cases of " if claim.trend else ""
    bound = f"within ± {claim.by:g}" if claim.holds == "within" else f"{claim.holds} {claim.by:g}"
    return f"Decided by {slope}{what} of {whose}{less}: its interval must lie {bound} {unit(claim)}".rstrip() + "."


def _judged(claim: Claim, results: dict[str, Any] | None, caveat: str) -> Judged:
    def not_tested(why: str) -> Judged:
        return Judged(claim, "not tested", [], 0, why)

    if results is None:
        return not_tested("It was not run.")
    cases = [c for c in results["cases"] if claim.cases is None or c["label"] in claim.cases]
    absent = set(claim.cases or ()) - {c["label"] for c in cases}
    if not cases or (claim.trend and len(cases) < 2):
        return not_tested("Its cases were not run at this scale.")
    missing = {claim.method, *_rivals(claim)} - {m["label"] for case in cases for m in case["methods"]}
    if missing:
        return not_tested(f"{', '.join(sorted(missing))} was not run at this scale.")
    found = [_comparison(claim, *one) for one in _widened(_differences(claim, cases))]
    if not found:
        return not_tested("There is nothing to measure it on.")
    verdict = _verdict(found)
    if verdict == "holds" and absent:
        verdict = "partly"
    several = _why(found) if len(found) > 1 else "No difference at all." if found[0].tie else ""
    left_out = f"Not run at this scale: {', '.join(sorted(absent))}." if absent else ""
    one_draw = "On one data draw." if len(set(cases[0]["draw"])) == 1 or claim.measure == "included" else ""
    why = " ".join(filter(None, (several, left_out, caveat, one_draw)))
    return Judged(claim, verdict, found, min(c.replicas for c in found), why)


def _rivals(claim: Claim) -> list[str]:
    if claim.against is None:
        return []
    return [claim.against] if isinstance(claim.against, str) else list(claim.against)


def _differences(claim: Claim, cases: list[dict[str, Any]]) -> list[tuple[str, str, np.ndarray]]:
    """(case, rival, one difference for each independent replica) of all comparisons that a claim makes."""
    found = []
    for rival in _rivals(claim) or [""]:
        for kind in claim.classes or (None,):
            by_case = [(case["label"], _difference(claim, case, rival, kind)) for case in cases]
            told = rival if kind is None else f"{rival} on class {kind}".strip()
            if claim.trend:
                places = np.array([np.nan if case["value"] is None else case["value"] for case in cases], float)
                found.append(("slope", told, _slopes(places, np.array([d for _, d in by_case]))))
            else:
                found += [(label, told, values) for label, values in by_case]
    return [(case, rival, values) for case, rival, values in found if not np.isnan(values).all()]


def _widened(differences: list[Any]) -> list[tuple[str, str, np.ndarray, float]]:
    """The comparisons, each with the confidence that gives all of them together the level."""
    confidence = 1 - (1 - _LEVEL) / max(1, len(differences))
    return [(*one, confidence) for one in differences]


def _difference(claim: Claim, case: dict[str, Any], rival: str, kind: int | None) -> np.ndarray:
    """Method − rival. +∞ where the method diverged and less is better, −∞ where only the rival did."""
    if claim.measure == "included":
        return _included(claim, case)
    if claim.measure == "speedup":
        return replicas(case, _speedup(case, claim.method, rival))
    own = _measured(claim, _method(case, claim.method), kind)
    other = _measured(claim, _method(case, rival), kind) if rival else claim.value
    with np.errstate(invalid="ignore"):  # ∞ − ∞: both diverged, which tells nothing
        return replicas(case, own - other)


def _method(case: dict[str, Any], label: str) -> dict[str, Any]:
    return next(method for method in case["methods"] if method["label"] == label)


def _measured(claim: Claim, method: dict[str, Any], kind: int | None) -> np.ndarray:
    found = values(method, claim.measure)
    if found is None:
        raise FedtideError(f"claim '{claim.says}': {method['label']} has no {claim.measure}")
    if kind is not None:
        if kind >= found.shape[1]:
            raise FedtideError(f"claim '{claim.says}': class {kind}: there are {found.shape[1]} classes")
        found = found[:, kind]
    if claim.measure in ("spread", "objective", "tail_loss"):
        found = np.where(method["diverged"], np.inf, found)
    return 100 * found if claim.measure in _POINTS else found


def _included(claim: Claim, case: dict[str, Any]) -> np.ndarray:
    """Share of its own rounds in which a kind of clients is invited, less another's (or a number), by seed."""
    record = case["inclusion"]

    def share(kind: str | None) -> np.ndarray:
        if kind not in record["kinds"]:
            raise FedtideError(f"'{kind}': no such kind of clients; there are {', '.join(record['kinds'])}")
        return 100 * np.array(record["methods"][claim.method]["share"][record["kinds"].index(kind)], float)

    return share(claim.group) - (share(claim.against_group) if claim.against_group else claim.value)


def _speedup(case: dict[str, Any], method: str, rival: str) -> np.ndarray:
    """Rounds that the rival needs for its own late accuracy, over those that the method needs for it."""
    rounds = np.array(case["rounds"], float)
    target = np.array(_method(case, rival)["late"], float)

    def needed(label: str) -> np.ndarray:
        curve = np.array(_method(case, label)["curve"], float)
        reached = curve >= target[:, None] - 1e-4  # curves are stored with four digits
        return np.where(reached.any(axis=1), rounds[reached.argmax(axis=1)], np.inf)

    own = needed(method)
    return np.where(np.isfinite(own), needed(rival), 0) / np.where(np.isfinite(own), own, 1)  # never there: 0


def _slopes(places: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The least-squares slope over the cases [cases, replicas], for each replica."""
    if not np.isfinite(places).all():
        raise FedtideError("a trend needs cases that have a value")
    centred = places - places.mean()
    return centred @ (values - values.mean(axis=0)) / (centred @ centred)


def _comparison(claim: Claim, case: str, rival: str, values: np.ndarray, confidence: float) -> Comparison:
    finite = values[np.isfinite(values)]
    mean, low, high = level(finite, confidence)
    outcome: Outcome = "undecided"
    tie = len(finite) > 1 and bool((finite == claim.by).all())
    if np.isposinf(values).any():
        outcome = "holds" if claim.holds == "above" else "refuted"
    elif low is not None and high is not None and len(finite) >= _FEWEST and not tie and not np.isinf(values).any():
        outcome = _outcome(claim, low, high)
    if claim.measure in _POINTS and not claim.trend and low is not None and high is not None:
        low, high = max(low, -100.0), min(high, 100.0)
    return Comparison(case, rival, mean, low, high, outcome, len(finite), tie)


def _outcome(claim: Claim, low: float, high: float) -> Outcome:
    if claim.holds == "above":
        holds, refuted = low > claim.by, high <= claim.by
    elif claim.holds == "below":
        holds, refuted = high < claim.by, low >= claim.by
    else:
        holds, refuted = -claim.by <= low and high <= claim.by, high < -claim.by or low > claim.by
    return "holds" if holds else "refuted" if refuted else "undecided"


def _verdict(found: list[Comparison]) -> Verdict:
    outcomes = {c.outcome for c in found}
    if "refuted" in outcomes:
        return "does not hold"
    if outcomes == {"holds"}:
        return "holds"
    return "partly" if "holds" in outcomes else "undecided"


def _why(found: list[Comparison]) -> str:
    counts = Counter(c.outcome for c in found)
    words = {"holds": ("holds", "hold"), "refuted": ("is refuted", "are refuted"),
             "undecided": ("is undecided", "are undecided")}  # fmt: skip
    told = [f"{count} {words[outcome][count > 1]}" for outcome, count in sorted(counts.items())]
    return f"Of {len(found)} comparisons, {', '.join(told)}."
