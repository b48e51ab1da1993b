"""Independent from round to round."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.availability.base import Numbers, Process, count_clients, per_client
from fedtide.streams import Stream
from fedtide.types import part


@part
class Bernoulli(Process):
    """Each client is there with its own probability, independently of everything.

    P(client k is there) = π_k in every round, λ = 0. `availability` is one number for each client, or one number and
    `clients`.
    """

    availability: Numbers
    clients: int = None  # pyright: ignore[reportAssignmentType]  # filled from availability

    def __post_init__(self):
        clients = count_clients(self.clients, self.availability)
        object.__setattr__(self, "availability", per_client("availability", self.availability, clients))
        object.__setattr__(self, "clients", len(self.availability))

    @property
    def correlation(self) -> np.ndarray:
        return np.zeros(self.clients)

    def init(self, stream: Stream) -> tuple[()]:
        return ()

    def step(self, state: tuple[()], stream: Stream) -> tuple[Array, tuple[()]]:
        return stream.uniform(jnp.arange(self.clients)) < jnp.asarray(self.availability), state
