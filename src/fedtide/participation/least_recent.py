"""The clients that have been away longest."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from fedtide.errors import check_one_of, whole
from fedtide.participation.base import Weighed, Weights, weigh
from fedtide.participation.choice import first
from fedtide.types import Decision, Observation, Population, part


class Rounds(NamedTuple):
    importance: Array  # [N] α
    last: Array  # [N] the round of the last invitation, −1 before the first


@part
class LeastRecent(Weighed):
    """The `clients` available ones whose last round lies farthest back, those never invited first; ties at random.

    Weights as `UniformSample`, by default fixed α_k: what a memory of updates needs (`LatestUpdates`), where it keeps
    updates from growing stale. On its own it is biased towards the available.

    Reference: Yan et al., "Distributed non-convex optimization with sublinear speedup under intermittent client
    availability", 2020 (FedLaAvg).
    """

    clients: int = 10
    weights: Weights = "fixed"

    def __post_init__(self):
        object.__setattr__(self, "clients", whole("participation.clients", self.clients, 1))
        check_one_of("participation.weights", self.weights, Weights)

    @property
    def counts_invitations(self) -> bool:
        return True

    def init(self, population: Population) -> Rounds:
        return Rounds(population.importance, jnp.full(len(population.importance), -1, jnp.int32))

    def decide(self, state: Rounds, seen: Observation) -> tuple[Decision, Rounds]:
        ties = seen.stream.uniform(jnp.arange(len(state.last)))
        invited = first(state.last, ties, seen.available, self.clients)
        last = jnp.where(invited, jnp.asarray(seen.round, jnp.int32), state.last)
        return Decision(invited, weigh(self.weights, state.importance, invited)), state._replace(last=last)

    def capacity(self, available: int) -> int:
        return min(self.clients, available)
