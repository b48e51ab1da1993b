"""Devices' own days: waves that return with the hour, on the scale of log odds."""

import numpy as np

DAY = 86_400  # seconds
HABIT = "habit"  # the column of devices that has their waves
FURTHEST = 50  # log odds of a wave
HARMONICS = 4  # waves of a day, of half, a third and a quarter of one

# Median over devices of the difference of a day's highest and lowest log odds, over σ: of eight times 50,000 days drawn
# with σ = 1, seen every ten minutes (± .003).
RANGE = 3.68

DECAY = np.repeat(1 / np.arange(1, HARMONICS + 1), 2)  # a device's j-th wave is 1/j as high


def drawn(sigma: float, devices: int, generator: np.random.Generator) -> np.ndarray:
    """[devices, 8] a_k1, b_k1, a_k2, … ~ N(0, (σ/j)²)."""
    return sigma * DECAY * generator.standard_normal((devices, len(DECAY)))


def waves(seconds: np.ndarray, columns: int = 2 * HARMONICS) -> np.ndarray:
    """[rounds, columns] cosine and sine of once a day, of twice, …, these seconds after midnight."""
    turns = 2 * np.pi / DAY * np.outer(np.asarray(seconds), np.arange(1, columns // 2 + 1))
    return np.stack([np.cos(turns), np.sin(turns)], -1).reshape(len(turns), columns)


def bent(presence: np.ndarray, wave: np.ndarray) -> np.ndarray:
    """Probabilities whose odds are e^wave times those of `presence`: within [0, 1], whatever the wave."""
    less = np.exp(-np.minimum(np.abs(wave), 700))  # of odds, or of those against: neither overflows
    up = wave > 0
    there, away = np.where(up, presence, presence * less), np.where(up, (1 - presence) * less, 1 - presence)
    return there / (there + away)


def balance(presence: np.ndarray, wave: np.ndarray) -> np.ndarray:
    """[N] what to take off each device's wave so that its mean presence stays as it was; arguments [N, rounds]."""
    wanted, low, high = presence.mean(1), wave.min(1), wave.max(1)
    off = wave.mean(1)
    for _ in range(60):
        found = bent(presence, wave - off[:, None])
        excess, slope = found.mean(1) - wanted, (found * (1 - found)).mean(1)
        low, high = np.where(excess > 0, off, low), np.where(excess < 0, off, high)
        if np.abs(excess).max(initial=0) < 1e-12:
            break
        newton = off + excess / np.maximum(slope, 1e-12)
        off = np.where((newton > low) & (newton < high), newton, (low + high) / 2)
    return off
