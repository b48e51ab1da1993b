"""Independent availability in each round."""

import jax.numpy as jnp
from jax import Array

from fedtide.availability.base import Independent, Numbers, count_clients, per_client
from fedtide.streams import Stream
from fedtide.types import part


@part
class Bernoulli(Independent):
    """Each client is available with its own probability, independently of other clients and rounds.

    P(client k is available) = π_k in every round, λ = 0. `availability` is one number for each client, or one number
    and `clients`.
    """

    two_state = True

    availability: Numbers
    clients: int = None  # pyright: ignore[reportAssignmentType]  # filled from availability

    def __post_init__(self):
        clients = count_clients(self.clients, self.availability)
        self._set(availability=per_client("availability", self.availability, clients))
        self._set(clients=len(self.availability))

    def step(self, state: tuple[()], stream: Stream) -> tuple[Array, tuple[()]]:
        return stream.uniform(jnp.arange(self.clients)) < jnp.asarray(self.availability), state
