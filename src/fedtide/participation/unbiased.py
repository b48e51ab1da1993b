"""Weights inverse to availability."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from fedtide.declared import Weighting
from fedtide.participation.base import Policy
from fedtide.types import Decision, Observation, part


@part
class Unbiased(Policy):
    """All available clients, q_k = α_k / π̂_k.

    Unbiased when π̂ = π: E[q_k 1{k available}] = α_k. Large weights of rarely available clients make it noisy.

    Reference: Rodio et al., "Federated learning under heterogeneous and correlated client availability",
    IEEE/ACM ToN 2024.
    """

    needs_estimates: ClassVar[bool] = True

    def in_theory(self, importance: np.ndarray, availability: np.ndarray, inverse: np.ndarray) -> Weighting:
        return Weighting(inverse)

    def decide(self, state: tuple[()], observation: Observation) -> tuple[Decision, tuple[()]]:
        weight = jnp.where(
            observation.available, observation.population.importance / observation.estimate.availability, 0
        )
        return Decision(observation.available, weight), state
