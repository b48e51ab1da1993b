"""Clients that come and go together."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.availability.base import Numbers, Process, membership_of
from fedtide.streams import Stream
from fedtide.types import State, part


@part
class Clusters(Process):
    """Clients of a cluster come and go together: spatial correlation.

    Client k is there when its cluster is; `process` plays one client for each cluster. `membership` is the cluster of
    each client, 0 … clusters − 1. π and λ are those of the client's cluster.
    """

    process: Process
    membership: Numbers
    clients: int = dataclasses.field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "membership", membership_of("membership", self.membership, self.process.clients))
        object.__setattr__(self, "clients", len(self.membership))

    @property
    def availability(self) -> np.ndarray | None:
        return self._spread(self.process.availability)

    @property
    def correlation(self) -> np.ndarray | None:
        return self._spread(self.process.correlation)

    def init(self, stream: Stream) -> State:
        return self.process.init(stream)

    def step(self, state: State, stream: Stream) -> tuple[Array, State]:
        here, state = self.process.step(state, stream)
        return here[jnp.asarray(self.membership)], state

    def _spread(self, values: np.ndarray | None) -> np.ndarray | None:
        return None if values is None else np.asarray(values)[np.asarray(self.membership)]
