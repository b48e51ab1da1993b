"""Device-specific daily cycles: waves in the time of day, on the scale of log odds."""

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.availability.daily import DAY, Daily
from fedtide.errors import require

FURTHEST = 50  # largest log odds of a wave
_CHUNK = 4096  # clients at a time
_MOST = 24  # columns of habits at most
HARMONICS = 4  # periods of 24, 12, 8 and 6 hours

# Median over devices of the range of log odds within a day, divided by σ (± .003): from eight times 50,000 days drawn
# with σ = 1, evaluated every ten minutes.
RANGE = 3.68

DECAY = np.repeat(1 / np.arange(1, HARMONICS + 1), 2)  # the amplitude of the j-th wave is proportional to 1/j


def drawn(sigma: float, devices: int, generator: np.random.Generator) -> np.ndarray:
    """[devices, 8] a_k1, b_k1, a_k2, … ~ N(0, (σ/j)²)."""
    return sigma * DECAY * generator.standard_normal((devices, len(DECAY)))


def waves(seconds: np.ndarray, columns: int = 2 * HARMONICS) -> np.ndarray:
    """[rounds, columns] cosine and sine of 1, 2, … cycles per day at these seconds after midnight."""
    turns = 2 * np.pi / DAY * np.outer(np.asarray(seconds), np.arange(1, columns // 2 + 1))
    return np.stack([np.cos(turns), np.sin(turns)], -1).reshape(len(turns), columns)


def bent(presence: Any, wave: Any, xp: Any = np) -> Any:
    """Probabilities whose odds are e^wave times those of `presence`; in [0, 1] for any wave.

    `xp` is NumPy or `jax.numpy`; e⁻⁸⁰ is positive in 32 bits, so that 0 / 0 cannot occur.
    """
    less = xp.exp(-xp.minimum(xp.abs(wave), 80))  # factor of the odds, or of their inverse: neither overflows
    odds, against = xp.where(wave > 0, 1, less) * presence, xp.where(wave > 0, less, 1) * (1 - presence)
    return odds / (odds + against)


def balance(presence: np.ndarray, wave: np.ndarray) -> np.ndarray:
    """[N] the offset of each device's wave that preserves its mean availability; arguments [N, rounds]."""
    wanted, low, high = presence.mean(1), wave.min(1), wave.max(1)
    off = wave.mean(1)
    # Newton's steps within a bracket: SciPy's find_root has no derivatives, and takes 3 to 30 times as long in fits.
    for _ in range(60):
        found = bent(presence, wave - off[:, None])
        excess, slope = found.mean(1) - wanted, (found * (1 - found)).mean(1)
        low, high = np.where(excess > 0, off, low), np.where(excess < 0, off, high)
        if np.abs(excess).max(initial=0) < 1e-12:
            break
        newton = off + excess / np.maximum(slope, 1e-12)
        off = np.where((newton > low) & (newton < high), newton, (low + high) / 2)
    return off


class Habitual(Daily):
    """`Daily` with device-specific waves: with a `habit`, its odds are multiplied by exp(h_k(clock) − c_k).

    h_k = Σ_j a_kj cos(2πj clock) + b_kj sin(2πj clock), the clock in days; `habit` [N, 2J] holds a_k1, b_k1, a_k2, …
    c_k (`balance`) makes the mean over the rounds of a day (a week) exactly π_k; with odds, π_k(t) stays in [0, 1].
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
        return bent(shared, wave - jnp.asarray(self.balance, shared.dtype), jnp)

    def _balanced(self, habit: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
        """The checked habit, and the offsets that preserve the means."""
        if habit is None:
            return None, None
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
        """[n, rounds] the marginals of these clients by the shared clock alone, over a whole cycle."""
        pi, follow = (np.asarray(v, np.float64)[some, None] for v in (self.availability, self.swing))
        return pi * (1 + follow * self._clock())

    def _wave(self, some: Any, habit: np.ndarray) -> np.ndarray:
        return habit[some] @ waves(self._seconds() % DAY, habit.shape[1]).T

    def _presence(self, some: Any) -> np.ndarray:
        """[n, rounds] π_k(t) of these clients over a whole cycle of the clock."""
        if self.habit is None:
            return self._shared(some)
        wave = self._wave(some, np.asarray(self.habit, np.float64))
        return bent(self._shared(some), wave - np.asarray(self.balance, np.float64)[some, None])

    def _again(self) -> tuple[np.ndarray, np.ndarray]:
        kept, redrawn = super()._again()
        if self.habit is not None:
            for some in self._chunks():
                kept[some], redrawn[some] = there_again(self._presence(some))
        return kept, redrawn


def there_again(presence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[N] P(available in two consecutive rounds) for marginals [N, rounds]: with one draw kept, with two draws."""
    after = np.roll(presence, -1, axis=1)
    return np.minimum(presence, after).mean(1), (presence * after).mean(1)
