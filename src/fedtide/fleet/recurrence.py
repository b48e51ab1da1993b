"""Is a device likely to be there again a day later?"""

import numpy as np

from fedtide.fleet.contrasts import LEVEL, apart, band
from fedtide.fleet.diagnosis import Finding
from fedtide.fleet.diagnosis_words import undecided
from fedtide.fleet.homogeneity import day_is_not, day_is_readable
from fedtide.fleet.nulls import Evidence, steady
from fedtide.fleet.slots import DAY

QUESTION = "Does being here now say anything about being here at the same time tomorrow?"
_BLOCK = 1000  # devices transformed at a time


def autocorrelation(here: np.ndarray, seen: np.ndarray, lags: int) -> np.ndarray:
    """[fleets, lags + 1]: mean over devices, each weighted by its pairs of rounds that are both observed.

    Each device about its own mean: lower than that of the process, the more so the shorter the record.
    """
    seen = seen[:, 0]
    size = 1 << (len(here) + lags - 1).bit_length()
    pairs = products(seen.astype(np.float32), size, lags)
    counts = np.maximum(seen.sum(0), 1)
    found = np.empty((here.shape[1], lags + 1))
    for fleet in range(here.shape[1]):  # one at a time: its transform stays small
        x = here[:, fleet] * seen
        mean = x.sum(0) / counts
        spread = np.sqrt(mean * (1 - mean))
        x = np.where(seen, x - mean, 0) / np.where(spread > 0, spread, np.inf)
        found[fleet] = products(x.astype(np.float32), size, lags) / np.maximum(pairs, 0.5)
    return found


def products(x: np.ndarray, size: int, lags: int) -> np.ndarray:
    """Σ over devices and rounds of x_t x_{t+lag}, for every lag."""
    power = np.zeros(size // 2 + 1)
    for first in range(0, x.shape[1], _BLOCK):
        spectrum = np.fft.rfft(x[:, first : first + _BLOCK], size, axis=0)
        power += (spectrum.real**2 + spectrum.imag**2).sum(1, dtype=np.float64)
    return np.fft.irfft(power, size)[: lags + 1]


def _day(found: Evidence) -> int:
    return round(DAY / found.clock.round_seconds)


def measure(here: np.ndarray, found: Evidence) -> dict[str, np.ndarray]:
    if not day_is_readable(found):
        return {}
    return {"correlation": autocorrelation(here, found.seen, min(2 * _day(found), len(here) - 1))}


def conclude(
    recorded: dict[str, np.ndarray], null: dict[str, np.ndarray], found: Evidence, level: float = LEVEL
) -> Finding:
    if not recorded:
        return undecided("day_later", QUESTION, day_is_not(found))
    # What short records take away is the same for simulated chains, whose own correlation is known: put it back.
    forgotten = _forgetting(found, recorded["correlation"].shape[1])
    short = forgotten - null["correlation"].mean(0)
    day, curve, chains = _day(found), recorded["correlation"][0] + short, null["correlation"] + short
    value, chance = float(curve[day]), band(chains[:, day])
    p = apart(value, chains[:, day])
    holds = p > level
    numbers = f"{value:.2f} ({chance[0]:.2f} to {chance[1]:.2f} by chance for chains that forget)"
    if holds:
        sentence = f"No: the correlation of a device with itself a day later is {numbers}."
    elif value > np.median(chains[:, day]):
        sentence = (
            f"Yes: the correlation of a device with itself a day later is {numbers}."
            " Devices keep hours, shared or their own, that a chain would have forgotten."
        )
    else:
        sentence = (
            f"Yes, the other way round: the correlation of a device with itself a day later is {numbers}."
            " Who is here now is less likely to be here then."
        )
    low, high = np.quantile(chains, [0.025, 0.975], axis=0)
    shown = {
        "hours": (np.arange(len(curve)) * found.hours).tolist(),
        "recorded": curve.tolist(),
        "low": low.tolist(),
        "high": high.tolist(),
        "chain": forgotten.tolist(),
        "day": day * found.hours,
    }
    return Finding("day_later", QUESTION, sentence, holds, value, chance, p, shown)


def _forgetting(found: Evidence, lags: int) -> np.ndarray:
    """Mean of λ_k^lag, devices weighted by how much of them was seen."""
    weight = found.seen.sum((0, 1))
    correlation = steady(found).correlation
    return np.array([(weight * correlation**lag).sum() / weight.sum() for lag in range(lags)])
