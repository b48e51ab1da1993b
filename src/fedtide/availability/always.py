"""Everyone, always."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.availability.base import Process, count_clients
from fedtide.streams import Stream
from fedtide.types import part


@part
class Always(Process):
    """Every client is there in every round.

    π = 1. λ is 0 by convention: a constant has no correlation.
    """

    clients: int

    def __post_init__(self):
        object.__setattr__(self, "clients", count_clients(self.clients))

    @property
    def availability(self) -> np.ndarray:
        return np.ones(self.clients)

    @property
    def correlation(self) -> np.ndarray:
        return np.zeros(self.clients)

    def init(self, stream: Stream) -> tuple[()]:
        return ()

    def step(self, state: tuple[()], stream: Stream) -> tuple[Array, tuple[()]]:
        return jnp.ones(self.clients, bool), state
