"""Are devices independent of each other, with and without the hour of the day as a common cause?"""

from typing import NamedTuple

import numpy as np

from fedtide.fleet.diagnosis.contrasts import apart, band
from fedtide.fleet.diagnosis.findings import Decided, Name, NumberFigure, Undecided
from fedtide.fleet.diagnosis.nulls import Evidence, read_clock
from fedtide.fleet.slots import DAY, HERE, Slots

LEAST_DEVICES = 5  # observed at a time, for a round to count
_LEAST_ROUNDS = 20  # with so many
_MOST_POINTS = 1500  # of a figure


def variance_ratio(number: np.ndarray, expected: np.ndarray, variance: np.ndarray, looked: np.ndarray) -> np.ndarray:
    """[fleets] mean over rounds of (number available − expected)² / Σ_k p_k (1 − p_k); arrays [rounds, fleets]."""
    enough = (looked >= LEAST_DEVICES)[:, None] & (variance > 1e-9)
    # Averaged over rounds, so that rounds with many observed devices do not dominate.
    ratio = np.where(enough, (number - expected) ** 2 / np.where(enough, variance, 1), 0)
    return ratio.sum(0) / np.maximum(enough.sum(0), 1)


def number_available(here: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """[rounds, fleets]."""
    return np.einsum("tfk,tk->tf", here, seen[:, 0], dtype=np.int32, casting="unsafe")


def independent(here: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Expected number available and its variance, [rounds, fleets], each device at its own mean."""
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
    """Mean signed correlation of pairs of devices about their own means, daily cycle included.

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


class Together(NamedTuple):
    variance: np.ndarray  # [fleets] over that of independent devices
    number: np.ndarray  # [fleets, rounds] available
    expected: np.ndarray


def measure(here: np.ndarray, found: Evidence) -> Together:
    return _measured(here, found, independent(here, found.seen))


def measure_after(here: np.ndarray, found: Evidence) -> Together:
    """To be compared with independent chains that follow the clock; its profile is estimated in each of them."""
    return _measured(here, found, with_clock(here, found.seen, found.cells))


def _measured(here: np.ndarray, found: Evidence, alone: tuple[np.ndarray, np.ndarray]) -> Together:
    (expected, variance), number = alone, number_available(here, found.seen)
    ratio = variance_ratio(number, expected, variance, found.seen.sum((1, 2)))
    return Together(ratio, number.T, expected.T.astype(np.float32))


def too_few(found: Evidence, name: Name) -> Undecided | None:
    enough = (found.seen.sum((1, 2)) >= LEAST_DEVICES).sum() >= _LEAST_ROUNDS
    return None if enough else Undecided(name, "few at a time")


def too_little_for_the_clock(found: Evidence, name: Name) -> Undecided | None:
    return too_few(found, name) or found.day_unreadable(name)


def conclude(name: Name, recorded: Together, null: Together, found: Evidence) -> Decided:
    """Two-sided: negatively correlated devices are dependent, too."""
    value, rounds = float(recorded.variance[0]), found.clock.rounds
    shown = np.unique(np.linspace(0, rounds - 1, min(rounds, _MOST_POINTS)).astype(int))
    low, high = np.quantile(null.number[:, shown], [0.025, 0.975], axis=0)
    curve = shown * found.hours, recorded.number[0, shown], low, high, recorded.expected[0, shown]
    figure = NumberFigure(*curve, observed=found.seen.sum((1, 2))[shown], devices=found.seen.shape[2])
    higher = value > np.median(null.variance)
    return Decided(name, value, band(null.variance), apart(value, null.variance), figure, higher=higher)
