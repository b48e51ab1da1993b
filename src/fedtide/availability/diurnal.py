"""Daily availability with time zones."""

import functools

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.availability.base import Numbers, count_clients, lag_one, per_client
from fedtide.availability.drifting import Drifting
from fedtide.errors import require, require_each
from fedtide.types import part


@part
class Diurnal(Drifting):
    """Availability that varies over the day, with a time zone per client; optionally correlated over rounds.

    P(client k is available in round t) = clip(base_k · (1 + amplitude_k · sin(2π(t/period + zone_k))), 0, 1), exactly.
    A day has `period` rounds; `zone` is the client's shift as a fraction of a day. `persistence` ρ is the probability
    that a client keeps its random number from one round to the next: Cov(on_t, on_{t+1}) = ρ(min(π(t), π(t+1)) −
    π(t)π(t+1)).

    π and λ are averages over a day: λ = (mean of P(on at t and t+1) − π²) / (π(1−π)), as an empirical estimate is.

    `base`, `amplitude`, `zone` and `persistence` are numbers, or have one number per client; `clients` is needed if all
    are numbers.
    """

    base: Numbers
    amplitude: Numbers = 0.8
    zone: Numbers = 0.0
    persistence: Numbers = 0.0
    period: int = 48
    clients: int = None  # pyright: ignore[reportAssignmentType]  # filled from the vectors

    def __post_init__(self):
        fields = {"base": (0, 1), "amplitude": (0, 100), "zone": (-1, 1), "persistence": (0, 1)}
        clients = count_clients(self.clients, *(getattr(self, name) for name in fields))
        for name, (low, high) in fields.items():
            self._set(**{name: per_client(name, getattr(self, name), clients, low, high)})
        keep = np.asarray(self.persistence)
        require_each(keep < 1, "persistence", keep, "in [0, 1)")
        require(self.period >= 2, "period", self.period, "2 or more rounds a day")
        self._set(clients=len(self.base))

    def marginal(self, t: Array | int) -> Array:
        # The round within the day is exact for any t; its fraction of a day is not.
        day = (jnp.asarray(t) % self.period) / self.period
        return jnp.clip(self.base * (1 + self.amplitude * jnp.sin(2 * jnp.pi * (day + self.zone))), 0, 1)

    @property
    def availability(self) -> np.ndarray:
        return self._day[0]

    @property
    def correlation(self) -> np.ndarray:
        return lag_one(*self._day)

    @functools.cached_property
    def _day(self) -> tuple[np.ndarray, np.ndarray]:
        """Averages over a day of P(on) and of P(on now and in the next round)."""
        keep = np.asarray(self.persistence)
        present = both = np.zeros(self.clients)
        now = np.asarray(self.marginal(0), np.float64)
        for t in range(self.period):
            after = np.asarray(self.marginal(t + 1), np.float64)
            present = present + now
            both = both + keep * np.minimum(now, after) + (1 - keep) * now * after
            now = after
        return present / self.period, both / self.period
