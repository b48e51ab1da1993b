"""Do devices come and go independently of each other? With the hour of the day as a common cause, and without."""

import numpy as np

from fedtide.fleet.contrasts import LEVEL, apart, band
from fedtide.fleet.diagnosis import Finding
from fedtide.fleet.diagnosis_words import undecided
from fedtide.fleet.homogeneity import day_is_not, day_is_readable
from fedtide.fleet.nulls import Evidence, read_clock
from fedtide.fleet.slots import DAY, HERE, Slots

QUESTION = "Does the number of devices that are here vary as if each came and went on its own?"
AFTER_QUESTION = "And beyond what the hour of the day explains?"
LEAST_DEVICES = 5  # observed at a time, for a round to count
_MOST_POINTS = 1500  # of a figure


def variance_ratio(number: np.ndarray, expected: np.ndarray, variance: np.ndarray, looked: np.ndarray) -> np.ndarray:
    """[fleets] mean over rounds of (number here − expected)² / Σ_k p_k (1 − p_k); arrays [rounds, fleets]."""
    enough = (looked >= LEAST_DEVICES)[:, None] & (variance > 1e-9)
    ratio = np.where(enough, (number - expected) ** 2 / np.where(enough, variance, 1), 0)
    return ratio.sum(0) / np.maximum(enough.sum(0), 1)


def number_here(here: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """[rounds, fleets]."""
    return np.einsum("tfk,tk->tf", here, seen[:, 0], dtype=np.int32, casting="unsafe")


def independent(here: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Expected number here and its variance, [rounds, fleets], each device at its own mean."""
    seen = seen[:, 0].astype(np.float32)
    mean = np.einsum("tfk,tk->fk", here, seen, optimize=False) / np.maximum(seen.sum(0), 1)
    return seen @ mean.T, seen @ (mean * (1 - mean)).T


def with_clock(here: np.ndarray, seen: np.ndarray, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same with the profile that all devices share."""
    presence = read_clock(here, seen, cells).presence
    expected, variance = np.empty(here.shape[:2]), np.empty(here.shape[:2])
    for cell, p in enumerate(presence):
        rows = seen[cells == cell, 0].astype(float)
        expected[cells == cell], variance[cells == cell] = rows @ p.T, rows @ (p * (1 - p)).T
    return expected, variance


def pair_correlation(slots: Slots) -> float:
    """Mean signed correlation of pairs of devices about their own means: whatever the hour, or anything else, does.

    Each pair counts by the rounds in which both were observed; devices that never change, or were observed for less
    than a day, have none.
    """
    seen = slots.observed
    looked = seen.sum(0)
    mean = (slots.state == HERE).sum(0) / np.maximum(looked, 1)
    some = (looked * slots.round_seconds >= DAY) & (mean > 0) & (mean < 1)
    if not some.any():
        return 0.0
    seen, mean = seen[:, some], mean[some]
    left = np.where(seen, (slots.state[:, some] - mean) / np.sqrt(mean * (1 - mean)), 0).astype(np.float32)
    number = seen.sum(1)
    products = (left.sum(1, dtype=float) ** 2 - (left**2).sum(1, dtype=float)).sum()
    return float(products / max((number * (number - 1)).sum(), 1))


def measure(here: np.ndarray, found: Evidence) -> dict[str, np.ndarray]:
    number = number_here(here, found.seen)
    looked = found.seen.sum((1, 2))
    expected, variance = independent(here, found.seen)
    return {
        "variance": variance_ratio(number, expected, variance, looked),
        "number": number.T,
        "expected": expected.T.astype(np.float32),
    }


def measure_after(here: np.ndarray, found: Evidence) -> dict[str, np.ndarray]:
    """To be compared with independent chains that follow the clock; its profile is estimated in each of them."""
    if not day_is_readable(found):
        return {}
    number, looked = number_here(here, found.seen), found.seen.sum((1, 2))
    expected, variance = with_clock(here, found.seen, found.cells)
    return {
        "variance": variance_ratio(number, expected, variance, looked),
        "number": number.T,
        "expected": expected.T.astype(np.float32),
    }


def conclude(
    recorded: dict[str, np.ndarray], null: dict[str, np.ndarray], found: Evidence, level: float = LEVEL
) -> Finding:
    reason = _too_few(found)
    if reason:
        return undecided("together", QUESTION, reason)
    value, chance, p, holds = _test(recorded, null, level)
    numbers = _numbers(value, chance)
    if holds:
        sentence = f"Yes: {numbers}. As far as this record can tell, devices come and go independently."
    elif value > np.median(null["variance"]):
        sentence = f"No: {numbers}. Devices are here together, and away together, more than by chance."
    else:
        sentence = f"No: {numbers}. Devices take turns more than by chance."
    return Finding("together", QUESTION, sentence, holds, value, chance, p, _figure(recorded, null, found))


def conclude_after(
    recorded: dict[str, np.ndarray], null: dict[str, np.ndarray], found: Evidence, level: float = LEVEL
) -> Finding:
    name = "together_after_clock"
    reason = _too_few(found) or ("" if day_is_readable(found) else day_is_not(found))
    if reason:
        return undecided(name, AFTER_QUESTION, reason)
    value, chance, p, holds = _test(recorded, null, level)
    numbers = _numbers(value, chance)
    if holds:
        sentence = (
            f"With the hour of the day removed, {numbers}: this record shows no dependence beyond the shared day."
        )
    elif value > np.median(null["variance"]):
        sentence = (
            f"With the hour of the day removed, {numbers}: something besides the hour (the day of the week, an event,"
            " a group) moves devices together."
        )
    else:
        sentence = f"With the hour of the day removed, {numbers}: devices take turns more than by chance."
    return Finding(name, AFTER_QUESTION, sentence, holds, value, chance, p, _figure(recorded, null, found))


def _test(
    recorded: dict[str, np.ndarray], null: dict[str, np.ndarray], level: float
) -> tuple[float, tuple[float, float], float, bool]:
    value, chains = float(recorded["variance"][0]), null["variance"]
    p = apart(value, chains)
    return value, band(chains), p, p > level


def _numbers(value: float, chance: tuple[float, float]) -> str:
    return (
        f"the variance of the number here is {value:.2f} times that of independent devices"
        f" ({chance[0]:.2f} to {chance[1]:.2f} by chance)"
    )


def _too_few(found: Evidence) -> str:
    looked = found.seen.sum((1, 2))
    if (looked >= LEAST_DEVICES).sum() < 20:
        return f"{LEAST_DEVICES} devices or more were observed at the same time in fewer than 20 rounds"
    return ""


def _figure(
    recorded: dict[str, np.ndarray], null: dict[str, np.ndarray], found: Evidence
) -> dict[str, list[float] | int]:
    rounds = found.clock.rounds
    shown = np.unique(np.linspace(0, rounds - 1, min(rounds, _MOST_POINTS)).astype(int))
    low, high = np.quantile(null["number"][:, shown], [0.025, 0.975], axis=0)
    return {
        "hours": (shown * found.hours).tolist(),
        "recorded": recorded["number"][0, shown].tolist(),
        "expected": recorded["expected"][0, shown].tolist(),
        "low": low.tolist(),
        "high": high.tolist(),
        "observed": found.seen.sum((1, 2))[shown].tolist(),
        "devices": found.seen.shape[2],
    }
