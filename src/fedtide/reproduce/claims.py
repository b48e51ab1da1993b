"""Verdicts on the claims of a study, by statistics and thresholds that are part of the study.

A claim compares a method with others, or with a number, in some cases and, if it names several classes, for each class.
Each comparison has an interval for the mean paired difference: Student's t over data draws, or over seeds if there is
one draw. The intervals of a claim have a joint level of 95 % (Bonferroni). A comparison holds if the whole interval is
on the claim's side of the threshold, is refuted if none of it is, and is undecided otherwise; it is also undecided with
fewer than three replicas, or if every difference equals the threshold. A claim holds if all its comparisons hold, does
not hold if one is refuted, and holds partly if some hold and none is refuted. A claim that holds is smaller than
published if all its intervals exclude the published size. For an undecided claim, `why` says how many replicas would
decide it. A claim of the paper is not tested if the study ran with a stand-in for its network or data. Accuracies are
compared in points.

A diverged run counts as 0 % accuracy. For measures where less is better, a method that diverged loses the comparison.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from fedtide.errors import FedtideError
from fedtide.reproduce.results import MEASURES, CaseResult, MethodResult, Results
from fedtide.reproduce.study import Claim, Study
from fedtide.statistics import replicas_for, student
from fedtide.text import listed

Verdict = Literal["holds", "smaller than published", "partly", "undecided", "does not hold", "not tested"]
Outcome = Literal["holds", "undecided", "refuted"]

_LEVEL = 0.95
_MOST_REPLICAS = 1000  # that are counted
_FEWEST = 3  # with fewer replicas Student's interval says little about their distribution


class Comparison(NamedTuple):
    """A mean difference and its interval, which is None for a single replica."""

    case: str
    against: str
    mean: float | None
    low: float | None
    high: float | None
    outcome: Outcome
    replicas: int  # independent differences
    tie: bool  # whether all of them equal the threshold


class Judged(NamedTuple):
    """A claim with its verdict and the comparisons on which it is based."""

    claim: Claim
    verdict: Verdict
    comparisons: list[Comparison]
    why: str

    @property
    def replicas(self) -> int:
        """The smallest number of independent differences in a comparison."""
        return min((c.replicas for c in self.comparisons), default=0)


def judge(study: Study, results: Results | None) -> list[Judged]:
    """Returns a verdict for each claim of a study, from the results of `reproduce` (None if it was not run)."""
    changes = study.scales.get(results.scale) if results else None  # pyright: ignore[reportArgumentType]
    caveat, stand_in = (changes.caveat, changes.stand_in) if changes else ("", "")
    return [_judged(claim, results, caveat, "" if claim.source == "ours" else stand_in) for claim in study.claims]


def in_words(claim: Claim) -> str:
    """The statistic and the threshold of a claim, in two sentences, and the published size in a third."""
    measure = MEASURES[claim.measure]
    what = measure.words.replace("one round", f"round {claim.round}")
    what += f" on {_each([f'class {c}' for c in claim.classes])}" if claim.classes else ""
    kinds = [_each(claim.groups)] if claim.groups else []
    groups = [f"{claim.method} ({kind})" for kind in (*kinds, claim.against_group) if kind]
    whose, *others = (f"“{name}”" if "," in name else name for name in groups or (claim.method, *claim.rivals))
    if claim.measure == "speedup":
        whose += f" over {_each(others)}"
    elif others or claim.value:
        whose += f" minus {_each(others) if others else f'{claim.value:g}'}"
    slope = "slope over the cases of the " if claim.trend else ""
    bound = f"within ± {claim.by:g}" if claim.holds == "within" else f"{claim.holds} {claim.by:g}".replace("-", "−")
    unit = measure.unit.removesuffix("s") if claim.by == 1 else measure.unit
    unit += " per unit of the axis" if claim.trend else ""
    texts = [f"Statistic: {slope}{what}, {whose}", f"The claim holds if the interval is {bound} {unit}".rstrip()]
    if claim.size is not None:
        size = f"{claim.size:g}".replace("-", "−")
        texts.append(f"It is smaller than published if the interval is closer to 0 than {size}")
    return ". ".join(texts) + "."


def _each(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"each of {listed(names)}"


def _judged(claim: Claim, results: Results | None, caveat: str, stand_in: str) -> Judged:
    def not_tested(why: str, comparisons: Sequence[Comparison] = ()) -> Judged:
        return Judged(claim, "not tested", list(comparisons), why)

    if results is None:
        return not_tested("Not run.")
    cases = [case for case in results.cases if claim.cases is None or case.label in claim.cases]
    absent = set(claim.cases or ()) - {case.label for case in cases}
    if not cases or (claim.trend and len(cases) < 2):
        return not_tested("Not run at this scale.")
    missing = {claim.method, *claim.rivals} - {method.label for case in cases for method in case.methods}
    if missing:
        return not_tested(f"Not run at this scale: {', '.join(sorted(missing))}.")
    if claim.round is not None and not all(claim.round in case.rounds for case in cases):
        return not_tested(f"Round {claim.round} is not among the stored points of the curves.")
    of_runs: Any = "curve" if claim.measure in ("round", "speedup") else claim.measure
    every = [case.method(label) for case in cases for label in (claim.method, *claim.rivals)]
    if of_runs in MethodResult.model_fields and any(method.values(of_runs) is None for method in every):
        return not_tested(f"Not measured: {MEASURES[claim.measure].words}.")
    differences = [one for one in _differences(claim, cases) if not np.isnan(one[2]).all()]
    if not differences:
        return not_tested("There are no samples to measure it on.")
    # Bonferroni: the intervals of the claim hold jointly at the level.
    confidence = 1 - (1 - _LEVEL) / len(differences)
    comparisons = [_comparison(claim, *one, confidence) for one in differences]
    if stand_in:
        return not_tested(stand_in, comparisons)
    verdict = _verdict(comparisons)
    if verdict == "holds" and absent:
        verdict = "partly"
    if verdict == "holds" and claim.size is not None and all(_smaller(one, claim.size) for one in comparisons):
        verdict = "smaller than published"
    left_out = f"Not run at this scale: {', '.join(sorted(absent))}." if absent else ""
    single = len(set(cases[0].draw)) == 1
    one_draw = "Based on one data draw." if single else ""
    what = "seeds" if single else "draws"
    more = _would_decide(claim, comparisons, confidence, what) if verdict == "undecided" else ""
    why = " ".join(filter(None, (_why(comparisons), more, left_out, caveat, one_draw)))
    return Judged(claim, verdict, comparisons, why)


def _differences(claim: Claim, cases: Sequence[CaseResult]) -> Iterator[tuple[str, str, np.ndarray]]:
    """(case, rival, a difference for each replica) of each comparison of a claim."""
    for rival in claim.rivals or [""]:
        for kind in claim.classes or claim.groups or (None,):
            by_case = [_difference(claim, case, rival, kind) for case in cases]
            against = f"{rival} on class {kind}".strip() if isinstance(kind, int) else kind or rival
            if claim.trend:
                places = np.array([case.value for case in cases], float)
                yield "slope", against, _slopes(places, np.array(by_case))
            else:
                yield from ((case.label, against, values) for case, values in zip(cases, by_case, strict=True))


def _difference(claim: Claim, case: CaseResult, rival: str, kind: int | str | None) -> np.ndarray:
    """Method − rival for each replica. If less is better: +∞ if the method diverged, −∞ if only the rival did.

    `kind` is a class, or a kind of clients.
    """
    if isinstance(kind, str):
        return case.replicas(_included(claim, case, kind))
    if claim.measure in ("availability_error", "correlation_error", "excess_error"):
        if case.estimates is None:  # no rounds were observed
            return np.full(1, np.nan)
        availability, correlation = case.estimates.availability, case.estimates.correlation
        errors = {"availability_error": availability, "correlation_error": correlation}
        return case.replicas(errors.get(claim.measure, correlation - availability) - claim.value)
    if claim.measure == "speedup":
        return case.replicas(_speedup(case, claim.method, rival))
    own = _measured(claim, case, claim.method, kind)
    other = _measured(claim, case, rival, kind) if rival else claim.value
    with np.errstate(invalid="ignore"):  # ∞ − ∞ is nan: nothing is known if both diverged
        return case.replicas(own - other)


def _measured(claim: Claim, case: CaseResult, label: str, kind: int | None) -> np.ndarray:
    method, measure = case.method(label), MEASURES[claim.measure]
    values = method.values("curve" if claim.measure == "round" else claim.measure)
    if values is not None and claim.round is not None:
        values = values[:, case.rounds.index(claim.round)]
    assert values is not None  # `_judged` has looked
    if kind is not None:
        if kind >= values.shape[1]:
            raise FedtideError(
                f"claim '{claim.says}': class {kind}: must be less than {values.shape[1]}, the number of classes"
            )
        values = values[:, kind]
    if not measure.highest:
        values = np.where(method.diverged, np.inf, values)
    return 100 * values if measure.unit == "points" else values


def _included(claim: Claim, case: CaseResult, group: str) -> np.ndarray:
    """Inclusion rate of a kind of client minus that of another kind (or a number), for each run."""
    record = case.inclusion
    assert record is not None  # `plan` refuses claims about invitations that are not recorded

    def share(kind: str) -> np.ndarray:
        if kind not in record.kinds:
            raise FedtideError(f"'{kind}' is not a kind of client; known: {', '.join(record.kinds)}")
        return 100 * record.methods[claim.method].share[record.kinds.index(kind)]

    return share(group) - (share(claim.against_group) if claim.against_group else claim.value)


def _speedup(case: CaseResult, method: str, rival: str) -> np.ndarray:
    """Rounds that the rival needs to reach its own final accuracy, divided by those that the method needs."""
    rounds = np.array(case.rounds, float)
    target = case.method(rival).final

    def needed(label: str) -> np.ndarray:
        curve = case.method(label).curve
        assert curve is not None  # `_judged` has looked
        assert target is not None
        reached = curve >= target[:, None] - 1e-4  # curves are stored with four digits
        return np.where(reached.any(axis=1), rounds[reached.argmax(axis=1)], np.inf)

    own = needed(method)
    never = np.zeros_like(own)  # the speed-up of a method that never reaches it
    return np.divide(needed(rival), own, out=never, where=np.isfinite(own))


def _slopes(places: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The least-squares slope over the cases of values [cases, replicas], for each replica."""
    centred = places - places.mean()
    return centred @ (values - values.mean(axis=0)) / (centred @ centred)


def _comparison(claim: Claim, case: str, rival: str, values: np.ndarray, confidence: float) -> Comparison:
    finite = values[np.isfinite(values)]
    mean, low, high = student(finite, confidence)
    outcome: Outcome = "undecided"
    tie = len(finite) > 1 and bool((finite == claim.by).all())
    if np.isposinf(values).any():
        outcome = "holds" if claim.holds == "above" else "refuted"
    elif low is not None and high is not None and len(finite) >= _FEWEST and not tie and not np.isinf(values).any():
        outcome = _outcome(claim, low, high)
    if MEASURES[claim.measure].unit == "points" and not claim.trend and low is not None and high is not None:
        value = 0.0 if claim.rivals or claim.against_group else claim.value  # a level is between 0 and 100 %
        least = -100.0 if claim.rivals or claim.against_group else 0.0
        low, high = max(low, least - value), min(high, 100.0 - value)
    return Comparison(case, rival, mean, low, high, outcome, len(finite), tie)


def _outcome(claim: Claim, low: float, high: float) -> Outcome:
    if claim.holds == "above":
        holds, refuted = low > claim.by, high <= claim.by
    elif claim.holds == "below":
        holds, refuted = high < claim.by, low >= claim.by
    else:
        holds, refuted = -claim.by <= low and high <= claim.by, high < -claim.by or low > claim.by
    return "holds" if holds else "refuted" if refuted else "undecided"


def _would_decide(claim: Claim, comparisons: Sequence[Comparison], confidence: float, what: str) -> str:
    """How many replicas would decide an undecided claim if means and standard deviations stay as they are.

    One refuted comparison decides it; otherwise all of them have to hold.
    """
    counts: dict[bool, list[int]] = {True: [], False: []}  # by whether the mean is on the claim's side
    for one in comparisons:
        if one.mean is None or one.low is None or one.high is None or one.tie:
            continue  # more replicas would not decide it
        ends = (-claim.by, claim.by) if claim.holds == "within" else (claim.by,)
        distance = min(abs(one.mean - end) for end in ends)
        half = max(one.high - one.mean, one.mean - one.low)  # one end may be clipped
        on_its_side = _outcome(claim, one.mean, one.mean) == "holds"
        counts[on_its_side].append(replicas_for(distance, half, one.replicas, confidence, _MOST_REPLICAS))
    if not counts[False] and len(counts[True]) < len(comparisons):
        return ""
    count = min(counts[False]) if counts[False] else max(counts[True])
    if count > _MOST_REPLICAS:
        return f"More than {_MOST_REPLICAS:,} {what} would be needed to decide it."
    return f"About {count:,} {what} would decide it."


def _verdict(comparisons: Sequence[Comparison]) -> Verdict:
    outcomes = {c.outcome for c in comparisons}
    if "refuted" in outcomes:
        return "does not hold"
    if outcomes == {"holds"}:
        return "holds"
    return "partly" if "holds" in outcomes else "undecided"


def _smaller(comparison: Comparison, size: float) -> bool:
    """Whether the interval of a comparison lies between zero and the published size, without it."""
    low, high = comparison.low, comparison.high
    return low is not None and high is not None and (high < size if size > 0 else low > size)


_COUNTED = {
    "holds": ("holds", "hold"),
    "refuted": ("is refuted", "are refuted"),
    "undecided": ("is undecided", "are undecided"),
}


def _why(comparisons: Sequence[Comparison]) -> str:
    if len(comparisons) == 1:
        return "Every difference equals the threshold." if comparisons[0].tie else ""
    counts = sorted(Counter(c.outcome for c in comparisons).items())
    parts = [f"{count} {_COUNTED[outcome][count > 1]}" for outcome, count in counts]
    return f"Of {len(comparisons)} comparisons, {listed(parts)}."
