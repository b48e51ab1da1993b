"""Are the lengths of stays and absences geometric, as a chain's are?"""

from typing import Any

import numpy as np

from fedtide.fleet.contrasts import LEVEL, above, band, likelihood_ratio, pooled, rejections, transitions
from fedtide.fleet.diagnosis import Finding
from fedtide.fleet.diagnosis_words import percent, span, strongest, undecided
from fedtide.fleet.nulls import Evidence
from fedtide.fleet.order import figure

QUESTION = "Does the chance of leaving, or of coming back, stay the same however long a device has been here, or away?"
_BEGIN = (1, 2, 3, 5, 9, 17)  # rounds at which each class of ages begins
_LEAST_RUNS = 20
_LEAST_AT_RISK = 10  # runs behind a point of the survival curve


def ages(here: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """uint16 [rounds, fleets, devices]: for how many rounds each device has been as it is; 0 where that is unknown
    because nothing was known before."""
    age = np.zeros(here.shape, np.uint16)
    for t in range(1, len(here)):
        same, before = here[t] == here[t - 1], age[t - 1]
        longer = np.minimum(before, np.uint16(65_534)) + (before > 0)
        age[t] = np.where(same, longer, 1) * (seen[t] & seen[t - 1])
    return age


def runs(here: np.ndarray, seen: np.ndarray, age: np.ndarray, longest: int) -> np.ndarray:
    """[fleets, 2, longest + 1, 2]: rounds of known age, by state, age (the last: that or more), whether the run ended
    with them. A run whose end was not seen counts up to its last round but one."""
    fleets = here.shape[1]
    counted = seen[1:] & seen[:-1] & (age[:-1] > 0)
    table = np.zeros(fleets * 2 * (longest + 1) * 2, np.int64)
    step = max(1, 2_000_000 // here[0].size)
    fleet = np.arange(fleets)[:, None]
    for first in range(0, len(here) - 1, step):
        a, b = slice(first, first + step), slice(first + 1, min(first + step, len(here) - 1) + 1)
        now, after = here[:-1][a], here[b]
        code = (fleet * 2 + now) * (longest + 1) + np.minimum(age[:-1][a], longest)
        code = code * 2 + (now != after)
        table += np.bincount(code[np.broadcast_to(counted[a], code.shape)], minlength=table.size)
    return table.reshape(fleets, 2, longest + 1, 2)


def survival(table: np.ndarray, least: int = _LEAST_AT_RISK) -> np.ndarray:
    """[…, ages]: Kaplan and Meier's share of runs that last longer than 0, 1, 2 … rounds; NaN where fewer than
    `least` were seen for so long.

    Reference: Kaplan and Meier, "Nonparametric estimation from incomplete observations", JASA 1958.
    """
    at_risk, ended = table.sum(-1), table[..., 1]
    kept = np.cumprod(1 - ended / np.maximum(at_risk, 1), -1)
    enough = np.cumprod(at_risk[..., 1:] >= least, -1).astype(bool)
    kept[..., 1:] = np.where(enough, kept[..., 1:], np.nan)
    return kept


def measure(here: np.ndarray, found: Evidence) -> dict[str, np.ndarray]:
    age = ages(here, found.seen)
    # uint8 is enough for classes; class −1 (unknown age) is not counted.
    group = np.searchsorted(_BEGIN, np.arange(age.max() + 1), side="right").astype(np.uint8)[age[:-1]] - np.uint8(1)
    counted = found.seen[1:] & found.seen[:-1] & (age[:-1] > 0)
    counts = transitions(group, here[:-1], here[:-1] != here[1:], counted, len(_BEGIN))
    fleet = pooled(counts)
    table = runs(here, found.seen, age, _longest(found))
    measured = {"ratio": likelihood_ratio(counts), "rates": fleet.ratio, "distance": fleet.distance}
    return measured | {"survival": survival(table)[..., :-1], "ended": table[..., 1].sum(-1)}


def _classes(hours: float) -> tuple[str, ...]:
    """3 to 4 rounds (1.5 to 2 h)."""
    names = []
    for begin, after in zip(_BEGIN, (*_BEGIN[1:], 0), strict=True):
        if not after:
            names.append(f"{begin} rounds ({begin * hours:.2g} h) or more")
        elif after == begin + 1:
            names.append(f"{begin} round{'s' if begin > 1 else ''} ({begin * hours:.2g} h)")
        else:
            names.append(f"{begin} to {after - 1} rounds ({begin * hours:.2g} to {(after - 1) * hours:.2g} h)")
    return tuple(names)


def _longest(found: Evidence) -> int:
    """Rounds up to which run lengths are drawn: two days, or the record."""
    return max(2, min(found.clock.rounds, round(48 / found.hours)))


def conclude(
    recorded: dict[str, np.ndarray], null: dict[str, np.ndarray], found: Evidence, level: float = LEVEL
) -> Finding:
    away, there = recorded["ended"][0]
    if min(away, there) < _LEAST_RUNS:
        reason = (
            f"{there} stays and {away} absences were seen from beginning to end, and {_LEAST_RUNS} of each are needed"
        )
        return undecided("dwell", QUESTION, reason)
    distance, chance = float(recorded["distance"][0]), band(null["distance"])
    p = above(distance, null["distance"])
    holds, able, names = p > level, found.testable, _classes(found.hours)
    few = f"{there} stays and {away} absences that were seen from beginning to end"
    if holds:
        sentence = f"Stays and absences are as long as a chain makes them, as far as {few} can tell."
    else:
        phrases = [
            (f"devices that have been away for {age} come", f"devices that have been here for {age} leave")
            for age in names
        ]
        clear = strongest(recorded, null, phrases)
        sentence = f"Stays and absences are not as long as a chain makes them, by {few}.{clear}"
    shown: dict[str, Any] = {}
    if able.any():
        tests = rejections(recorded["ratio"][:, able], null["ratio"][:, able])
        shown = figure(recorded, null, names, tests.p)
        by_chance = span(*band(tests.null))
        sentence += (
            f" Taken alone, {percent(tests.share)} % of {able.sum()} devices show it ({by_chance} % would by chance)."
        )
    for state, name in enumerate(("absences", "stays")):
        curve = recorded["survival"][0, state]
        last = int(np.argmax(np.isnan(curve))) if np.isnan(curve).any() else len(curve)
        shown[name] = _curve(curve[:last], null["survival"][:, state, :last], found.hours)
    return Finding("dwell", QUESTION, sentence, holds, distance, chance, p, shown)


def _curve(recorded: np.ndarray, null: np.ndarray, hours: float) -> dict[str, list[float]]:
    # Simulated fleets may have fewer long runs than are needed for their curve: there it stays where it was.
    null = np.minimum.accumulate(np.nan_to_num(null, nan=np.inf), 1)
    low, high = np.quantile(null, [0.025, 0.975], axis=0)
    return {
        "hours": (np.arange(len(recorded)) * hours).tolist(),
        "recorded": recorded.tolist(),
        "expected": null.mean(0).tolist(),
        "low": low.tolist(),
        "high": high.tolist(),
    }
