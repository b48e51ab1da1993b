"""Fleets of independent chains, simulated many at a time, to compare a record with.

Tests work on arrays [rounds, fleets, devices]; the record is one such fleet.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fedtide.fleet.diagnosis.findings import Name, Undecided
from fedtide.fleet.fitting.counts import count
from fedtide.fleet.slots import DAY, HERE, UNKNOWN, Slots

ENTRIES = 4_000_000  # of a chunk of fleets: with derived arrays, a few hundred MB at most
LEAST_CHANGES = 3  # arrivals, and departures, for a device to be testable
_LEAST_DAYS = 2  # of a record, to detect a daily cycle
_HIGHEST = 0.98  # largest probability of being available that the clock may give


class Evidence(NamedTuple):
    """The part of a record that is tested."""

    here: np.ndarray  # uint8 [rounds, 1, devices]; 0 where not observed
    seen: np.ndarray  # bool [rounds, 1, devices]
    clock: Slots  # hours and weekdays of the rounds
    cells: np.ndarray  # [rounds] cell of the clock: hour of the day, weekends apart if the record is long enough
    changes: np.ndarray  # [4, devices] pairs of consecutive rounds: off_off, off_on, on_off, on_on

    @property
    def testable(self) -> np.ndarray:
        """bool [devices]: enough transitions for a separate test."""
        return self.changes[1:3].min(0) >= LEAST_CHANGES

    @property
    def days(self) -> float:
        return self.clock.rounds * self.clock.round_seconds / DAY

    @property
    def hours(self) -> float:
        """Length of a round."""
        return self.clock.round_seconds / 3600

    @property
    def pairs(self) -> np.ndarray:
        """bool [rounds − 1, 1, devices]: consecutive rounds that are both observed."""
        return self.seen[1:] & self.seen[:-1]

    def day_unreadable(self, name: Name) -> Undecided | None:
        """Why the hour of the day cannot be tested; None if it can."""
        if self.days < _LEAST_DAYS:
            return Undecided(name, "short record", (self.days,))
        if self.clock.round_seconds > 6 * 3600:
            return Undecided(name, "long rounds", (self.clock.round_seconds,))
        return None


def evidence(slots: Slots, which: np.ndarray) -> Evidence:
    """The devices `which` of a record."""
    state = slots.state[:, which]
    here, seen = (state == HERE).astype(np.uint8)[:, None], (state != UNKNOWN)[:, None]
    changes = count(state).consecutive()
    cells = slots.hours
    if slots.weekdays is not None and slots.rounds * slots.round_seconds >= 14 * DAY:
        cells = cells + 24 * (slots.weekdays >= 5)
    cells = np.unique(cells, return_inverse=True)[1]
    return Evidence(here, seen, slots, cells, changes)


class Chains(NamedTuple):
    """P(available | previous state) = p_t + λ (previous − p_{t−1}), clipped to [0, 1]; p_t is the marginal."""

    presence: np.ndarray  # [rounds or 1, devices]
    correlation: np.ndarray  # [devices]


def steady(found: Evidence) -> Chains:
    """Each device's own first-order chain: the most likely one given its observed pairs of consecutive rounds."""
    off_off, off_on, on_off, on_on = found.changes
    # At least half an event and half a non-event, so that no state is absorbing.
    arrive, leave = _inner(off_on, off_off + off_on), _inner(on_off, on_off + on_on)
    return Chains((arrive / (arrive + leave))[None], 1 - arrive - leave)


def _inner(events: np.ndarray, trials: np.ndarray) -> np.ndarray:
    trials = np.maximum(trials, 1)
    return np.clip(events, 0.5, np.maximum(trials - 0.5, 0.5)) / trials


class SharedClock(NamedTuple):
    """P(available in cell c of the clock) = π (1 + s d_c), for each of several fleets."""

    presence: np.ndarray  # [cells, fleets, devices]
    relative: np.ndarray  # [fleets, cells] d


def read_clock(here: np.ndarray, seen: np.ndarray, cells: np.ndarray) -> SharedClock:
    """The profile shared by the devices of a fleet, and each device's level, such that both margins agree: the number
    available in each cell, and each device's. s is 1, or less where a probability would exceed its limit.
    """
    count = cells.max() + 1
    there = np.stack([(here[cells == c] * seen[cells == c]).sum(0, dtype=np.int32) for c in range(count)])
    looked = np.stack([seen[cells == c].sum(0) for c in range(count)])  # [cells, 1, devices]
    own, level = there.sum(0), there.sum(0) / np.maximum(looked.sum(0), 1)
    relative, follow = np.zeros((count, here.shape[1], 1)), np.ones(1)
    # Alternating: each device's level given the profile, then the profile given the levels (iterative proportional
    # fitting; Deming and Stephan, Ann. Math. Statist. 1940).
    for _ in range(6):  # converges to a few digits in three
        peak = np.maximum(relative.max(0), 1e-9)
        follow = np.clip((_HIGHEST / np.maximum(level, 1e-9) - 1) / peak, 0, 1)
        shape = 1 + follow * relative
        level = np.minimum(own / np.maximum((looked * shape).sum(0), 1e-9), 1)
        missing = (there - looked * level * shape).sum(-1, keepdims=True)
        relative = np.maximum(
            relative + missing / np.maximum((looked * level * follow).sum(-1, keepdims=True), 1e-9), -1
        )
    return SharedClock(np.clip(level * (1 + follow * relative), 0, 1), relative[..., 0].T)


def clocked(found: Evidence) -> Chains:
    """Chains whose p follows the shared clock; λ from products of neighbouring residuals, clock removed."""
    presence = read_clock(found.here, found.seen, found.cells).presence[found.cells, 0]
    return Chains(presence, memory(found, presence))


def memory(found: Evidence, presence: np.ndarray) -> np.ndarray:
    """[devices] λ about given probabilities [rounds, devices]."""
    left = (found.here[:, 0] - presence) * found.seen[:, 0]
    # Divided by the variance that the clock implies in the observed pairs, not by that of the residuals.
    spread = (found.pairs[:, 0] * (presence * (1 - presence))[:-1]).sum(0)
    return np.clip((left[1:] * left[:-1]).sum(0) / np.maximum(spread, 1e-9), -0.99, 0.995)


def taken_for_memory(found: Evidence, daily: Chains) -> np.ndarray:
    """[devices] by how much λ is higher if the shared clock is not removed."""
    mean = (found.here * found.seen).sum((0, 1)) / np.maximum(found.seen.sum((0, 1)), 1)
    return memory(found, np.broadcast_to(mean, daily.presence.shape)) - daily.correlation


def simulate(chains: Chains, rounds: int, fleets: int, generator: np.random.Generator) -> np.ndarray:
    """uint8 [rounds, fleets, devices]: independent, stationary chains."""
    presence, correlation = chains.presence.astype(np.float32), chains.correlation.astype(np.float32)
    base = presence - correlation * np.roll(presence, 1, 0)
    shape = fleets, correlation.size
    here = np.empty((rounds, *shape), np.uint8)
    here[0] = generator.random(shape, np.float32) < presence[0]
    for t in range(1, rounds):
        here[t] = generator.random(shape, np.float32) < base[t % len(base)] + correlation * here[t - 1]
    return here


def chunks(chains: Chains, rounds: int, simulated: int, generator: np.random.Generator) -> Iterator[np.ndarray]:
    """`simulated` fleets in chunks, to bound memory."""
    most = max(1, ENTRIES // (rounds * chains.correlation.size))
    for first in range(0, simulated, most):
        yield simulate(chains, rounds, min(most, simulated - first), generator)


def relaxation(correlation: float) -> float:
    """−1/ln λ in rounds, at least one."""
    return max(1.0, -1 / np.log(np.clip(correlation, 0.1, 1 - 1e-9)))


def rounds_until_known(pi: np.ndarray, lam: np.ndarray, close: float) -> np.ndarray:
    """Rounds until λ̂ = P̂(on|on) + P̂(off|off) − 1 is within ± `close` at 95 %, from the variance of two proportions:
    visits are π and 1 − π of the rounds."""
    leave, arrive = (1 - lam) * (1 - pi), (1 - lam) * pi
    each = leave * (1 - leave) / np.maximum(pi, 1e-9) + arrive * (1 - arrive) / np.maximum(1 - pi, 1e-9)
    return each * (1.96 / close) ** 2
