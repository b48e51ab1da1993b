"""Devices as different from each other as the fleet's are."""

import numpy as np
from scipy.special import expit, logit

_MOST = 2.0  # by which differences are stretched at most


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
    pi: np.ndarray, pi_se: np.ndarray, correlation: np.ndarray, correlation_se: np.ndarray,
    ever: np.ndarray, pairs: np.ndarray, changes: int, round_hours: float,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """π and τ (hours) of each device for a generator: stretched on the scales of logit π and log τ.

    The level of τ is such that in the observed `pairs` [N] of consecutive rounds the fleet comes or goes as often as
    it was recorded to (`changes`). Devices that were never there (not `ever`) stay as they are.
    """
    inner = np.clip(pi, 1e-6, 1 - 1e-6)
    wide = np.where(ever, expit(stretched(logit(inner), pi_se / (inner * (1 - inner)), ever)), pi)
    lam = np.clip(correlation, 1e-9, 1 - 1e-9)
    forgets = -np.log(lam)
    hours = np.exp(stretched(np.log(round_hours / forgets), correlation_se / (lam * forgets), ever))
    low, high = 0.8, 1.25  # further off is no matter of the level
    for _ in range(40):
        level = np.sqrt(low * high)
        expected = 2 * (pairs * wide * (1 - wide) * -np.expm1(-round_hours / (hours * level))).sum()
        low, high = (level, high) if expected > changes else (low, level)
    return wide, hours * (np.sqrt(low * high) if changes else 1.0)
