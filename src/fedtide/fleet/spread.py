"""Devices as different from each other as the fleet's are."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit

_MOST = 2.0  # by which differences are stretched at most


class Seen(NamedTuple):
    """What a generator is to do as often as the record; [N] each but the last."""

    observed: np.ndarray  # rounds
    here: np.ndarray
    pairs: np.ndarray  # of consecutive rounds
    changes: int  # in them, of all devices together


def stretched(value: np.ndarray, error: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Posterior means differ less than what they estimate: deviations from their mean times √(1 + mean se² / var).

    The estimates then vary as the truth does (constrained empirical Bayes). Reference: Ghosh, "Constrained Bayes
    estimation with applications", JASA 1992.
    """
    spread = value[which].var() if which.sum() > 1 else 0.0
    if spread < 1e-9:
        return value
    mean = value[which].mean()
    factor = min(float(np.sqrt(1 + (error[which] ** 2).mean() / spread)), _MOST)
    return np.where(which, mean + factor * (value - mean), value)


def spread_out(
    pi: np.ndarray, pi_se: np.ndarray, correlation: np.ndarray, correlation_se: np.ndarray, seen: Seen,
    round_hours: float,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """π and τ (hours) of each device for a generator: stretched on the scales of logit π and log τ.

    The level of π is such that the fleet is there as often as it was recorded to be, that of τ such that it comes or
    goes as often. Devices that were never there stay as they are.
    """
    ever = seen.here > 0
    inner = np.clip(pi, 1e-6, 1 - 1e-6)
    wide = stretched(logit(inner), pi_se / (inner * (1 - inner)), ever)
    wanted = float(seen.here.sum())
    shift = (
        _solved(-0.5, 0.5, lambda x: float((seen.observed * expit(wide + x))[ever].sum()) < wanted) if ever.any() else 0
    )
    wide = np.where(ever, expit(wide + shift), pi)
    lam = np.clip(correlation, 1e-9, 1 - 1e-9)
    forgets = -np.log(lam)
    hours = np.exp(stretched(np.log(round_hours / forgets), correlation_se / (lam * forgets), ever))
    if not seen.changes:
        return wide, hours
    come = seen.pairs * wide * (1 - wide)
    level = _solved(  # further off is no matter of the level
        np.log(0.8),
        np.log(1.25),
        lambda x: 2 * (come * -np.expm1(-round_hours / (hours * np.exp(x)))).sum() > seen.changes,
    )
    return wide, hours * np.exp(level)


def _solved(low: float, high: float, further: Callable[[float], bool]) -> float:
    """Where `further` turns false."""
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if further(middle) else (low, middle)
    return (low + high) / 2
