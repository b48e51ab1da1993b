"""Tests whether transitions differ between groups (of hours, ages, previous states): counts, ratios, p values."""

from typing import NamedTuple

import numpy as np
from scipy.special import xlogy
from scipy.stats import rankdata

LEVEL = 0.05
_SLICE = 2_000_000  # entries counted at a time


def tally(code: np.ndarray, counted: np.ndarray, classes: int) -> np.ndarray:
    """[classes, fleets, devices]: how often each code occurs in each column of [rounds, fleets, devices].

    `counted` may have one fleet only, for all of them.
    """
    rounds, columns = len(code), code[0].size
    place, total = np.arange(columns), np.zeros((classes + 1) * columns, np.int64)
    step = max(1, _SLICE // max(columns, 1))
    for first in range(0, rounds, step):
        part = slice(first, first + step)
        index = np.where(counted[part], code[part], classes).reshape(-1, columns).astype(np.intp)
        index *= columns
        index += place
        total += np.bincount(index.ravel(), minlength=total.size)
    return total.reshape(classes + 1, *code.shape[1:])[:classes]


def transitions(group: np.ndarray, here: np.ndarray, change: np.ndarray, counted: np.ndarray, groups: int):
    """[groups, 2, 2, fleets, devices]: transitions by group, by previous state (unavailable, available), by whether it
    changed.

    All arguments are over pairs of rounds, [rounds, fleets or 1, devices or 1].
    """
    code = (group * 4 + here * 2 + change).astype(np.uint8)
    return tally(code, counted, 4 * groups).reshape(groups, 2, 2, *code.shape[1:])


def likelihood_ratio(counts: np.ndarray) -> np.ndarray:
    """2 log of the likelihood with a probability of change in each group over that with one for all, each device."""
    # Anderson and Goodman, "Statistical inference about Markov chains", Ann. Math. Statist. 1957.
    own = xlogy(counts, counts).sum((0, 1, 2)) - xlogy(counts.sum(2), counts.sum(2)).sum((0, 1))
    pooled = counts.sum(0)
    common = xlogy(pooled, pooled).sum((0, 1)) - xlogy(pooled.sum(1), pooled.sum(1)).sum(0)
    return np.round(2 * (own - common), 9)  # equal counts tie, independent of the order of summation


def pooled(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All devices together: changes in each group over those that each device's own rate implies, of arriving and of
    leaving [fleets, groups, 2], independent of how trials are distributed over groups; and [fleets] their distance
    Σ (changes − expected)² / variance."""
    trials, changes = counts.sum(2), counts[:, :, 1]
    rate = changes.sum(0) / np.maximum(trials.sum(0), 1)
    found, expected = changes.sum(-1), (trials * rate).sum(-1)
    variance = (trials * rate * (1 - rate)).sum(-1)  # binomial, given the state before: pairs are trials of a chain
    distance = np.where(variance > 0, (found - expected) ** 2 / np.maximum(variance, 1e-9), 0).sum((0, 1))
    ratio = np.where(expected > 0, found / np.maximum(expected, 1e-9), np.nan)
    return np.moveaxis(ratio, -1, 0), distance


class Rejections(NamedTuple):
    share: float  # of the devices, at 5 %
    null: np.ndarray  # [fleets] the same in the simulated fleets
    p: np.ndarray  # [devices]


def rejections(recorded: np.ndarray, null: np.ndarray) -> Rejections:
    """Each device's statistic ranked among its simulated ones ([fleets, devices]), and each of those likewise:
    where the chain is true, recorded and simulated shares are exchangeable."""
    # The counts of a device are often too small for the χ² limit: its own simulated values are the null.
    together = np.concatenate([recorded, null])
    p = rankdata(-together, method="max", axis=0) / len(together)
    share = (p <= LEVEL + 1e-9).mean(1)
    return Rejections(float(share[0]), share[1:], p[0])


def above(value: float, null: np.ndarray) -> float:
    """The share of simulated values that are at least as high, the recorded one included."""
    # The 1 keeps a Monte Carlo p value valid: 0 cannot be concluded from finitely many simulated fleets
    # (Davison and Hinkley, "Bootstrap methods and their application", 1997, section 4.2).
    return float((1 + (null >= value - 1e-12).sum()) / (1 + len(null)))


def apart(value: float, null: np.ndarray) -> float:
    """Twice the share of simulated values beyond it on the nearer side, the recorded one included."""
    return min(1.0, 2 * min(above(value, null), above(-value, -null)))


def band(null: np.ndarray) -> tuple[float, float]:
    """95 % of the simulated values."""
    low, high = np.quantile(null, [0.025, 0.975])
    return float(low), float(high)


def bands(null: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Low, mean and high over the first axis, 95 % between low and high; NaN only where all are."""
    low, mean, high = np.full((3, *null.shape[1:]), np.nan)
    known = ~np.isnan(null).all(0)
    low[known], high[known] = np.nanquantile(null[:, known], [0.025, 0.975], axis=0)
    mean[known] = np.nanmean(null[:, known], 0)
    return low, mean, high
