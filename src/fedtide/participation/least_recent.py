"""The clients that were invited longest ago."""

from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from fedtide.participation.base import Weighed, Weights, weigh
from fedtide.participation.choice import first
from fedtide.types import Decision, Observation, Population, part


@part
class LeastRecent(Weighed):
    """The `clients` available clients that were invited longest ago, those never invited first; ties at random.

    Weights as in `UniformSample`, by default fixed α_k, as a memory of updates (`LatestUpdates`) needs them: there this
    policy limits staleness. Without such a memory it is biased towards available clients.

    Reference: Yan et al., "Distributed non-convex optimization with sublinear speedup under intermittent client
    availability", 2020 (FedLaAvg).
    """

    clients: int = 10
    weights: Weights = "fixed"

    counts_invitations: ClassVar[bool] = True

    def init(self, population: Population) -> Array:
        return jnp.full(len(population.importance), -1, jnp.int32)  # the round of the last invitation

    def decide(self, state: Array, observation: Observation) -> tuple[Decision, Array]:
        ties = observation.stream.uniform(jnp.arange(len(state)))
        invited = first(state, ties, observation.available, self.clients)
        last = jnp.where(invited, jnp.asarray(observation.round, jnp.int32), state)
        return Decision(invited, weigh(self.weights, observation.population.importance, invited)), last
