"""Do transition probabilities depend on more than the state: the previous round, the hour, the weekend, age?"""

from typing import NamedTuple

import numpy as np

from fedtide.fleet.diagnosis import findings
from fedtide.fleet.diagnosis.contrasts import above, band, bands, likelihood_ratio, pooled, rejections, transitions
from fedtide.fleet.diagnosis.nulls import Evidence

BEGIN = (1, 2, 3, 5, 9, 17)  # rounds at which each class of ages begins
LEAST_RUNS = 20  # complete stays, and absences
_LEAST_AT_RISK = 10  # runs behind a point of the survival curve
_LEAST_WEEK = 14  # days


class GroupRates(NamedTuple):
    """Transitions by group, of one or several fleets."""

    ratio: np.ndarray  # [fleets, devices] likelihood ratio of a rate in each group to one rate
    rates: np.ndarray  # [fleets, groups, 2] of arriving and leaving, relative to devices' averages
    distance: np.ndarray  # [fleets] of all devices together from constant rates


class Dwell(NamedTuple):
    """By age, and the lengths of runs."""

    ratio: np.ndarray
    rates: np.ndarray
    distance: np.ndarray
    survival: np.ndarray  # [fleets, 2, rounds] of absences and stays
    ended: np.ndarray  # [fleets, 2]


def measure_order(here: np.ndarray, found: Evidence) -> GroupRates:
    """Second against first order, over triples of consecutive rounds that are all observed."""
    first, second, third = here[:-2], here[1:-1], here[2:]
    counted = found.seen[:-2] & found.seen[1:-1] & found.seen[2:]
    return _rates(transitions(first == second, second, second != third, counted, 2))


def measure_day(here: np.ndarray, found: Evidence) -> GroupRates:
    """Transitions by the quarter of the day in which they end, against the same at all hours."""
    return _by(here, found, found.clock.hours // 6, 4)


def measure_week(here: np.ndarray, found: Evidence) -> GroupRates:
    assert found.clock.weekdays is not None
    return _by(here, found, found.clock.weekdays >= 5, 2)


def _by(here: np.ndarray, found: Evidence, group: np.ndarray, groups: int) -> GroupRates:
    label = group[1:, None, None].astype(np.uint8)
    return _rates(transitions(label, here[:-1], here[:-1] != here[1:], found.pairs, groups))


def _rates(counts: np.ndarray) -> GroupRates:
    return GroupRates(likelihood_ratio(counts), *pooled(counts))


def measure_dwell(here: np.ndarray, found: Evidence) -> Dwell:
    age = ages(here, found.seen)
    # Classes fit into uint8; class −1 (unknown age) is not counted.
    group = np.searchsorted(BEGIN, np.arange(age.max() + 1), side="right").astype(np.uint8)[age[:-1]] - np.uint8(1)
    counted = found.pairs & (age[:-1] > 0)
    rates = _rates(transitions(group, here[:-1], here[:-1] != here[1:], counted, len(BEGIN)))
    longest = max(2, min(found.clock.rounds, round(48 / found.hours)))  # the figure shows two days, or the record
    table = runs(here, found.seen, age, longest)
    return Dwell(*rates, survival(table)[..., :-1], table[..., 1].sum(-1))


def conclude(
    name: findings.Name, recorded: GroupRates, null: GroupRates, found: Evidence
) -> findings.Decided | findings.Undecided:
    """Order, hour and weekend: do more devices reject equal rates, each by its own test, than chains would?"""
    clearest, tests = _clearest(recorded, null), _tests(recorded, null, found)
    if tests is None:
        return findings.Undecided(name, "few changes")
    alone, p, figure = tests
    return findings.Decided(name, alone.share, alone.null, p, figure, alone=alone, clearest=clearest)


def no_week(found: Evidence, name: findings.Name) -> findings.Undecided | None:
    """Why weekends cannot be compared; None if they can."""
    if found.clock.weekdays is None:
        return findings.Undecided(name, "no date")
    return findings.Undecided(name, "under two weeks", (found.days,)) if found.days < _LEAST_WEEK else None


def conclude_dwell(
    name: findings.Name, recorded: Dwell, null: Dwell, found: Evidence
) -> findings.Decided | findings.Undecided:
    """Tests the pooled distance: a hazard that changes with age is detected in the fleet before it is in one device."""
    complete = int(recorded.ended[0, 0]), int(recorded.ended[0, 1])
    if min(complete) < LEAST_RUNS:
        return findings.Undecided(name, "few runs", complete[::-1])
    alone, _, rates = _tests(recorded, null, found) or (None, 1.0, None)
    absences, stays = (
        survival_curve(recorded.survival[0, state], null.survival[:, state], found.hours) for state in (0, 1)
    )
    figure = findings.RunsFigure(absences, stays, rates)
    distance = float(recorded.distance[0])
    p, chance = above(distance, null.distance), band(null.distance)
    clearest = _clearest(recorded, null)
    return findings.Decided(name, distance, chance, p, figure, alone=alone, clearest=clearest, runs=complete)


def _clearest(recorded: GroupRates | Dwell, null: GroupRates | Dwell) -> findings.Clearest | None:
    """The rate that is furthest off."""
    low, mean, high = bands(null.rates)
    rates = recorded.rates[0]
    # In widths of the null, so that small groups, whose rates vary more, are not selected for their noise.
    far = np.nan_to_num(np.abs(rates - mean) / np.where(high > low, high - low, np.inf))
    at = divmod(int(np.argmax(far)), far.shape[1])
    return findings.Clearest(*at, rates[at], low[at], high[at]) if far[at] > 0 else None


def _tests(
    recorded: GroupRates | Dwell, null: GroupRates | Dwell, found: Evidence
) -> tuple[findings.Alone, float, findings.RatesFigure] | None:
    """Devices' own tests, p of the share of them that rejects, and the figure; None where no device has its own."""
    able = found.testable
    if not able.any():
        return None
    tests = rejections(recorded.ratio[:, able], null.ratio[:, able])
    low, _, high = bands(null.rates)
    rates = (findings.Rates(recorded.rates[0, :, state], low[:, state], high[:, state]) for state in (0, 1))
    alone = findings.Alone(tests.share, band(tests.null), int(able.sum()))
    return alone, above(tests.share, tests.null), findings.RatesFigure(np.sort(tests.p), *rates)


def survival_curve(recorded: np.ndarray, simulated: np.ndarray, hours: float) -> findings.RecordedCurve:
    """The record's survival [rounds] among those of fleets [fleets, rounds], for rounds of so many hours."""
    known = max(1, int((~np.isnan(recorded)).sum()))  # points, up to where runs are too few
    # Simulated fleets may have too few long runs to continue their curve, which is then constant.
    simulated = np.minimum.accumulate(np.nan_to_num(simulated[:, :known], nan=np.inf), 1)
    low, high = np.quantile(simulated, [0.025, 0.975], axis=0)
    return findings.RecordedCurve(np.arange(known) * hours, recorded[:known], low, high, simulated.mean(0))


def ages(here: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """uint16 [rounds, fleets, devices]: for how many rounds each device has been in its state; 0 where that is unknown
    because the run's beginning was not observed."""
    age = np.zeros(here.shape, np.uint16)
    for t in range(1, len(here)):
        same, before = here[t] == here[t - 1], age[t - 1]
        longer = np.minimum(before, np.uint16(65_534)) + (before > 0)
        age[t] = np.where(same, longer, 1) * (seen[t] & seen[t - 1])
    return age


def runs(here: np.ndarray, seen: np.ndarray, age: np.ndarray, longest: int) -> np.ndarray:
    """[fleets, 2, longest + 1, 2]: rounds of known age, by state, age (the last: that or more), whether the run ended
    with them. A censored run counts up to its last round but one."""
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
    # Censored runs count while they are observed: without them, long runs would be too few.
    at_risk, ended = table.sum(-1), table[..., 1]
    kept = np.cumprod(1 - ended / np.maximum(at_risk, 1), -1)
    enough = np.cumprod(at_risk[..., 1:] >= least, -1).astype(bool)
    kept[..., 1:] = np.where(enough, kept[..., 1:], np.nan)
    return kept
