"""Counts of each device's transitions between observed rounds."""

from typing import NamedTuple

import numpy as np

from fedtide.fleet.slots import HERE, UNKNOWN

_ENTRIES = 4_000_000  # counted at a time: the arrays in between stay small


class Pairs(NamedTuple):
    """The observations of a two-state chain: states of neighbouring observed rounds, `gaps` rounds apart.

    A gap of 1 is a pair of consecutive rounds. Over a gap of g rounds the correlation is λ^g, so rounds before
    and after a gap are still informative about each other, and are not independent draws.
    """

    first: np.ndarray  # [2, N] 1 for the state of the first observed round: unavailable, available
    gaps: np.ndarray  # [G] rounds; long ones are grouped, at their mean
    counts: np.ndarray  # [G, 4, N] off→off, off→on, on→off, on→on

    def of(self, devices: np.ndarray | slice) -> "Pairs":
        """Those of some devices, without gaps that do not occur."""
        counts = self.counts[:, :, devices]
        used = counts.any(axis=(1, 2))
        return Pairs(self.first[:, devices], self.gaps[used], counts[used])


class DeviceCounts(NamedTuple):
    """[N] each: observed rounds, rounds available, stays, and transitions."""

    observed: np.ndarray
    here: np.ndarray
    visits: np.ndarray
    pairs: Pairs

    def consecutive(self) -> np.ndarray:
        """[4, N] pairs of consecutive rounds: off_off, off_on, on_off, on_on."""
        return self.pairs.counts[0]

    def correlation(self) -> np.ndarray:
        """[N] P(on | on) − P(on | off) as counted; nan where a state has no next round."""
        off_off, off_on, on_off, on_on = self.consecutive()
        from_on, from_off = on_off + on_on, off_off + off_on
        raw = on_on / np.maximum(from_on, 1) - off_on / np.maximum(from_off, 1)
        return np.where((from_on > 0) & (from_off > 0), raw, np.nan)


def count(state: np.ndarray) -> DeviceCounts:
    """DeviceCounts of a matrix [rounds, devices] of 1 (available), 0 (unavailable) and −1 (not observed)."""
    rounds, devices = state.shape
    edges, step = _edges(rounds), max(1, _ENTRIES // max(rounds, 1))
    parts = [_transitions(state[:, at : at + step], edges) for at in range(0, max(devices, 1), step)]
    first, counts = (np.concatenate([part[i] for part in parts], axis=-1) for i in (0, 1))
    total = np.sum([length for _, _, length in parts], axis=0)
    gaps = np.where(total > 0, total / np.maximum(counts.sum(axis=(1, 2)), 1), edges[:-1])
    used = counts.any(axis=(1, 2)) | (np.arange(len(gaps)) == 0)  # consecutive rounds are always listed
    here = (state == HERE).sum(0)
    return DeviceCounts((state != UNKNOWN).sum(0), here, here - counts[0, 3], Pairs(first, gaps[used], counts[used]))


def _edges(rounds: int) -> np.ndarray:
    """Borders of the groups of gaps: one by one up to 8, then wider by a third each time."""
    # λ^g is taken at a group's mean gap: groups widen in proportion to g, where λ^g changes slowly or is nearly 0.
    edges = [*range(1, 9)]
    while edges[-1] <= rounds:
        edges.append(int(edges[-1] * 4 / 3) + 1)
    return np.asarray(edges)


def _transitions(state: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First states [2, n], transitions between neighbouring observed rounds [groups of gaps, 4, n], and the sum of the
    gaps of each group."""
    devices = state.shape[1]
    device, at = np.nonzero((state != UNKNOWN).T)
    value, opening = state[at, device], np.diff(device, prepend=-1) > 0
    first = np.zeros((2, devices), np.int64)
    first[value[opening], device[opening]] = 1
    after = np.flatnonzero(~opening)
    gap = at[after] - at[after - 1]
    group = np.searchsorted(edges, gap, side="right") - 1
    code = (4 * group + 2 * value[after - 1] + value[after]) * devices + device[after]
    counts = np.bincount(code, minlength=(len(edges) - 1) * 4 * devices).reshape(-1, 4, devices)
    return first, counts, np.bincount(group, gap, len(edges) - 1)
