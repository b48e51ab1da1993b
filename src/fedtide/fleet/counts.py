"""How often each device stayed, came and left, in what was observed of it."""

from typing import NamedTuple

import numpy as np

from fedtide.fleet.slots import AWAY, HERE, UNKNOWN

CHUNK = 4096  # devices at a time: the matrices in between stay small


class Pairs(NamedTuple):
    """The observations of a two-state chain: states of neighbouring observed rounds, `gaps` rounds apart.

    A gap of 1 is a pair of consecutive rounds. Over a gap of g rounds the chain forgets by λ^g, so that rounds before
    and after a stretch without observation still say something about each other, and are not independent draws.
    """

    first: np.ndarray  # [2, N] 1 for the state of the first observed round: away, here
    gaps: np.ndarray  # [G] rounds; long ones are grouped, at their mean
    counts: np.ndarray  # [G, 4, N] away→away, away→here, here→away, here→here

    def of(self, devices: np.ndarray | slice) -> "Pairs":
        """Those of some devices, without the gaps that none of them has."""
        counts = self.counts[:, :, devices]
        used = counts.any(axis=(1, 2))
        return Pairs(self.first[:, devices], self.gaps[used], counts[used])


class Counts(NamedTuple):
    """[N] each: rounds, runs of being here, and the observations of the chain."""

    observed: np.ndarray
    here: np.ndarray
    visits: np.ndarray
    pairs: Pairs

    def consecutive(self) -> np.ndarray:
        """[4, N] pairs of consecutive rounds: off_off, off_on, on_off, on_on."""
        return self.pairs.counts[0]


def count(state: np.ndarray) -> Counts:
    """Counts of a matrix [rounds, devices] of 1 (here), 0 (away) and −1 (not observed)."""
    rounds, devices = state.shape
    edges = _edges(rounds)
    found = [_count(state[:, at : at + CHUNK], edges) for at in range(0, max(devices, 1), CHUNK)]
    observed, here, visits, first, counts, length = (
        [part[i] for part in found] for i in range(6)
    )  # [parts][…], devices last
    counts = np.concatenate(counts, axis=2)
    total = np.sum(length, axis=0)
    number = np.maximum(counts.sum(axis=(1, 2)), 1)
    gaps = np.where(total > 0, total / number, edges[:-1])
    used = counts.any(axis=(1, 2)) | (np.arange(len(gaps)) == 0)  # consecutive rounds are always listed
    pairs = Pairs(np.concatenate(first, axis=1), gaps[used], counts[used])
    return Counts(np.concatenate(observed), np.concatenate(here), np.concatenate(visits), pairs)


def _edges(rounds: int) -> np.ndarray:
    """Borders of the groups of gaps: one by one up to 8, then wider by a third each time."""
    edges = [*range(1, 9)]
    while edges[-1] <= rounds:
        edges.append(int(edges[-1] * 4 / 3) + 1)
    return np.asarray(edges)


def _count(state: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, ...]:
    rounds, devices = state.shape
    here, known = state == HERE, state != UNKNOWN
    counts = np.zeros((len(edges) - 1, 4, devices), np.int64)
    length = np.zeros(len(edges) - 1)  # sum of gaps in each group
    if rounds > 1:
        both = known[1:] & known[:-1]
        on_on = (here[1:] & here[:-1]).sum(0)
        off_off = ((state[1:] == AWAY) & (state[:-1] == AWAY)).sum(0)
        on_off = (here[:-1] & both).sum(0) - on_on
        off_on = (here[1:] & both).sum(0) - on_on
        counts[0] = off_off, off_on, on_off, on_on
        length[0] = counts[0].sum()
    # Stretches of observed rounds, by device and then by time: the i-th begins at begins[i] and ends at ends[i].
    padded = np.zeros((devices, rounds + 2), bool)
    padded[:, 1:-1] = known.T
    owner, begins = np.nonzero(padded[:, 1:-1] & ~padded[:, :-2])
    _, ends = np.nonzero(padded[:, 1:-1] & ~padded[:, 2:])
    first = np.zeros((2, devices), np.int64)
    opening = np.r_[True, owner[1:] != owner[:-1]] if len(owner) else np.zeros(0, bool)
    first[state[begins[opening], owner[opening]], owner[opening]] = 1
    later = np.flatnonzero(~opening)
    gap = begins[later] - ends[later - 1]
    group = np.searchsorted(edges, gap, side="right") - 1
    code = 2 * state[ends[later - 1], owner[later]] + state[begins[later], owner[later]]
    np.add.at(counts, (group, code, owner[later]), 1)
    np.add.at(length, group, gap)
    visits = here.sum(0) - (here[1:] & here[:-1]).sum(0)
    return known.sum(0), here.sum(0), visits, first, counts, length
