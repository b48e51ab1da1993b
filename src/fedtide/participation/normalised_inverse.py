"""Weights inverse to availability, normalised each round."""

from typing import Literal

import jax.numpy as jnp
from jax import Array

from fedtide.participation.base import Policy, share_of_all
from fedtide.types import Decision, Observation, Population, part


@part
class NormalisedInverse(Policy):
    """All available clients, q_k = (α_k / π̂_k) / Σ_{j∈A} (α_j / π̂_j).

    Biased: the normalisation of each round brings back part of the bias that the inverse removes. With α = (½, ½)
    and π = (.9, .1) the effective importance is (.9, .1). Unbiased when all π and all α are equal, or nobody is absent.

    Reference: Tan et al., "AdaFed: optimizing participation-aware federated learning with adaptive aggregation
    weights", IEEE TNSE 2022.
    """

    @property
    def needs_estimates(self) -> bool:
        return True

    @property
    def weighing(self) -> Literal["fixed", "normalised", "free"]:
        return "normalised"

    def init(self, population: Population) -> Array:
        return population.importance

    def decide(self, state: Array, seen: Observation) -> tuple[Decision, Array]:
        weight = jnp.where(seen.available, state / seen.estimate.availability, 0)
        weight = weight * share_of_all(state, weight)
        return Decision(seen.available, weight), state
