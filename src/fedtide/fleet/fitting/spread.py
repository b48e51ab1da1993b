"""Parameters of devices for generators, as different from each other as the true ones."""

import numpy as np
from scipy.special import expit, logit

from fedtide.fleet.fitting.counts import DeviceCounts
from fedtide.fleet.process.run_lengths import bisection

_MOST = 2.0  # largest factor of differences


def stretched(value: np.ndarray, error: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Posterior means vary less than what they estimate: their deviations are scaled by √(1 + mean se² / var).

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
    pi: np.ndarray, pi_se: np.ndarray, correlation: np.ndarray, correlation_se: np.ndarray, counts: DeviceCounts,
    round_hours: float,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """π and τ (hours) of each device for a generator: stretched on the scales of logit π and log τ.

    The level of π is such that the fleet is available as often as in the record, that of τ such that it changes
    as often. Devices that were never available are unchanged.
    """
    ever = counts.here > 0
    inner = np.clip(pi, 1e-6, 1 - 1e-6)
    wide = stretched(logit(inner), pi_se / (inner * (1 - inner)), ever)
    wanted = float(counts.here.sum())
    shift = (
        bisection(-0.5, 0.5, lambda x: float((counts.observed * expit(wide + x))[ever].sum()) < wanted)
        if ever.any()
        else 0
    )
    wide = np.where(ever, expit(wide + shift), pi)
    lam = np.clip(correlation, 1e-9, 1 - 1e-9)
    rate = -np.log(lam)
    hours = np.exp(stretched(np.log(round_hours / rate), correlation_se / (lam * rate), ever))
    pairs = counts.consecutive()
    changes = pairs[1:3].sum()
    if not changes:
        return wide, hours
    come = pairs.sum(0) * wide * (1 - wide)
    level = bisection(  # larger differences are not due to the level
        np.log(0.8),
        np.log(1.25),
        lambda x: 2 * (come * -np.expm1(-round_hours / (hours * np.exp(x)))).sum() > changes,
    )
    return wide, hours * np.exp(level)
