"""Verdicts: what a study's numbers say about its claims, by rules that were fixed with the claims.

A claim compares a method with others, or with a number, in some cases. Each comparison has a 95 % interval for the mean
paired difference (Student's t over data draws, or over seeds where there are fewer than five draws), widened by
Bonferroni's rule where a claim makes several. A comparison holds where the whole interval is on the claim's side of
its threshold, is refuted where none of it is, and is undecided otherwise. Accuracies are compared in points.
"""

from typing import Any, Literal, NamedTuple

import numpy as np

from fedtide.errors import FedtideError
from fedtide.experiments.study import Claim, Study

Verdict = Literal["holds", "partly", "undecided", "does not hold", "not tested"]

_LEVEL = 0.95
_POINTS = {"late", "average", "best", "spread", "worst_decile", "classes", "included"}  # shares, told in points
_ENOUGH_DRAWS = 5


class Comparison(NamedTuple):
    """One difference and its interval; None where a single run gives none."""

    case: str
    against: str
    mean: float
    low: float | None
    high: float | None
    outcome: Literal["holds", "undecided", "refuted"]


class Judged(NamedTuple):
    """A claim with its verdict and what it rests on."""

    claim: Claim
    verdict: Verdict
    comparisons: list[Comparison]
    replicas: int  # independent differences in each
    why: str


def judge(study: Study, results: dict[str, Any] | None) -> list[Judged]:
    """A verdict for each of the study's claims; `results` are those of `reproduce`."""
    return [_judged(claim, results) for claim in study.claims]


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
    what = _MEASURED.get(claim.measure, f"accuracy on classes {', '.join(map(str, claim.classes))}")
    subject = f"{claim.method}'s {what}"
    if claim.measure == "included":
        subject = f"{claim.method}: {what}, for clients '{claim.group}'"
    rival = " and ".join(filter(None, (" and ".join(_rivals(claim)), claim.against_group or "")))
    if claim.measure == "speedup":
        less = f" (against {rival})"
    elif rival:
        less = f" less that of {rival}"
    else:
        less = f" less {claim.value:g}" if claim.value else ""
    slope = "the slope over the cases of " if claim.trend else ""
    bound = f"within ± {claim.by:g}" if claim.holds == "within" else f"{claim.holds} {claim.by:g}"
    return f"decided by {slope}{subject}{less}: the 95 % interval must lie {bound} {unit(claim)}".rstrip() + "."


def _judged(claim: Claim, results: dict[str, Any] | None) -> Judged:
    if results is None:
        return Judged(claim, "not tested", [], 0, "It was not run.")
    cases = [c for c in results["cases"] if claim.cases is None or c["label"] in claim.cases]
    if not cases:
        return Judged(claim, "not tested", [], 0, "Its cases were not run at this scale.")
    missing = {claim.method, *_rivals(claim)} - {m["label"] for case in cases for m in case["methods"]}
    if missing:
        return Judged(claim, "not tested", [], 0, f"{', '.join(sorted(missing))} was not run at this scale.")
    differences: list[tuple[str, str, np.ndarray]] = []
    for rival in _rivals(claim) or [""]:
        by_case = [(case["label"], _difference(claim, case, rival)) for case in cases]
        if claim.trend:
            places = np.array([np.nan if case["value"] is None else case["value"] for case in cases], float)
            differences.append(("slope", rival, _slopes(places, np.array([d for _, d in by_case]))))
        else:
            differences += [(label, rival, values) for label, values in by_case]
    level = 1 - (1 - _LEVEL) / len(differences)
    found = [_comparison(claim, case, rival, values, level) for case, rival, values in differences]
    replicas = min(np.isfinite(values).sum() for _, _, values in differences)
    return Judged(claim, _verdict(found), found, int(replicas), _why(found))


def _rivals(claim: Claim) -> list[str]:
    if claim.against is None:
        return []
    return [claim.against] if isinstance(claim.against, str) else list(claim.against)


def _difference(claim: Claim, case: dict[str, Any], rival: str) -> np.ndarray:
    """Method − rival, one number for each independent replica."""
    if claim.measure == "included":
        return _included(claim, case)
    if claim.measure == "speedup":
        return _by_draw(case, _speedup(case, claim.method, rival))
    own = _measured(claim, _method(case, claim.method))
    other = _measured(claim, _method(case, rival)) if rival else claim.value
    return _by_draw(case, own - other)


def _method(case: dict[str, Any], label: str) -> dict[str, Any]:
    return next(method for method in case["methods"] if method["label"] == label)


def _measured(claim: Claim, method: dict[str, Any]) -> np.ndarray:
    if claim.measure == "classes":
        values = np.array(method["classes"], float)[:, list(claim.classes)].mean(axis=1)
    else:
        if claim.measure not in method:
            raise FedtideError(f"{method['label']}: the problem has no {claim.measure}")
        values = np.array(method[claim.measure], float)
    # A run that diverged is right about nothing; leaving it out would favour the method.
    return 100 * np.nan_to_num(values) if claim.measure in _POINTS else values


def _included(claim: Claim, case: dict[str, Any]) -> np.ndarray:
    """Share of its own rounds in which a kind of clients is invited, less another's (or a number), by seed."""
    record = case["inclusion"]

    def share(kind: str) -> np.ndarray:
        if kind not in record["kinds"]:
            raise FedtideError(f"'{kind}': no such kind of clients; there are {', '.join(record['kinds'])}")
        return 100 * np.array(record["methods"][claim.method]["share"][record["kinds"].index(kind)], float)

    if claim.group is None:
        raise FedtideError(f"claim '{claim.says}': the measure included needs a group")
    return share(claim.group) - (share(claim.against_group) if claim.against_group else claim.value)


def _speedup(case: dict[str, Any], method: str, rival: str) -> np.ndarray:
    """Rounds that the rival needs for its own late accuracy, over those that the method needs for it."""
    rounds = np.array(case["rounds"], float)
    target = np.array(_method(case, rival)["late"], float)

    def needed(label: str) -> np.ndarray:
        curve = np.array(_method(case, label)["curve"], float)
        reached = curve >= target[:, None]
        return np.where(reached.any(axis=1), rounds[reached.argmax(axis=1)], np.inf)  # never: a speed-up of 0

    return needed(rival) / needed(method)


def _by_draw(case: dict[str, Any], values: np.ndarray) -> np.ndarray:
    """Seeds of one data draw are not independent of each other: with enough draws, their means count."""
    draw = np.array(case["draw"])
    draws = np.unique(draw)
    if len(draws) < _ENOUGH_DRAWS:
        return values
    return np.array([values[draw == d].mean() for d in draws])


def _slopes(places: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The least-squares slope over the cases [cases, replicas], for each replica."""
    if not np.isfinite(places).all() or len(places) < 2:
        raise FedtideError("a trend needs two cases or more, each with a value")
    centred = places - places.mean()
    return centred @ (values - values.mean(axis=0)) / (centred @ centred)


def _comparison(claim: Claim, case: str, rival: str, values: np.ndarray, level: float) -> Comparison:
    from scipy.stats import t

    values = values[np.isfinite(values)]
    if len(values) == 0:
        return Comparison(case, rival, np.nan, None, None, "undecided")
    mean = float(values.mean())
    if len(values) == 1:
        return Comparison(case, rival, mean, None, None, "undecided")
    half = float(t.ppf((1 + level) / 2, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    low, high = mean - half, mean + half
    return Comparison(case, rival, mean, low, high, _outcome(claim, low, high))


def _outcome(claim: Claim, low: float, high: float) -> Literal["holds", "undecided", "refuted"]:
    if claim.holds == "above":
        holds, refuted = low > claim.by, high <= claim.by
    elif claim.holds == "below":
        holds, refuted = high < claim.by, low >= claim.by
    else:
        holds, refuted = -claim.by <= low and high <= claim.by, high < -claim.by or low > claim.by
    return "holds" if holds else "refuted" if refuted else "undecided"


def _verdict(found: list[Comparison]) -> Verdict:
    outcomes = {c.outcome for c in found}
    if outcomes == {"holds"}:
        return "holds"
    if "holds" in outcomes:
        return "partly"
    return "does not hold" if "refuted" in outcomes else "undecided"


def _why(found: list[Comparison]) -> str:
    if len(found) == 1:
        return ""
    counts = {outcome: sum(c.outcome == outcome for c in found) for outcome in ("holds", "refuted", "undecided")}
    words = {"holds": "hold", "refuted": "are refuted", "undecided": "are undecided"}
    told = [f"{count} {words[outcome]}" for outcome, count in counts.items() if count]
    return f"Of {len(found)} comparisons, {' and '.join(told)}."
