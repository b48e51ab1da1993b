"""How long stays and absences last, beyond their mean: fitted by simulation."""

from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit

from fedtide.fleet.model import Lengths, Profile
from fedtide.fleet.runs import Law, again, law
from fedtide.fleet.slots import HERE, UNKNOWN, Slots

CHAINS = 59  # simulated fleets of chains; one more distant than all of them has a chance of 1 in 60
LEAST = 100  # stays, and absences, that were seen from beginning to end
_ENTRIES = 250_000  # rounds × devices that are simulated at a time
_COARSE, _FINE, _LAST = 2, 4, 16  # simulated fleets for each candidate
_STAGES = (1, 3, 8)
_GRID = tuple((w, r, m) for m in _STAGES for w in (0.2, 0.4, 0.6, 0.75, 0.88) for r in (2.5, 5.0, 10.0, 20.0))
_Shape = tuple[float, float, int]  # share of brief runs, how many times longer the others are, in how many stages


class _Fleet(NamedTuple):
    """Devices to simulate; [N], or [rounds, N]."""

    pi: np.ndarray
    kept: np.ndarray  # probability to keep one's number, as a chain
    changes: np.ndarray  # arrivals a round, otherwise
    threshold: np.ndarray  # [N, rounds] π(t)
    unknown: np.ndarray  # [N, rounds]
    hours: float  # of a round


def lengths(
    slots: Slots, profile: Profile, pi: np.ndarray, hours: np.ndarray, seed: int = 0
) -> tuple[Lengths, Lengths] | None:
    """The lengths of stays and of absences; None where a chain's are as good.

    Compared are the numbers of stays and absences by length, pooled over devices, of the record and of simulated
    fleets with the same devices, clock and missing rounds: Σ (2√recorded − 2√simulated)². None if that distance from
    chains is within those of 59 simulated fleets of chains, which true chains fail with probability 1/60; otherwise
    the closest on a grid, refined from its best for each number of stages. Members of clusters count as others.
    """
    generator = np.random.default_rng([seed, 0x1E26])
    some = _some(slots, pi, generator)
    if len(some) == 0:
        return None
    fleet = _fleet(slots, profile, pi[some], hours[some], slots.state[:, some])
    edges = _edges(slots.rounds)
    recorded = _tally((slots.state[:, some] == HERE).T, fleet.unknown, edges)
    if recorded.sum(1).min() < LEAST:
        return None
    simulated = [_tally(_chains(fleet, generator), fleet.unknown, edges) for _ in range(CHAINS)]
    total = np.sum(simulated, axis=0)
    others = [_distance(each, (total - each) / (CHAINS - 1)).sum() for each in simulated]
    if _distance(recorded, total / CHAINS).sum() <= max(others):
        return None
    away, there = _search(recorded, fleet, edges, seed)
    return _hours(there, fleet, fleet.pi), _hours(away, fleet, 1 - fleet.pi)


def _some(slots: Slots, pi: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    usable = np.flatnonzero((pi > 1e-4) & (pi < 1 - 1e-4) & ((slots.state == HERE).any(0)))
    most = max(50, _ENTRIES // slots.rounds)
    return usable if len(usable) <= most else np.sort(generator.choice(usable, most, replace=False))


def _fleet(slots: Slots, profile: Profile, pi: np.ndarray, hours: np.ndarray, state: np.ndarray) -> _Fleet:
    clock, round_hours = profile.relative(slots.seconds, slots.weekdays), slots.round_seconds / 3600
    swing = np.minimum(1, (1 - pi) / np.maximum(pi * max(float(clock.max()), 1e-12), 1e-12))
    lam, after = np.exp(-round_hours / hours), np.roll(clock, -1)
    once = pi * (1 + swing * np.minimum(clock, after).mean())
    twice = pi**2 * (1 + swing**2 * (clock * after).mean())
    kept = np.clip((pi**2 + lam * pi * (1 - pi) - twice) / np.maximum(once - twice, 1e-9), 0, 1 - 1e-6)
    changes = again(pi, swing, clock).changes(pi, lam)
    threshold = pi[:, None] * (1 + swing[:, None] * clock)
    return _Fleet(pi, kept, changes, threshold, (state == UNKNOWN).T, round_hours)


def _edges(rounds: int) -> np.ndarray:
    """Lengths at which classes begin: one by one, then a third wider each time."""
    edges = [1, 2, 3, 4, 6]
    while edges[-1] < rounds:
        edges.append(int(edges[-1] * 1.35) + 1)
    return np.asarray(edges)


def _tally(here: np.ndarray, unknown: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """[2, classes]: absences and stays that were seen from beginning to end, by length; arguments [N, rounds]."""
    state = np.full((len(here), here.shape[1] + 1), 2, np.int8)  # a column that is unknown ends every device
    state[:, :-1] = np.where(unknown, np.int8(2), here)
    flat = state.ravel()
    last = np.flatnonzero(np.diff(flat))  # of every run but the final, which is unknown
    length, kind = np.diff(last), flat[last[1:]].astype(np.intp)
    whole = (kind < 2) & (flat[last[:-1]] < 2) & (flat[last[1:] + 1] < 2)
    group = np.searchsorted(edges, length[whole], side="right") - 1
    return np.bincount(kind[whole] * len(edges) + group, minlength=2 * len(edges)).reshape(2, -1)


def _distance(number: np.ndarray, expected: np.ndarray) -> np.ndarray:
    return 4 * ((np.sqrt(number) - np.sqrt(expected)) ** 2).sum(-1)


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


def _chains(fleet: _Fleet, generator: np.random.Generator) -> np.ndarray:
    runs = _runs(1 - fleet.kept, fleet.threshold.shape[1])
    length = generator.geometric(1 - fleet.kept[runs.owner])
    return runs.spread(generator.random(len(length)), length) < fleet.threshold


def _simulated(fleet: _Fleet, laws: tuple[Law, Law], generator: np.random.Generator) -> np.ndarray:
    """Runs of both laws (absences, stays) in turn."""
    # Two runs for an arrival; lengths vary more than a chain's, so half as many more than expected.
    runs = _runs(3 * fleet.changes, fleet.threshold.shape[1])
    size, opening = len(runs.owner), runs.place == 0
    there = (runs.place % 2 == 0) == (generator.random(len(fleet.pi)) < fleet.pi)[runs.owner]
    which = there.astype(np.intp), runs.owner
    brief, short, long, stages = (np.stack(both)[which] for both in zip(*laws, strict=True))
    now_brief = np.stack([each.now_brief for each in laws])[which]
    is_brief = generator.random(size) < np.where(opening, now_brief, brief)
    passed = np.where(opening, np.floor(generator.random(size) * stages), 0).astype(np.intp)
    ahead = np.where(is_brief, 1, stages - passed)
    leave = np.minimum(np.where(is_brief, 1 / short, stages / long), 1)
    length = ahead + generator.negative_binomial(ahead, leave)
    pi, level = fleet.pi[runs.owner], generator.random(size)
    return runs.spread(np.where(there, pi * level, pi + (1 - pi) * level), length) < fleet.threshold


def _hours(shape: _Shape, fleet: _Fleet, share: np.ndarray) -> Lengths:
    """With the typical mean of the fleet's runs in a state of which devices have this share."""
    brief, ratio, stages = shape
    typical = float(np.exp(np.log(share / fleet.changes).mean())) * fleet.hours
    short = typical / (brief + (1 - brief) * ratio)
    return Lengths(float(brief), short, ratio * short, int(stages))


def _search(recorded: np.ndarray, fleet: _Fleet, edges: np.ndarray, seed: int) -> tuple[_Shape, _Shape]:
    """The shapes of absences and stays that come closest. Candidates of both are tried at once: the lengths of stays
    depend on those of absences only through what is cut off by missing rounds and by the clock."""
    means = (1 - fleet.pi) / fleet.changes, fleet.pi / fleet.changes

    def distances(away: _Shape, stay: _Shape, fleets: int) -> np.ndarray:
        shares = 1 - fleet.pi, fleet.pi
        laws = tuple(
            law(mean, _hours(shape, fleet, share), fleet.hours)
            for mean, shape, share in zip(means, (away, stay), shares, strict=True)
        )
        found = [
            _tally(_simulated(fleet, (laws[0], laws[1]), np.random.default_rng([seed, i])), fleet.unknown, edges)
            for i in range(fleets)
        ]
        return _distance(recorded, np.mean(found, axis=0))

    def refined(best: list[_Shape], steps: tuple[float, ...], fleets: int) -> tuple[list[_Shape], np.ndarray]:
        best, least = list(best), distances(best[0], best[1], fleets)
        for step in steps:
            for moves in zip(*(_around(shape, step) for shape in best), strict=True):
                found = distances(moves[0], moves[1], fleets)
                for state in np.flatnonzero(found < least):
                    best[state], least[state] = moves[state], found[state]
        return best, least

    coarse = np.stack([distances(shape, shape, _COARSE) for shape in _GRID])  # [grid, 2]
    size, ends = len(_GRID) // len(_STAGES), []
    for first in range(0, len(_GRID), size):
        best = [_GRID[first + i] for i in coarse[first : first + size].argmin(0)]
        ends.append(refined(best, (1.0, 0.6), _FINE))
    best = [min(ends, key=lambda end: end[1][state])[0][state] for state in (0, 1)]
    (away, stay), _ = refined(best, (0.5, 0.25), _LAST)
    return away, stay


def _around(shape: _Shape, step: float) -> list[_Shape]:
    brief, ratio, stages = shape
    more, fewer = (float(np.clip(expit(logit(brief) + sign * 0.7 * step), 0.02, 0.95)) for sign in (1, -1))
    longer, shorter = ratio * 1.6**step, max(1.5, ratio / 1.6**step)
    several = min(16, max(stages + 1, round(stages * 1.5)))
    return [
        (more, ratio, stages), (fewer, ratio, stages), (brief, longer, stages), (brief, shorter, stages),
        (more, longer, stages), (fewer, shorter, stages),
        (fewer, longer, stages), (more, shorter, stages), (brief, ratio, several),
        (brief, ratio, max(1, round(stages / 1.5))),
    ]  # fmt: skip
