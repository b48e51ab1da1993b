"""Availability that follows the time of day."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.availability.drifting import Drifting

DAY = 86_400  # seconds
WEEK = 7 * DAY


class Daily(Drifting):
    """P(client k is available in round t) = π_k (1 + s_k d(clock)), 1 + d = (1 + profile)(1 + weekday).

    `profile` holds 24 values at the middles of hours, linear in between; `weekday` seven, from Monday, or None. Both
    are such that the mean of d over the rounds of a day (a week) is 0, so that a client's average is exactly π_k.
    s_k = min(1, (1/π_k − 1)/max d) keeps probabilities of nearly always available clients below 1.
    """

    availability: Array
    swing: Array  # [N] s_k
    profile: Array  # [24]
    weekday: Array | None = None  # [7]
    round_seconds: int
    start_second: int  # of the day, or of the week, at which round 0 begins

    def marginal(self, t: Array | int) -> Array:
        # Whole seconds in 32 bits: exact for 136 years of rounds.
        second = jnp.asarray(t, jnp.uint32) * self.round_seconds + self.start_second
        return self.availability * (1 + self.swing * self._relative(jnp, second))

    def _seconds(self) -> np.ndarray:
        """Seconds of the day, or of the week, in each round of one cycle of the clock."""
        cycle = DAY if self.weekday is None else WEEK
        rounds = np.arange(cycle // math.gcd(cycle, self.round_seconds))
        return rounds * self.round_seconds + self.start_second

    def _clock(self) -> np.ndarray:
        """d in each round of one cycle of the clock."""
        return self._relative(np, self._seconds())

    def _relative(self, xp: Any, second: Any) -> Any:
        """d at these seconds of the day, or of the week; `xp` is NumPy or `jax.numpy`."""
        kind = np.float64 if xp is np else None  # JAX computes in the precision of the simulation
        relative = between_hours(xp.asarray(self.profile, kind), second % DAY, xp)
        if self.weekday is not None:
            relative = (1 + relative) * (1 + xp.asarray(self.weekday, kind)[second // DAY % 7]) - 1
        return relative

    def _again(self) -> tuple[np.ndarray, np.ndarray]:
        """[N] mean P(available in a round and in the next) over a cycle of the clock: with a kept draw, with two
        draws."""
        pi, swing = (np.asarray(v, np.float64) for v in (self.availability, self.swing))
        return again(pi, swing, self._clock())


def swing(pi: np.ndarray, most: float) -> np.ndarray:
    """s_k for a profile with maximum `most`."""
    return np.minimum(1, (1 - pi) / np.maximum(pi * most, 1e-12))


def again(pi: np.ndarray, swing: np.ndarray, now: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[N] mean P(available in a round and in the next) for d in each round: with a kept draw, with two draws."""
    after = np.roll(now, -1)
    kept = pi * (1 + swing * np.minimum(now, after).mean())
    return kept, pi**2 * (1 + swing**2 * (now * after).mean())


def between_hours(values: Any, seconds: Any, xp: Any = np) -> Any:
    """Values [24] at the middles of hours, linear in between, at these seconds after midnight."""
    return xp.interp(seconds / 3600 - 0.5, xp.arange(24.0), values, period=24)
