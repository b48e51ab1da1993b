"""Availability that follows a shared clock."""

import math

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.availability.drifting import Drifting

DAY = 86_400  # seconds
WEEK = 7 * DAY


class Daily(Drifting):
    """P(client k is there in round t) = π_k (1 + s_k d(clock)), 1 + d = (1 + profile)(1 + weekday).

    `profile` holds 24 values at the middles of hours, linear in between; `weekday` seven, from Monday, or None. Both
    are such that the mean of d over the rounds of a day (a week) is 0, so that a client's average is exactly π_k.
    s_k = min(1, (1/π_k − 1)/max d) spares those who are nearly always there.
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
        hour = (second % DAY) / 3600
        relative = jnp.interp(hour - 0.5, jnp.arange(24.0), jnp.asarray(self.profile), period=24)
        if self.weekday is not None:
            relative = (1 + relative) * (1 + jnp.asarray(self.weekday)[second // DAY % 7]) - 1
        return self.availability * (1 + self.swing * relative)

    def _seconds(self) -> np.ndarray:
        """Of the day, or of the week, in each round until the clock shows the same time again."""
        cycle = DAY if self.weekday is None else WEEK
        rounds = np.arange(cycle // math.gcd(cycle, self.round_seconds))
        return rounds * self.round_seconds + self.start_second

    def _clock(self) -> np.ndarray:
        """d in each round until the clock shows the same time again."""
        second = self._seconds()
        values = np.asarray(self.profile, np.float64)
        relative = np.interp(second % DAY / 3600 - 0.5, np.arange(24), values, period=24)
        if self.weekday is not None:
            relative = (1 + relative) * (1 + np.asarray(self.weekday, np.float64)[second // DAY % 7]) - 1
        return relative

    def _again(self) -> tuple[np.ndarray, np.ndarray]:
        """[N] P(there in a round and in the next), over the clock's rounds: by one draw kept, by two draws."""
        pi, swing = (np.asarray(v, np.float64) for v in (self.availability, self.swing))
        now = self._clock()
        after = np.roll(now, -1)
        kept = pi * (1 + swing * np.minimum(now, after).mean())
        return kept, pi**2 * (1 + swing**2 * (now * after).mean())


def swing(pi: np.ndarray, most: float) -> np.ndarray:
    """s_k for a profile that rises to `most`."""
    return np.minimum(1, (1 - pi) / np.maximum(pi * most, 1e-12))
