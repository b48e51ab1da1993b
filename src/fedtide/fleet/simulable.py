"""Fleets with given devices, clock and missing rounds, simulated fast: what fits by simulation look at."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fedtide.fleet.model import Profile
from fedtide.fleet.runs import Law, again, expected
from fedtide.fleet.slots import DAY, HERE, UNKNOWN, Slots
from fedtide.fleet.waves import balance, bent, waves

_ENTRIES = 250_000  # rounds × devices that are simulated at a time
_CHUNK = 2_000_000  # entries of an array


class Simulable(NamedTuple):
    """Devices to simulate; [N], or [rounds, N]."""

    pi: np.ndarray
    kept: np.ndarray  # probability to keep one's number, as a chain
    changes: np.ndarray  # arrivals a round, otherwise
    threshold: np.ndarray  # [N, rounds] π(t)
    unknown: np.ndarray  # [N, rounds]
    hours: float  # of a round


def simulable(
    slots: Slots, profile: Profile, pi: np.ndarray, hours: np.ndarray, state: np.ndarray,
    habit: np.ndarray | None = None,
) -> Simulable:  # fmt: skip
    """Devices of these π and relaxation times that follow the clock, and each its own `habit` [N, columns]."""
    clock, swing = _clock(slots, profile, pi)
    round_hours = slots.round_seconds / 3600
    lam, after = np.exp(-round_hours / hours), np.roll(clock, -1)
    if habit is None:
        threshold = pi[:, None] * (1 + swing[:, None] * clock)
        once = pi * (1 + swing * np.minimum(clock, after).mean())
        twice = pi**2 * (1 + swing**2 * (clock * after).mean())
        turns = again(pi, threshold)
    else:
        times, place = clock_times(slots, profile)
        cycle = presence(slots, profile, pi, times, habit)
        later = np.roll(cycle, -1, 1)
        once, twice, turns = np.minimum(cycle, later).mean(1), (cycle * later).mean(1), again(pi, cycle)
        threshold = cycle[:, place]
    kept = np.clip((pi**2 + lam * pi * (1 - pi) - twice) / np.maximum(once - twice, 1e-9), 0, 1 - 1e-6)
    return Simulable(pi, kept, turns.changes(pi, lam), threshold, (state == UNKNOWN).T, round_hours)


def presence(
    slots: Slots, profile: Profile, pi: np.ndarray, times: np.ndarray, habit: np.ndarray | None = None
) -> np.ndarray:
    """[N, times] π(t) of devices in these rounds."""
    clock, swing = _clock(slots, profile, pi)
    shared = pi[:, None] * (1 + swing[:, None] * clock[times])
    if habit is None:
        return shared
    wave = habit @ waves(slots.seconds[times], habit.shape[1]).T
    return bent(shared, wave - balance(shared, wave)[:, None])


def _clock(slots: Slots, profile: Profile, pi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """d in each round, and how far each device can follow it."""
    clock = profile.relative(slots.seconds, slots.weekdays)
    return clock, np.minimum(1, (1 - pi) / np.maximum(pi * max(float(clock.max()), 1e-12), 1e-12))


def chunks(count: int, width: int) -> Iterator[slice]:
    """Parts of `count` devices with so many entries each that arrays stay small."""
    each = max(1, _CHUNK // max(width, 1))
    return (slice(first, first + each) for first in range(0, count, each))


def clock_times(slots: Slots, profile: Profile) -> tuple[np.ndarray, np.ndarray]:
    """Rounds at which the clock shows each of its times for the first time, in their order, and of which of them each
    round shows the time. All rounds, where days are no whole number of them."""
    if DAY % slots.round_seconds:
        return np.arange(slots.rounds), np.arange(slots.rounds)
    time = slots.seconds
    if profile.weekday is not None and slots.weekdays is not None:
        time = time + DAY * slots.weekdays
    return np.unique(time, return_index=True, return_inverse=True)[1:]


def usable(slots: Slots, pi: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Numbers of devices that came or went, at most as many as are simulated in a short time."""
    usable = np.flatnonzero((pi > 1e-4) & (pi < 1 - 1e-4) & ((slots.state == HERE).any(0)))
    most = max(50, _ENTRIES // slots.rounds)
    return usable if len(usable) <= most else np.sort(generator.choice(usable, most, replace=False))


class _Runs(NamedTuple):
    """Runs of all devices, one after the other, some more than there are rounds for."""

    owner: np.ndarray
    place: np.ndarray  # number of the run among its device's
    first: np.ndarray  # [N] each device's first run
    rounds: int

    def spread(self, values: np.ndarray, length: np.ndarray) -> np.ndarray:
        """[N, rounds] values of runs that last so long; the last as long as there is."""
        end = length.cumsum()
        end = np.minimum(end - (end - length)[self.first][self.owner], self.rounds)
        length = np.diff(end, prepend=0)
        length[self.first] = end[self.first]
        last = np.r_[self.first[1:], len(end)] - 1
        length[last] += self.rounds - end[last]
        return np.repeat(values, length).reshape(len(self.first), self.rounds)


def _runs(rate: np.ndarray, rounds: int) -> _Runs:
    """Enough of them for devices that begin so many a round."""
    count = np.minimum(rounds, (rounds * rate + 6 * np.sqrt(rounds * rate)).astype(int) + 10)
    owner, first = np.repeat(np.arange(len(rate)), count), np.cumsum(count) - count
    return _Runs(owner, np.arange(len(owner)) - first[owner], first, rounds)


def chains(fleet: Simulable, generator: np.random.Generator) -> np.ndarray:
    runs = _runs(1 - fleet.kept, fleet.threshold.shape[1])
    length = generator.geometric(1 - fleet.kept[runs.owner])
    return runs.spread(generator.random(len(length)), length) < fleet.threshold


def alternating(fleet: Simulable, laws: tuple[Law, Law], generator: np.random.Generator) -> np.ndarray:
    """Runs of both laws (absences, stays) in turn."""
    # Two runs for an arrival; lengths vary more than a chain's, so half as many more than expected.
    runs = _runs(3 * fleet.changes, fleet.threshold.shape[1])
    opening = runs.place == 0
    there = (runs.place % 2 == 0) == (generator.random(len(fleet.pi)) < fleet.pi)[runs.owner]
    length = np.empty(len(runs.owner), np.intp)
    for state, one in enumerate(laws):
        first, others = (np.flatnonzero((there == state) & which) for which in (opening, ~opening))
        length[first] = going_on(one, runs.owner[first], generator)
        length[others] = whole_runs(one, runs.owner[others], generator)
    pi, level = fleet.pi[runs.owner], generator.random(len(runs.owner))
    return runs.spread(np.where(there, pi * level, pi + (1 - pi) * level), length) < fleet.threshold


def whole_runs(one: Law, owner: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Lengths of runs of these devices."""
    group, place, up = _group(one.share, owner, generator), generator.random(len(owner)), generator.random(len(owner))
    length = one.edges[group] * (one.edges[group + 1] / one.edges[group]) ** place * one.scale[owner]
    return np.maximum(np.floor(length + up), 1).astype(np.intp)


def going_on(one: Law, owner: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Rounds that are left, this one included, of runs that are met at any time: long ones are met more often."""
    group = _group(one.share * expected(one.edges, one.scale), owner, generator)
    place, up, left = generator.random((3, len(owner)))
    low, high = one.edges[group] * one.scale[owner], one.edges[group + 1] * one.scale[owner]
    least = np.clip(1.0, low, high)
    under = np.log(least / low)
    length = np.maximum(least + place * (under + high - least) - under, 1)
    short = np.floor(length)
    length = short + (up * length < (length - short) * (short + 1))
    return np.floor(left * length).astype(np.intp) + 1


def _group(weight: np.ndarray, owner: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    below = np.cumsum(weight, 1)
    below = below[:, :-1] / below[:, -1:]
    return (below[owner] <= generator.random(len(owner))[:, None]).sum(1)
