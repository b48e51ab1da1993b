"""A recommendation in words: what to use, by how much, who is under-served, and when the answer would change."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from fedtide import text
from fedtide.fleet.recommendation.findings import Findings
from fedtide.fleet.recommendation.runs import GENERATED, RECORDED
from fedtide.fleet.recommendation.verdict import CaseVerdict
from fedtide.statistics import Estimated, Metric
from fedtide.text import change, clean, count, percent, size, spread, value

_WHERE = {RECORDED: "the recorded trace", GENERATED: "generated fleets"}
_LIMITS = {
    "client_memory": "the limit on a device's memory",
    "server_memory": "the limit on the server's memory",
    "extra_messages": "the limit on extra messages",
    "floor": "the floor for the worst-served devices",
}
_FEW = 0.05  # of accuracy, or of the objective: an interval that extends further is hardly informative
_MOST_NAMED = 8  # methods in a sentence
_MOST_WITH_INTERVAL = 2
_DEVICES_NAMED = 3  # in the answer; the page lists more


def answer(result: Findings) -> list[str]:
    """The whole answer, in sentences."""
    return [*lead(result), *details(result)]


def lead(result: Findings) -> list[str]:
    """What to use, and by how much it is better on the record; the first sentence is the answer in short."""
    verdict = result.verdict
    match verdict.confidence:
        case "clear":
            return [f"Use {clean(verdict.recommended)}.", _comparison(result, RECORDED)]
        case "level":
            why = "the only method among the best both on the recorded trace and on generated fleets"
            if (comparable := len(verdict.level)) > 1:
                why = f"the simplest of {comparable} comparable methods (fewest extra messages, then least memory)"
            first = f"Use {clean(verdict.recommended)}, {why}."
            return [first, _comparison(result, RECORDED), *_too_few(result)]
        case "disagree":
            return [
                "No method can be recommended: results on the recorded trace and on generated fleets disagree.",
                _comparison(result, RECORDED),
                _comparison(result, GENERATED),
                "The fitted model misses something that matters here; see the report on the fleet.",
            ]
        case "floor":
            nearest = result.of(verdict.best)
            return [
                f"No method can be recommended: for the worst-served tenth of the devices, none that the constraints "
                f"allow reaches an accuracy of {percent(result.constraints.floor)}.",
                f"{clean(nearest.method)} comes closest: {_worst(nearest.recorded.worst)} on the recorded trace, and "
                f"{_reached(result, nearest.method, RECORDED)} over all devices.",
            ]
        case _:
            refused = all(row.refused for row in result.methods)
            why = "the constraints exclude every candidate" if refused else "every allowed method diverged"
            return [f"No method can be recommended: {why}."]


def details(result: Findings) -> list[str]:
    """Generated fleets, under-served devices, other cases, and the task: sentences."""
    generated = [_comparison(result, GENERATED)] if result.verdict.recommended is not None else []
    sentences = [*generated, *_served(result)]
    if never := len(result.fleet.never):
        be, them = ("is", "it") if never == 1 else ("are", "them")
        devices = f"{count(never, 'device')} {be} never available in the record"
        sentences.append(f"{devices}; no method can learn from {them}.")
    sentences += _changes_in_short(result)
    if result.problem.stand_in:
        sentences.append("The task is a stand-in (digits assigned at random); your own may have another answer.")
    return sentences


def _comparison(result: Findings, setting: str) -> str:
    """How the reference ends under a setting, and which methods are comparable to the best one there."""
    verdict, kind, where = result.verdict, result.kind, _WHERE[setting]
    standing, name = verdict.recorded if setting == RECORDED else verdict.generated, verdict.reference
    if standing is None:
        return f"No method finished on {where}."
    parts = [f"On {where}, {clean(name)} reaches {_reached(result, name, setting)}"]
    level = [method for method in standing.level if method != standing.best]
    others = _ranked(result, setting)
    if standing.best != name:
        ahead = _difference(kind, result.of(standing.best).gap(setting))
        parts.append(f"{clean(standing.best)} has the best mean ({ahead})")
    elif level:
        parts[0] += ", the best mean"
    elif others:
        behind = _difference(kind, result.of(others[0]).gap(setting))
        parts.append(f"the next best method is {clean(others[0])} ({behind})")
    # Differences are to the reference: they say how far methods are from the best one only where it is the best.
    gaps = {method: result.of(method).gap(setting) for method in level} if standing.best == name else {}
    parts += _comparable(result, level, standing.inconclusive, gaps)
    worse = [m for m in others if m not in standing.level and (setting == RECORDED or m in verdict.level_on_record)]
    if worse and (level or standing.best != name):
        parts.append(f"{listed(worse)} {_be(worse)} worse")
    return "; ".join(parts) + "."


def _comparable(
    result: Findings, level: Sequence[str], inconclusive: Sequence[str], gaps: Mapping[str, Estimated]
) -> list[str]:
    """Which methods are equivalent to the best one, and which cannot be distinguished from it: parts of a sentence."""
    parts = []
    unclear = [method for method in level if method in inconclusive]
    equivalent = [method for method in level if method not in inconclusive]
    for names, what in (
        (equivalent, f"equivalent to the best (within {margin_in_words(result)})"),
        (unclear, f"not significantly different from it over {count(result.seeds, 'seed')}"),
    ):
        few = len(names) <= _MOST_WITH_INTERVAL
        shown = [f"{m} ({_difference(result.kind, gaps[m])})" if few and m in gaps else m for m in names]
        if names:
            parts.append(f"{listed(shown)} {_be(names)} {what}")
    return parts


def _too_few(result: Findings) -> list[str]:
    """Where intervals are so wide that differences of many points cannot be excluded."""
    far = result.least_difference(max(_FEW, result.margin))
    others = [method for method in result.verdict.level_on_record if method != result.verdict.recommended]
    if not any(result.of(method).gap().open(far) for method in others):
        return []
    few = "1 seed is" if result.seeds == 1 else f"{result.seeds} seeds are"
    return [f"{few} too few for a firm answer: run more (--seeds)."]


def _served(result: Findings) -> list[str]:
    """The accuracy of the worst-served tenth, against the floor and against other methods."""
    name = result.verdict.recommended
    if name is None or result.kind != "accuracy":
        return []
    worst, floor = result.of(name).recorded.worst, result.constraints.floor
    if worst.mean is None:
        return []
    sentence = f"For the worst-served tenth of the devices, {clean(name)} reaches {_worst(worst)}"
    if floor is not None and worst.low is not None and worst.low < floor:
        sentence += f", not significantly above the floor of {percent(floor)}"
    gaps = [(gap, r) for r in result.methods if not r.diverged and (gap := r.recorded.worst_difference) is not None]
    kinder = [(gap, r) for gap, r in gaps if (gap.low or 0.0) > 0]
    if kinder:
        gap, kindest = max(kinder, key=lambda one: one[0].mean or 0.0)
        refused = " (excluded by the constraints)" if kindest.refused else ""
        sentence += f"; {clean(kindest.method)}{refused} serves them best, {_difference('accuracy', gap)}"
    elif len(gaps) > 1:
        sentence += "; no other candidate is significantly better for them"
    if result.served_worst and not result.problem.stand_in:
        sentence += f". They are {listed([row.device for row in result.served_worst], _DEVICES_NAMED)}"
    return [sentence + "."]


class Change(NamedTuple):
    """Another case that was tried."""

    kind: str
    when: str
    sentence: str
    best: str
    outcome: Literal["changes", "stays the same", "is uncertain"]  # the answer


def changes(result: Findings) -> list[Change]:
    """In which other cases the answer would be another one."""
    if result.verdict.reference is None:
        return []
    rows = [
        _change(result, "A shorter run", f"after {count(row.rounds, 'round')}", row.case)
        for row in result.horizons
        if row.share < 1
    ]
    rows += [_change(result, "Another fleet", row.words, row.case) for row in result.scenarios]
    for row in result.relaxed:
        when, could = f"without {_LIMITS[row.constraint]}", f"{listed(row.freed)} could be used; "
        rows.append(_change(result, "Fewer limits", when, row.case, could, row.open))
    return rows


def _change(
    result: Findings, kind: str, when: str, case: CaseVerdict, before: str = "", inconclusive: bool | None = None
) -> Change:
    reference, best = result.verdict.reference, clean(case.best)
    if inconclusive is None:
        inconclusive = bool(case.inconclusive) if case.best == reference else reference in case.inconclusive
    outcome = "changes" if case.changes else "is uncertain" if inconclusive else "stays the same"
    if case.best == reference:
        level = [method for method in case.level if method != reference]
        first = f"{best} {'has the best mean' if case.inconclusive else 'is best'}"
        sentence = "; ".join([first, *_comparable(result, level, [*case.inconclusive], case.inconclusive)])
    elif case.diverged:
        sentence = f"{clean(reference)} diverges under {count(case.diverged, 'seed')}, and {best} is best"
    else:
        mean, low, high = case.difference
        gap = f"{size(result.kind, mean or 0.0)} {'below' if (mean or 0.0) < 0 else 'above'} {clean(reference)}"
        sentence = f"{best} ends {gap} ({_interval(result.kind, low, high)})"
        if outcome == "is uncertain" and case.difference.low is not None:
            sentence += f", which is not significant over {count(result.seeds, 'seed')}"
    return Change(kind, when, f"{when[0].upper()}{when[1:]}, {before}{sentence}.", best, outcome)


def _changes_in_short(result: Findings) -> list[str]:
    rows = changes(result) if result.verdict.recommended is not None else []
    parts = []
    for outcome in ("stays the same", "changes", "is uncertain"):
        those = [row for row in rows if row.outcome == outcome]
        which = f" ({'; '.join(f'{row.when}: {row.best}' for row in those)})" if outcome == "changes" else ""
        if those:
            parts.append(f"{outcome} in {'all ' if len(those) == len(rows) > 1 else ''}{len(those)}{which}")
    return [f"Among {count(len(rows), 'other case')}, the answer {text.listed(parts)}."] if parts else []


def _reached(result: Findings, method: str | None, setting: str) -> str:
    """`71.2% test accuracy after 200 rounds (mean of 8 seeds)`."""
    at = value(result.kind, result.of(method).ended(setting).final.mean)
    if setting != RECORDED:
        return at
    what = f"{at} test accuracy" if result.kind == "accuracy" else f"an objective of {at}"
    return f"{what} after {count(result.rounds, 'round')} (mean of {count(result.seeds, 'seed')})"


def _difference(kind: Metric, gap: Estimated) -> str:
    """`+0.20 points; 95% interval +0.10 to +0.30`."""
    unit = " points" if kind == "accuracy" else ""
    return f"{change(kind, gap.mean)}{unit}; {_interval(kind, gap.low, gap.high)}"


def _interval(kind: Metric, low: float | None, high: float | None) -> str:
    return "no interval" if low is None else f"95% interval {change(kind, low)} to {change(kind, high)}"


def _worst(accuracy: Estimated) -> str:
    mean, low, high = accuracy
    interval = "" if low is None or high is None else f" (95% interval {spread('accuracy', low, high)})"
    return f"{percent(mean)}{interval}"


def margin_in_words(result: Findings) -> str:
    """The smallest difference that matters: `0.5 points`, `0.5% of the objective`."""
    part = round(100 * result.margin, 6)
    unit = "% of the objective" if result.kind == "objective" else " point" if part == 1 else " points"
    return f"{part:g}{unit}"


def listed(names: Sequence[str], most: int = _MOST_NAMED) -> str:
    """`A, B and C`."""
    names = [clean(name) for name in names]
    more = [f"{len(names) - most:,} more"] if len(names) > most else []
    return text.listed(names[:most] + more)


def _be(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _ranked(result: Findings, setting: str) -> list[str]:
    """The methods besides the reference that could have been recommended, best first."""
    sign = -1 if result.kind == "accuracy" else 1
    out = ("excluded", "diverged", "below the floor")
    rows = [row for row in result.methods if row.verdict not in out and row.method != result.verdict.reference]
    ended = [(sign * mean, row.method) for row in rows if (mean := row.ended(setting).final.mean) is not None]
    return [method for _, method in sorted(ended, key=lambda one: one[0])]
