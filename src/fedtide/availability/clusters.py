"""Clusters of clients with common availability."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.availability.base import Numbers, Process
from fedtide.errors import membership_of
from fedtide.streams import Stream
from fedtide.types import State, part


@part
class Clusters(Process):
    """Clients of a cluster are always available together: spatial correlation.

    Client k is available when its cluster is; `process` has one client for each cluster. `membership` is the cluster of
    each client, 0 … clusters − 1. π and λ are those of the client's cluster.
    """

    process: Process
    membership: Numbers
    clients: int = dataclasses.field(init=False)

    def __post_init__(self):
        self._set(membership=membership_of("membership", self.membership, self.process.clients))
        self._set(clients=len(self.membership))

    @property
    def two_state(self) -> bool:
        return self.process.two_state

    @property
    def clusters(self) -> Any:
        return self.membership

    @property
    def availability(self) -> np.ndarray | None:
        return self._spread(self.process.availability)

    @property
    def correlation(self) -> np.ndarray | None:
        return self._spread(self.process.correlation)

    def init(self, stream: Stream) -> State:
        return self.process.init(stream)

    def step(self, state: State, stream: Stream) -> tuple[Array, State]:
        available, state = self.process.step(state, stream)
        return available[jnp.asarray(self.membership)], state

    def _spread(self, values: np.ndarray | None) -> np.ndarray | None:
        return None if values is None else np.asarray(values)[np.asarray(self.membership)]
