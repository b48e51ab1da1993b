"""A random-access channel for few users."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.availability.base import Independent, Numbers, count_clients, per_client
from fedtide.errors import require
from fedtide.streams import Stream
from fedtide.types import part


@part
class RandomAccess(Independent):
    """In every round `users` clients get access to a channel, drawn with given probabilities.

    Users are drawn sequentially without replacement, with probabilities p renormalised over the remaining ones, and
    independently in each round: λ = 0. As a race, client k arrives at time E_k / p_k with E_k exponential, and the
    first `users` clients are available. π = p for one user. For more, π_k = ∫ p_k e^(−p_k t) P(fewer than `users`
    others arrived by t) dt, computed by quadrature; None where that would take more than about a minute.

    `probabilities` sum to 1: one number for each client, or one number and `clients`.
    """

    probabilities: Numbers
    users: int = 1
    clients: int = None  # pyright: ignore[reportAssignmentType]  # filled from probabilities

    def __post_init__(self):
        p = per_client("probabilities", self.probabilities, count_clients(self.clients, self.probabilities))
        require(
            abs(p.sum() - 1) < 1e-6, "probabilities", self.probabilities, f"values that sum to 1, not {p.sum():.6g}"
        )
        possible = int((p > 0).sum())
        require(1 <= self.users <= possible, "users", self.users, f"in 1 … {possible}, the clients of probability > 0")
        self._set(probabilities=p / p.sum(), clients=len(p))

    @functools.cached_property
    def availability(self) -> np.ndarray | None:
        p = np.asarray(self.probabilities, np.float64)
        return p if self.users == 1 else inclusion(p, self.users)

    def step(self, state: tuple[()], stream: Stream) -> tuple[Array, tuple[()]]:
        arrival = exponential(stream, self.clients) / jnp.asarray(self.probabilities)
        _, through = jax.lax.top_k(-arrival, self.users)
        return jnp.zeros(self.clients, bool).at[through].set(True), state


def exponential(stream: Stream, clients: int) -> Array:
    """Exponential numbers with full relative precision near 0, where a race among many clients is decided."""
    high, low = jnp.moveaxis(stream.uniform(jnp.arange(clients), 2), -1, 0)
    uniform = jnp.minimum(high + low * 2.0**-24, 1 - 2.0**-24)
    return -jnp.log1p(-uniform)


def inclusion(p: np.ndarray, users: int) -> np.ndarray | None:
    """P(client is among the first `users` arrivals), for rates p of sum 1; None where that takes too long to compute.

    The trapezoidal rule on log t, whose error vanishes exponentially in 1/step for a smooth integrand that decays on
    both sides. How many others arrived by t is Poisson-binomial, and depends on the client only through its own p.
    """
    rates, which = np.unique(p, return_inverse=True)
    step = min(0.1, 0.5 / users**0.5)
    t = np.exp(np.arange(np.log(1e-12), np.log(50 / rates[rates > 0][0]), step))
    if len(t) * len(rates) * users * np.count_nonzero(p) > 5e9:
        return None
    fewer = np.zeros((len(rates), len(t), users))  # P(exactly 0, 1, …, users − 1 others by t)
    fewer[..., 0] = 1
    own = np.zeros(len(rates), bool)  # whether one client of this rate has been excluded
    for j in np.flatnonzero(p):
        arrived = -np.expm1(-p[j] * t)[:, None]
        others = np.ones(len(rates), bool)
        if not own[which[j]]:
            own[which[j]], others[which[j]] = True, False
        moved = fewer[others]
        shifted = np.concatenate([np.zeros_like(moved[..., :1]), moved[..., :-1]], axis=-1)
        fewer[others] = moved * (1 - arrived) + shifted * arrived
    density = rates[:, None] * np.exp(-rates[:, None] * t) * t
    return (density * fewer.sum(-1)).sum(1)[which] * step
