"""Is a device's state correlated with its state a day later?"""

from typing import NamedTuple

import numpy as np

from fedtide.fleet.diagnosis.contrasts import apart, band
from fedtide.fleet.diagnosis.findings import Decided, Name, RecurrenceFigure
from fedtide.fleet.diagnosis.nulls import Evidence, steady
from fedtide.fleet.slots import DAY

_BLOCK = 1000  # devices transformed at a time


def autocorrelation(here: np.ndarray, seen: np.ndarray, lags: int) -> np.ndarray:
    """[fleets, lags + 1]: mean over devices, each weighted by its pairs of rounds that are both observed.

    Each device about its own mean: lower than that of the process, the more so the shorter the record.
    """
    seen = seen[:, 0]
    # Padded to a power of two beyond the last lag, so that circular products do not wrap.
    size = 1 << (len(here) + lags - 1).bit_length()
    pairs = products(seen.astype(np.float32), size, lags)
    counts = np.maximum(seen.sum(0), 1)
    found = np.empty((here.shape[1], lags + 1))
    for fleet in range(here.shape[1]):  # one at a time, to bound memory
        x = here[:, fleet] * seen
        mean = x.sum(0) / counts
        spread = np.sqrt(mean * (1 - mean))
        x = np.where(seen, x - mean, 0) / np.where(spread > 0, spread, np.inf)
        found[fleet] = products(x.astype(np.float32), size, lags) / np.maximum(pairs, 0.5)
    return found


def products(x: np.ndarray, size: int, lags: int) -> np.ndarray:
    """Σ over devices and rounds of x_t x_{t+lag}, for every lag."""
    # The transform of the power spectrum (Wiener and Khinchin): O(T log T) instead of O(T · lags).
    power = np.zeros(size // 2 + 1)
    for first in range(0, x.shape[1], _BLOCK):
        spectrum = np.fft.rfft(x[:, first : first + _BLOCK], size, axis=0)
        power += (spectrum.real**2 + spectrum.imag**2).sum(1, dtype=np.float64)
    return np.fft.irfft(power, size)[: lags + 1]


class Recurrence(NamedTuple):
    correlation: np.ndarray  # [fleets, lags]


def measure(here: np.ndarray, found: Evidence) -> Recurrence:
    return Recurrence(autocorrelation(here, found.seen, min(2 * _day(found), len(here) - 1)))


def _day(found: Evidence) -> int:
    return round(DAY / found.clock.round_seconds)


def conclude(name: Name, recorded: Recurrence, null: Recurrence, found: Evidence) -> Decided:
    # Short records bias the estimate as they do for simulated chains, whose correlation is known exactly.
    weight, correlation = found.seen.sum((0, 1)), steady(found).correlation
    lags = np.arange(recorded.correlation.shape[1])
    by_chains = np.array([(weight * correlation**lag).sum() / weight.sum() for lag in lags.tolist()])
    short = by_chains - null.correlation.mean(0)
    day, curve, chains = _day(found), recorded.correlation[0] + short, null.correlation + short
    value, at_day = float(curve[day]), chains[:, day]
    low, high = np.quantile(chains, [0.025, 0.975], axis=0)
    # Two-sided: a negative correlation a day later contradicts a chain as well.
    figure = RecurrenceFigure(lags * found.hours, curve, low, high, by_chains, day * found.hours)
    higher = value > np.median(at_day)
    return Decided(name, value, band(at_day), apart(value, at_day), figure, higher=higher)
