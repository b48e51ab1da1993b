"""Fast simulation of fleets with given devices, clock and missing rounds, for fits by simulation."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fedtide.availability import daily
from fedtide.fleet.model import Profile
from fedtide.fleet.process.run_lengths import Law, again, expected, lasting, left
from fedtide.fleet.process.waves import balance, bent, there_again, waves
from fedtide.fleet.slots import DAY, HERE, UNKNOWN, Slots

_ENTRIES = 250_000  # rounds × devices per simulation
_CHUNK = 2_000_000  # entries of an array


class Simulable(NamedTuple):
    """Devices to simulate; [N], or [rounds, N]."""

    pi: np.ndarray
    kept: np.ndarray  # probability to keep the number, for geometric runs
    changes: np.ndarray  # arrivals per round, for other runs
    threshold: np.ndarray  # [N, rounds] π(t)
    unknown: np.ndarray  # [N, rounds]
    hours: float  # of a round


def simulable(
    slots: Slots, profile: Profile, pi: np.ndarray, hours: np.ndarray, state: np.ndarray,
    habit: np.ndarray | None = None,
) -> Simulable:  # fmt: skip
    """Devices with these π and relaxation times that follow the clock and, if given, their `habit` [N, columns]."""
    clock, follow = _clock(slots, profile, pi)
    round_hours = slots.round_seconds / 3600
    lam = np.exp(-round_hours / hours)
    if habit is None:
        threshold = pi[:, None] * (1 + follow[:, None] * clock)
        once, twice = daily.again(pi, follow, clock)
        turns = again(pi, threshold)
    else:
        times, place = clock_times(slots, profile)
        cycle = presence(slots, profile, pi, times, habit)
        once, twice = there_again(cycle)
        turns = again(pi, cycle)
        threshold = cycle[:, place]
    kept = np.clip((pi**2 + lam * pi * (1 - pi) - twice) / np.maximum(once - twice, 1e-9), 0, 1 - 1e-6)
    return Simulable(pi, kept, turns.changes(pi, lam), threshold, (state == UNKNOWN).T, round_hours)


def presence(
    slots: Slots, profile: Profile, pi: np.ndarray, times: np.ndarray, habit: np.ndarray | None = None
) -> np.ndarray:
    """[N, times] π(t) of devices in these rounds."""
    clock, follow = _clock(slots, profile, pi)
    shared = pi[:, None] * (1 + follow[:, None] * clock[times])
    if habit is None:
        return shared
    wave = habit @ waves(slots.seconds[times], habit.shape[1]).T
    return bent(shared, wave - balance(shared, wave)[:, None])


def _clock(slots: Slots, profile: Profile, pi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """d in each round, and the fraction of it that each device can follow."""
    clock = profile.relative(slots.seconds, slots.weekdays)
    return clock, daily.swing(pi, float(clock.max()))


def chunks(count: int, width: int) -> Iterator[slice]:
    """Slices of `count` devices with `width` entries each, such that arrays stay small."""
    each = max(1, _CHUNK // max(width, 1))
    return (slice(first, first + each) for first in range(0, count, each))


def clock_times(slots: Slots, profile: Profile) -> tuple[np.ndarray, np.ndarray]:
    """(The first round at each time of the clock, the index of its time for each round); all rounds if a day is not a
    whole number of rounds."""
    if DAY % slots.round_seconds:
        return np.arange(slots.rounds), np.arange(slots.rounds)
    time = slots.seconds
    if profile.weekday is not None and slots.weekdays is not None:
        time = time + DAY * slots.weekdays
    return np.unique(time, return_index=True, return_inverse=True)[1:]


def usable(slots: Slots, pi: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Indices of devices that change state, at most as many as can be simulated in a short time."""
    usable = np.flatnonzero((pi > 1e-4) & (pi < 1 - 1e-4) & ((slots.state == HERE).any(0)))
    most = max(50, _ENTRIES // slots.rounds)
    return usable if len(usable) <= most else np.sort(generator.choice(usable, most, replace=False))


class _Runs(NamedTuple):
    """Runs of all devices, one after the other; at least enough to fill the rounds."""

    owner: np.ndarray
    place: np.ndarray  # index of the run among those of its device
    first: np.ndarray  # [N] each device's first run
    rounds: int

    def spread(self, values: np.ndarray, length: np.ndarray) -> np.ndarray:
        """[N, rounds] the values of runs of these lengths; the last run fills the remaining rounds."""
        end = length.cumsum()
        end = np.minimum(end - (end - length)[self.first][self.owner], self.rounds)
        length = np.diff(end, prepend=0)
        length[self.first] = end[self.first]
        last = np.r_[self.first[1:], len(end)] - 1
        length[last] += self.rounds - end[last]
        return np.repeat(values, length).reshape(len(self.first), self.rounds)


def _runs(rate: np.ndarray, rounds: int) -> _Runs:
    """Enough runs for devices that begin `rate` of them per round."""
    count = np.minimum(rounds, (rounds * rate + 6 * np.sqrt(rounds * rate)).astype(int) + 10)
    owner, first = np.repeat(np.arange(len(rate)), count), np.cumsum(count) - count
    return _Runs(owner, np.arange(len(owner)) - first[owner], first, rounds)


def chains(fleet: Simulable, generator: np.random.Generator) -> np.ndarray:
    runs = _runs(1 - fleet.kept, fleet.threshold.shape[1])
    length = generator.geometric(1 - fleet.kept[runs.owner])
    return runs.spread(generator.random(len(length)), length) < fleet.threshold


def alternating(fleet: Simulable, laws: tuple[Law, Law], generator: np.random.Generator) -> np.ndarray:
    """Alternating runs of the two laws (absences, stays)."""
    # Two runs per arrival, and half as many more because lengths vary more than geometric ones.
    runs = _runs(3 * fleet.changes, fleet.threshold.shape[1])
    opening = runs.place == 0
    available = (runs.place % 2 == 0) == (generator.random(len(fleet.pi)) < fleet.pi)[runs.owner]
    length = np.empty(len(runs.owner), np.intp)
    for state, one in enumerate(laws):
        first, others = (np.flatnonzero((available == state) & which) for which in (opening, ~opening))
        length[first] = going_on(one, runs.owner[first], generator)
        length[others] = whole_runs(one, runs.owner[others], generator)
    pi, level = fleet.pi[runs.owner], generator.random(len(runs.owner))
    return runs.spread(np.where(available, pi * level, pi + (1 - pi) * level), length) < fleet.threshold


def whole_runs(one: Law, owner: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Lengths of runs of these devices."""
    group, place, up = _group(one.share, owner, generator), generator.random(len(owner)), generator.random(len(owner))
    return lasting(np, one.edges[group], one.edges[group + 1], one.scale[owner], place, up).astype(np.intp)


def going_on(one: Law, owner: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Remaining rounds of these devices' first runs."""
    group = _group(one.share * expected(one.edges, one.scale), owner, generator)
    low, high = one.edges[group] * one.scale[owner], one.edges[group + 1] * one.scale[owner]
    return left(np, low, high, *generator.random((3, len(owner)))).astype(np.intp)


def _group(weight: np.ndarray, owner: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    below = np.cumsum(weight, 1)
    below = below[:, :-1] / below[:, -1:]
    return (below[owner] <= generator.random(len(owner))[:, None]).sum(1)
