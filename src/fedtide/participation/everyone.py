"""Everyone who is available."""

import jax.numpy as jnp
from jax import Array

from fedtide.participation.base import Policy, share_of_all
from fedtide.types import Decision, Observation, Population, part


@part
class Everyone(Policy):
    """All available clients; q_k = α_k / Σ_A α (`normalise`) or the fixed q_k = α_k (absent clients count 0).

    Biased towards the available: with fixed weights the long-run objective is Σ p_k F_k, p_k ∝ π_k α_k.
    Unbiased only when availability is the same for all (fixed weights) or nobody is ever absent.

    Reference: McMahan et al., "Communication-efficient learning of deep networks", AISTATS 2017.
    """

    normalise: bool = True

    def init(self, population: Population) -> Array:
        return population.importance

    def decide(self, state: Array, seen: Observation) -> tuple[Decision, Array]:
        weight = jnp.where(seen.available, state, 0)
        if self.normalise:
            weight = weight * share_of_all(state, weight)
        return Decision(seen.available, weight), state
