"""Availability that follows a shared clock and each client's own day."""

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.availability.daily import DAY, Daily
from fedtide.errors import require

_CHUNK = 4096  # clients at a time
_MOST = 24  # columns of habits


class Habitual(Daily):
    """Where there is a `habit`, the odds of `Daily` times exp(h_k(clock) − c_k).

    h_k = Σ_j a_kj cos(2πj clock) + b_kj sin(2πj clock), the clock in days; `habit` [N, 2J] holds a_k1, b_k1, a_k2, …
    c_k (`balance`) is such that the mean over the rounds of a day (a week) is exactly π_k; odds keep π_k(t) in [0, 1].
    """

    habit: Array | None
    balance: Array | None  # [N] c_k

    def marginal(self, t: Array | int) -> Array:
        shared = super().marginal(t)
        if self.habit is None:
            return shared
        second = jnp.asarray(t, jnp.uint32) * self.round_seconds + self.start_second
        turns = 2 * jnp.pi / DAY * (second % DAY) * jnp.arange(1, self.habit.shape[1] // 2 + 1)
        habit = jnp.asarray(self.habit, shared.dtype)
        wave = habit[:, ::2] @ jnp.cos(turns) + habit[:, 1::2] @ jnp.sin(turns)
        wave = wave - jnp.asarray(self.balance, shared.dtype)
        less = jnp.exp(-jnp.minimum(jnp.abs(wave), 80))  # of odds, or of those against: neither overflows
        there, away = jnp.where(wave > 0, 1, less) * shared, jnp.where(wave > 0, less, 1) * (1 - shared)
        return there / (there + away)

    def _balanced(self, habit: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Checked habit, and what keeps the means of clients."""
        if habit is None:
            return None, None
        from fedtide.fleet.waves import FURTHEST, balance

        habit = np.asarray(habit, np.float64)
        fine = habit.ndim == 2 and len(habit) == self.clients and habit.shape[1] in range(2, _MOST + 1, 2)
        fine = fine and bool((np.abs(habit) <= FURTHEST).all())
        allowed = f"{self.clients} rows of 2, 4, … {_MOST} numbers (log odds, cosine and sine of each wave)"
        require(fine, "habit", f"an array of shape {habit.shape}", allowed)
        parts = [balance(self._shared(some), self._wave(some, habit)) for some in self._chunks()]
        return habit, np.concatenate(parts)

    def _chunks(self) -> Iterator[slice]:
        return (slice(first, first + _CHUNK) for first in range(0, self.clients, _CHUNK))

    def _shared(self, some: Any) -> np.ndarray:
        """[n, rounds] what the shared clock gives to these clients, until it shows the same time again."""
        pi, follow = (np.asarray(v, np.float64)[some, None] for v in (self.availability, self.swing))
        return pi * (1 + follow * self._clock())

    def _wave(self, some: Any, habit: np.ndarray) -> np.ndarray:
        from fedtide.fleet.waves import waves

        return habit[some] @ waves(self._seconds() % DAY, habit.shape[1]).T

    def _presence(self, some: Any) -> np.ndarray:
        """[n, rounds] π_k(t) of these clients, until the clock shows the same time again."""
        if self.habit is None:
            return self._shared(some)
        from fedtide.fleet.waves import bent

        wave = self._wave(some, np.asarray(self.habit, np.float64))
        return bent(self._shared(some), wave - np.asarray(self.balance, np.float64)[some, None])

    def _again(self) -> tuple[np.ndarray, np.ndarray]:
        kept, redrawn = super()._again()
        if self.habit is not None:
            for some in self._chunks():
                now = self._presence(some)
                after = np.roll(now, -1, axis=1)
                kept[some], redrawn[some] = np.minimum(now, after).mean(1), (now * after).mean(1)
        return kept, redrawn
