"""A uniform sample of the available clients."""

from typing import Literal

import jax.numpy as jnp
from jax import Array

from fedtide.errors import require
from fedtide.participation.base import Policy, share_of_all
from fedtide.participation.choice import largest
from fedtide.types import Decision, Observation, Population, part


@part
class UniformSample(Policy):
    """`clients` of the available, uniformly without replacement (all, where fewer are there).

    Weights of the sample S: `equal` 1/|S|; `scaled` α_k N/|S|, unbiased for any α when all are available;
    `ratio` α_k / Σ_S α, biased in general. None corrects for unequal availability.

    Reference: McMahan et al., "Communication-efficient learning of deep networks", AISTATS 2017.
    """

    clients: int
    weights: Literal["equal", "scaled", "ratio"] = "equal"

    def __post_init__(self):
        require(self.clients >= 1, "participation.clients", self.clients, "1 or more")
        allowed = ("equal", "scaled", "ratio")
        require(self.weights in allowed, "participation.weights", self.weights, f"one of {', '.join(allowed)}")

    def init(self, population: Population) -> Array:
        return population.importance

    def decide(self, state: Array, seen: Observation) -> tuple[Decision, Array]:
        total = len(state)
        score = seen.stream.uniform(jnp.arange(total))
        invited = largest(score, seen.available, self.clients)
        count = jnp.maximum(invited.sum(), 1)
        if self.weights == "equal":
            weight = jnp.where(invited, 1 / count, 0.0)
        elif self.weights == "scaled":
            weight = jnp.where(invited, state * total / count, 0)
        else:
            weight = jnp.where(invited, state, 0)
            weight = weight * share_of_all(state, weight)
        return Decision(invited, weight), state

    def capacity(self, available: int) -> int:
        return min(self.clients, available)
