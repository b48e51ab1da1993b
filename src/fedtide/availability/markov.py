"""A two-state chain for each client."""

import jax.numpy as jnp
from jax import Array

from fedtide.availability.base import Numbers, Process, count_clients, per_client
from fedtide.errors import require
from fedtide.statistics import lowest_correlation
from fedtide.streams import Stream
from fedtide.types import part


@part
class Markov(Process):
    """An independent two-state Markov chain for each client, started from its stationary distribution.

    P(on|on) = λ + (1−λ)π and P(on|off) = (1−λ)π. π is the stationary availability,
    λ the lag-1 correlation: autocovariance π(1−π)λ^s, mean off-run 1/((1−λ)π) rounds, mean return time 1/π whatever
    λ. Admissible: max(1 − 1/π, 1 − 1/(1−π)) ≤ λ < 1.

    `availability` and `correlation` are numbers, or have one number per client; `clients` is needed if both are
    numbers.

    Reference: Rodio et al., "Federated learning under heterogeneous and correlated client availability",
    IEEE/ACM ToN 2024, Sec. III.
    """

    two_state = True

    availability: Numbers
    correlation: Numbers
    clients: int = None  # pyright: ignore[reportAssignmentType]  # filled from the vectors

    def __post_init__(self):
        clients = count_clients(self.clients, self.availability, self.correlation)
        pi = per_client("availability", self.availability, clients)
        lam = per_client("correlation", self.correlation, clients, low=-1.0)
        lowest = lowest_correlation(pi)
        bad = (lam < lowest - 1e-12) | (lam >= 1)
        if bad.any():
            k = int(bad.argmax())
            require(False, f"correlation[{k}]", float(lam[k]), f"in [{lowest[k]:.4g}, 1) for availability {pi[k]:.4g}")
        self._set(availability=pi, correlation=lam, clients=len(pi))

    def init(self, stream: Stream) -> Array:
        return stream.uniform(jnp.arange(self.clients)) < jnp.asarray(self.availability)

    def step(self, state: Array, stream: Stream) -> tuple[Array, Array]:
        arrive = (1 - self.correlation) * jnp.asarray(self.availability)
        on = arrive + jnp.where(state, self.correlation, 0)
        # The second random number of round t decides availability in round t + 1.
        return state, stream.uniform(jnp.arange(self.clients), 2)[:, 1] < on
