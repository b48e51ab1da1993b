"""Stays and absences that are not geometric: of any lengths."""

from typing import NamedTuple

import numpy as np

from fedtide.fleet.model import Lengths

_STEEPEST = 6.0  # |θ| of a device
_SURE = 0.99  # of the time of a typical device; longer runs are so few that their shares are hardly known
_MOST_GROWTH = 20.0  # of a class's share: one that hardly anything supports must not become what a device mainly does


class Law(NamedTuple):
    """How long the runs of each device last, in rounds: in class b with probability share[k, b], log-uniformly between
    scale[k] edges[b] and scale[k] edges[b + 1], then rounded up or down at random to one round or more."""

    edges: np.ndarray  # [classes + 1]
    share: np.ndarray  # [N, classes]
    scale: np.ndarray  # [N]; 1 but for means that no shares give


def law(mean: np.ndarray, lengths: Lengths, round_hours: float) -> Law:
    """Of devices whose runs last `mean` rounds on average, exactly.

    A device has the lengths of the typical one in other proportions, share · (length + typical mean)^θ: who stays
    longer has more of the long stays, no longer ones, and the short ones are in the same proportion to each other.
    Classes of no share keep none; the longest, with a hundredth of the time, grow no more than the one before; and θ
    goes no further than to where a share is 20 times the typical one's. `scale` then makes up for what is missing.
    """
    edges, share = np.asarray(lengths.hours) / round_hours, np.asarray(lengths.share)
    mean, scale = np.maximum(mean, 1.0), np.ones(len(mean))
    each = expected(edges, np.ones(1))[0]
    some = share > 0
    height = np.log(share, where=some, out=np.full(len(share), -np.inf))
    slope = np.log(each + share @ each / share.sum())
    spent = np.cumsum(share * each)
    slope = np.minimum(slope, slope[np.searchsorted(spent, _SURE * spent[-1])])
    slope = slope - slope[some].mean()
    least, most = _steepest(share[some], slope[some])
    theta, weight = np.zeros(len(mean)), np.zeros((len(mean), len(share)))
    for _ in range(50):
        weight = height + theta[:, None] * slope
        weight = np.exp(weight - weight.max(1, keepdims=True))
        weight /= weight.sum(1, keepdims=True)
        found = weight @ each
        missing = np.log(mean / found)
        if np.abs(missing).max(initial=0) < 1e-12:
            break
        rise = (weight * each) @ slope / found - weight @ slope  # of the logarithm, with θ
        theta = np.clip(theta + np.clip(missing / np.maximum(rise, 1e-9), -0.5, 0.5), least, most)
    off = np.abs(weight @ each / mean - 1) > 1e-9
    scale[off] = _scaled(edges, weight[off], mean[off])
    return Law(edges, weight, scale)


def _steepest(share: np.ndarray, slope: np.ndarray) -> tuple[float, float]:
    """θ below and above 0 at which the share of the shortest, and of the longest, class has grown as far as it may."""
    share, found = share / share.sum(), []
    for sign, end in ((-1, 0), (1, -1)):
        low, high = 0.0, _STEEPEST
        for _ in range(40):
            middle = (low + high) / 2
            tilt = sign * middle * (slope - slope[end])
            low, high = (low, middle) if 1 / (share @ np.exp(tilt)) > _MOST_GROWTH else (middle, high)
        found.append(sign * low)
    return found[0], found[1]


def expected(edges: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """[N, classes] mean rounds of runs in each class: of max(1, x), x log-uniform."""
    low, high = scale[:, None] * edges[:-1], scale[:, None] * edges[1:]
    one = np.clip(1.0, low, high)
    return (np.log(one / low) + high - one) / np.log(edges[1:] / edges[:-1])


def _scaled(edges: np.ndarray, share: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """[N] by how much lengths have to be multiplied for these means."""
    low, high = np.full(len(mean), 1e-9), mean / edges[0]
    for _ in range(100):
        middle = np.sqrt(low * high)
        less = (share * expected(edges, middle)).sum(1) < mean
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return np.sqrt(low * high)


class Again(NamedTuple):
    """P(there in a round and in the next) = never_changing − slope · (changes a round)."""

    never_changing: np.ndarray
    slope: np.ndarray

    def changes(self, pi: np.ndarray, correlation: np.ndarray) -> np.ndarray:
        """[N] arrivals (as many as departures) a round that give this long-run lag-1 correlation."""
        wanted = pi**2 + correlation * pi * (1 - pi)
        found = (self.never_changing - wanted) / np.maximum(self.slope, 1e-9)
        return np.clip(found, 1e-6 * pi * (1 - pi), np.minimum(pi, 1 - pi))


def again(pi: np.ndarray, threshold: np.ndarray) -> Again:
    """Of a level that is uniform below π in a stay, above it in an absence, drawn anew with every run, and there while
    it is below the threshold [N, rounds] until the time of day is the same again, of mean π. π in (0, 1)."""
    level, after = pi[:, None], np.roll(threshold, -1, 1)
    least = np.minimum(threshold, after)
    stay, beyond = np.minimum(least, level).mean(1), np.maximum(least - level, 0).mean(1)
    in_stay, in_absence = np.minimum(threshold, level) / level, np.maximum(threshold - level, 0) / (1 - level)
    between = (in_stay * np.roll(in_absence, -1, 1) + in_absence * np.roll(in_stay, -1, 1)).mean(1)
    return Again(stay + beyond, stay / pi + beyond / (1 - pi) - between)
