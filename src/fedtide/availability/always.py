"""All clients, always."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.availability.base import Independent, count_clients
from fedtide.streams import Stream
from fedtide.types import part


@part
class Always(Independent):
    """Every client is available in every round.

    π = 1. λ is 0 by convention: the correlation of a constant is undefined.
    """

    two_state = True

    clients: int

    def __post_init__(self):
        self._set(clients=count_clients(self.clients))

    @property
    def availability(self) -> np.ndarray:
        return np.ones(self.clients)

    def step(self, state: tuple[()], stream: Stream) -> tuple[Array, tuple[()]]:
        return jnp.ones(self.clients, bool), state
