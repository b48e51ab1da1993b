"""Turns of phrase that the answer of a recommendation and what would change it share."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedtide.report.statistics import Metric
from fedtide.report.words import change, clean, count, percent, size, value

_MOST_NAMED = 8
_MOST_SPELT = 2  # methods, with their intervals in a sentence


def told_apart(gap: Mapping[str, float | None]) -> bool:
    """Whether an interval leaves 0 out."""
    return gap["low"] is not None and gap["high"] is not None and not gap["low"] <= 0 <= gap["high"]


def untold(gap: Mapping[str, float | None], margin: float) -> bool:
    """Whether noise leaves open who is better, and that it matters: an interval on both sides of 0, beyond the margin.

    One seed has no interval and leaves everything open.
    """
    low, high = gap["low"], gap["high"]
    if low is None or high is None:
        return True
    return low <= 0 <= high and max(-low, high) > margin


def cannot_tell(kind: Metric, gaps: Mapping[str, Mapping[str, Any]], seeds: int, other: str = "it") -> str:
    """`2 seeds cannot tell A from it (−3.10 points; 95% interval −9.00 to +2.80)`."""
    by = count(seeds, "seed")
    if len(gaps) <= _MOST_SPELT:
        return f"{by} cannot tell {listed([f'{m} ({against(kind, gap)})' for m, gap in gaps.items()])} from {other}"
    ends = [abs(end) for gap in gaps.values() for end in (gap["low"], gap["high"]) if end is not None]
    reach = f" (the 95% intervals reach as far as {size(kind, max(ends))})" if ends else ""
    return f"{by} cannot tell {listed(list(gaps))} from {other}{reach}"


def against(kind: Metric, gap: Mapping[str, Any]) -> str:
    """`+0.20 points; 95% interval +0.10 to +0.30`."""
    told = f"{change(kind, gap['mean'])}{' points' if kind == 'accuracy' else ''}"
    if gap["low"] is None:
        return f"{told}; no interval"
    return f"{told}; 95% interval {change(kind, gap['low'])} to {change(kind, gap['high'])}"


def end(names: Sequence[str]) -> str:
    return "ends" if len(names) == 1 else "end"


def be(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def fall(names: Sequence[str]) -> str:
    return "falls" if len(names) == 1 else "fall"


def listed(names: Sequence[str], most: int = _MOST_NAMED) -> str:
    """`A, B and C`."""
    names = [clean(name) for name in names]
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most:,} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def reached(about: Mapping[str, Any], method: str) -> str:
    kind, row = about["kind"], row_of(about, method)
    what = f"{value(kind, row['recorded']['mean'])} test accuracy"
    if kind != "accuracy":
        what = f"an objective of {value(kind, row['recorded']['mean'])}"
    return f"{what} after {count(about['rounds'], 'round')} (mean of {count(about['seeds'], 'seed')})"


def row_of(about: Mapping[str, Any], method: str) -> Mapping[str, Any]:
    return next(row for row in about["methods"] if row["method"] == method)


def apart(kind: Metric, gap: Mapping[str, float], flip: bool = False) -> str:
    """`0.42 points above`."""
    mean = -gap["mean"] if flip else gap["mean"]
    return f"{size(kind, mean)} {'above' if mean > 0 else 'below' if mean < 0 else 'from'}"


def interval(kind: Metric, gap: Mapping[str, float | None], flip: bool = False) -> str:
    low, high = gap["low"], gap["high"]
    if low is None or high is None:
        return "(one seed: no interval)"
    if flip:
        low, high = -high, -low
    return f"(95% interval {change(kind, low)} to {change(kind, high)})"


def share(part: float) -> str:
    return {0.25: "a quarter", 0.5: "half"}.get(part, percent(part, 0))


def in_letters(n: int) -> str:
    return {3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine"}.get(n, str(n))
