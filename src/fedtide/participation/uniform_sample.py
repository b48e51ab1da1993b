"""A uniform sample of the available clients."""

import jax.numpy as jnp
from jax import Array

from fedtide.errors import check_one_of, whole
from fedtide.participation.base import Weighed, Weights, weigh
from fedtide.participation.choice import largest
from fedtide.types import Decision, Observation, Population, part


@part
class UniformSample(Weighed):
    """`clients` of the available, uniformly without replacement (all, where fewer are there).

    Weights of the sample S: `equal` 1/|S|; `scaled` α_k N/|S|, unbiased for any α when all are available;
    `ratio` α_k / Σ_S α, biased in general; `fixed` α_k. None corrects for unequal availability.

    Reference: McMahan et al., "Communication-efficient learning of deep networks", AISTATS 2017.
    """

    clients: int
    weights: Weights = "equal"

    def __post_init__(self):
        object.__setattr__(self, "clients", whole("participation.clients", self.clients, 1))
        check_one_of("participation.weights", self.weights, Weights)

    def init(self, population: Population) -> Array:
        return population.importance

    def decide(self, state: Array, seen: Observation) -> tuple[Decision, Array]:
        score = seen.stream.uniform(jnp.arange(len(state)))
        invited = largest(score, seen.available, self.clients)
        return Decision(invited, weigh(self.weights, state, invited)), state

    def capacity(self, available: int) -> int:
        return min(self.clients, available)
