"""Fleets of independent chains, simulated many at a time, to compare a record with.

Everything that a test looks at is an array [rounds, fleets, devices]; the record is one such fleet.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fedtide.fleet.slots import DAY, HERE, UNKNOWN, Slots

ENTRIES = 4_000_000  # of a chunk of fleets; with what the tests derive from it, a few hundred MB at most
_HIGHEST = 0.98  # the clock alone makes no device more certain to be there than this


class Evidence(NamedTuple):
    """The part of a record that the tests look at."""

    here: np.ndarray  # uint8 [rounds, 1, devices]; 0 where nothing is known
    seen: np.ndarray  # bool [rounds, 1, devices]
    clock: Slots  # hours and weekdays of the rounds
    cells: np.ndarray  # [rounds] cell of the clock: hour of the day, apart for weekends where the record is long enough
    testable: np.ndarray  # bool [devices]: came and went often enough for a test of its own

    @property
    def days(self) -> float:
        return self.clock.rounds * self.clock.round_seconds / DAY

    @property
    def hours(self) -> float:
        """Length of a round."""
        return self.clock.round_seconds / 3600


LEAST_CHANGES = 3  # arrivals, and departures, for a device to be testable


def evidence(slots: Slots, which: np.ndarray) -> Evidence:
    """The devices `which` of a record."""
    state = slots.state[:, which]
    here, seen = (state == HERE).astype(np.uint8)[:, None], (state != UNKNOWN)[:, None]
    pairs = seen[1:] & seen[:-1]
    arrivals = (pairs & (here[1:] > here[:-1])).sum((0, 1))
    departures = (pairs & (here[1:] < here[:-1])).sum((0, 1))
    cells = slots.hours
    if slots.weekdays is not None and slots.rounds * slots.round_seconds >= 14 * DAY:
        cells = cells + 24 * (slots.weekdays >= 5)
    cells = np.unique(cells, return_inverse=True)[1]
    return Evidence(here, seen, slots, cells, np.minimum(arrivals, departures) >= LEAST_CHANGES)


class Chains(NamedTuple):
    """P(there now | before) = p_t + λ (before − p_{t−1}), cut to [0, 1]: p_t is where the device would settle."""

    presence: np.ndarray  # [rounds or 1, devices]
    correlation: np.ndarray  # [devices]


def steady(found: Evidence) -> Chains:
    """Each device's own first-order chain: the most likely one given its observed pairs of consecutive rounds."""
    pairs = found.seen[1:] & found.seen[:-1]
    before, after = found.here[:-1], found.here[1:]
    away, there = (pairs & (before == 0)).sum((0, 1)), (pairs & (before == 1)).sum((0, 1))
    # Half an event for what never happened and half an exception for what always did: no chain is absorbing.
    arrive = _inner((pairs & (before == 0) & (after == 1)).sum((0, 1)), away)
    leave = _inner((pairs & (before == 1) & (after == 0)).sum((0, 1)), there)
    return Chains((arrive / (arrive + leave))[None], 1 - arrive - leave)


def _inner(events: np.ndarray, trials: np.ndarray) -> np.ndarray:
    trials = np.maximum(trials, 1)
    return np.clip(events, 0.5, np.maximum(trials - 0.5, 0.5)) / trials


class Clock(NamedTuple):
    """P(there in cell c of the clock) = π (1 + s d_c), for each of several fleets."""

    presence: np.ndarray  # [cells, fleets, devices]
    relative: np.ndarray  # [fleets, cells] d


def read_clock(here: np.ndarray, seen: np.ndarray, cells: np.ndarray) -> Clock:
    """The profile that all devices of a fleet share, and each device's level, so that both sums are met: the number
    there in each cell, and each device's. s is 1, or less where the profile would make a device certain to be there.
    """
    count = cells.max() + 1
    there = np.stack([(here[cells == c] * seen[cells == c]).sum(0, dtype=np.int32) for c in range(count)])
    looked = np.stack([seen[cells == c].sum(0) for c in range(count)])  # [cells, 1, devices]
    own, level = there.sum(0), there.sum(0) / np.maximum(looked.sum(0), 1)
    relative, follow = np.zeros((count, here.shape[1], 1)), np.ones(1)
    for _ in range(6):  # settles to a few digits in three
        peak = np.maximum(relative.max(0), 1e-9)
        follow = np.clip((_HIGHEST / np.maximum(level, 1e-9) - 1) / peak, 0, 1)
        shape = 1 + follow * relative
        level = np.minimum(own / np.maximum((looked * shape).sum(0), 1e-9), 1)
        missing = (there - looked * level * shape).sum(-1, keepdims=True)
        relative = np.maximum(
            relative + missing / np.maximum((looked * level * follow).sum(-1, keepdims=True), 1e-9), -1
        )
    return Clock(np.clip(level * (1 + follow * relative), 0, 1), relative[..., 0].T)


def clocked(found: Evidence) -> Chains:
    """Chains whose p follows the shared clock; λ from products of neighbouring residuals, clock removed."""
    presence = read_clock(found.here, found.seen, found.cells).presence[found.cells, 0]
    return Chains(presence, memory(found, presence))


def memory(found: Evidence, presence: np.ndarray) -> np.ndarray:
    """[devices] λ about given probabilities [rounds, devices]."""
    seen = found.seen[:, 0]
    left = (found.here[:, 0] - presence) * seen
    pairs = seen[1:] & seen[:-1]
    spread = (pairs * (presence * (1 - presence))[:-1]).sum(0)
    return np.clip((left[1:] * left[:-1]).sum(0) / np.maximum(spread, 1e-9), -0.99, 0.995)


def taken_for_memory(found: Evidence, daily: Chains) -> np.ndarray:
    """[devices] by how much λ is higher if the shared clock is not removed."""
    mean = (found.here * found.seen).sum((0, 1)) / np.maximum(found.seen.sum((0, 1)), 1)
    return memory(found, np.broadcast_to(mean, daily.presence.shape)) - daily.correlation


def simulate(chains: Chains, rounds: int, fleets: int, generator: np.random.Generator) -> np.ndarray:
    """uint8 [rounds, fleets, devices]: independent chains, begun where they settle."""
    presence, correlation = chains.presence.astype(np.float32), chains.correlation.astype(np.float32)
    base = presence - correlation * np.roll(presence, 1, 0)
    shape = fleets, correlation.size
    here = np.empty((rounds, *shape), np.uint8)
    here[0] = generator.random(shape, np.float32) < presence[0]
    for t in range(1, rounds):
        here[t] = generator.random(shape, np.float32) < base[t % len(base)] + correlation * here[t - 1]
    return here


def chunks(chains: Chains, rounds: int, simulated: int, generator: np.random.Generator) -> Iterator[np.ndarray]:
    """`simulated` fleets, some at a time, so that memory stays bounded."""
    most = max(1, ENTRIES // (rounds * chains.correlation.size))
    for first in range(0, simulated, most):
        yield simulate(chains, rounds, min(most, simulated - first), generator)
