"""Means with intervals, and Markov chains. Only NumPy and SciPy are needed, as studies run without tables."""

import warnings
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from fedtide.kinds import kinds_checked

Metric = Literal["accuracy", "objective"]


class Estimated(NamedTuple):
    """A mean over seeds and its 95 % interval; None where undefined."""

    mean: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def apart(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high

    def open(self, margin: float) -> bool:
        """Whether the sign is undecided and the difference may exceed `margin`: the interval contains 0 and reaches
        beyond the margin. With one seed there is no interval, and the sign is undecided.
        """
        if self.low is None or self.high is None:
            return True
        return not self.apart and max(-self.low, self.high) > margin


def interval(values: np.ndarray) -> Estimated:
    """The mean and its 95 % bootstrap interval (BCa); no interval for one value, zero width for equal values."""
    values = np.asarray(values, np.float64)
    if values.size == 0:
        return Estimated()
    mean = float(values.mean())
    if values.size == 1:
        return Estimated(mean, None, None)
    if np.ptp(values) <= 1e-12 * np.abs(values).max():
        return Estimated(mean, mean, mean)
    from scipy.stats import bootstrap

    for method in ("BCa", "percentile"):  # BCa is undefined if all resamples are on one side of the mean
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            bounds = bootstrap(
                (values,), np.mean, n_resamples=9999, method=method, rng=np.random.default_rng(0)
            ).confidence_interval
        if np.isfinite(bounds).all():
            return Estimated(mean, float(bounds.low), float(bounds.high))
    return Estimated(mean, None, None)


def student(values: np.ndarray, confidence: float = 0.95) -> Estimated:
    """The mean of the finite values and its interval by Student's t; with few values a bootstrap is too narrow."""
    from scipy.stats import t

    values = np.asarray(values, np.float64)
    values = values[np.isfinite(values)]
    if values.size == 0:
        return Estimated()
    mean = float(values.mean())
    if values.size == 1:
        return Estimated(mean, None, None)
    half = float(t.ppf((1 + confidence) / 2, values.size - 1) * values.std(ddof=1) / np.sqrt(values.size))
    return Estimated(mean, mean - half, mean + half)


def replicas_for(distance: float, half: float, count: int, confidence: float, most: int) -> int:
    """The number of values for which Student's interval, ± `half` with `count` values, is less than ± `distance`.

    The standard deviation is assumed to stay the same; `most` + 1 if `most` values are not enough.
    """
    from scipy.stats import t

    numbers = np.arange(count, most + 1)
    width = t.ppf((1 + confidence) / 2, numbers - 1) / np.sqrt(numbers)  # in standard deviations
    enough = numbers[half * width < distance * width[0]] if numbers.size else numbers
    return int(enough[0]) if enough.size else most + 1


def evenly(size: int, most: int) -> np.ndarray:
    """All indices below `size`, or `most` evenly spaced ones."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(int))


def stationary_law(transition: np.ndarray) -> np.ndarray:
    """μ with μP = μ and Σμ = 1, which is unique for an irreducible chain."""
    states = len(transition)
    equations = np.vstack([transition.T - np.eye(states), np.ones(states)])
    law = np.maximum(np.linalg.lstsq(equations, np.append(np.zeros(states), 1.0), rcond=None)[0], 0)
    return law / law.sum()


@kinds_checked
def lowest_correlation(availability: npt.ArrayLike) -> Any:
    """The smallest λ of a two-state chain, max(1 − 1/π, 1 − 1/(1−π)): both transition probabilities are in [0, 1]."""
    pi = np.asarray(availability, float)
    return 1 - 1 / np.maximum(pi, 1 - pi)
