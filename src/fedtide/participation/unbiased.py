"""Weights inverse to availability."""

import jax.numpy as jnp
from jax import Array

from fedtide.participation.base import Policy
from fedtide.types import Decision, Observation, Population, part


@part
class Unbiased(Policy):
    """All available clients, q_k = α_k / π̂_k.

    Unbiased when π̂ = π: E[q_k 1{k available}] = α_k. Large weights on rare clients make it noisy.

    Reference: Rodio et al., "Federated learning under heterogeneous and correlated client availability",
    IEEE/ACM ToN 2024.
    """

    @property
    def needs_estimates(self) -> bool:
        return True

    def init(self, population: Population) -> Array:
        return population.importance

    def decide(self, state: Array, seen: Observation) -> tuple[Decision, Array]:
        weight = jnp.where(seen.available, state / seen.estimate.availability, 0)
        return Decision(seen.available, weight), state
