"""Weights inverse to availability, normalised each round."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from fedtide.declared import Weighting
from fedtide.participation.base import Policy, share_of_all
from fedtide.types import Decision, Observation, Weighing, part


@part
class NormalisedInverse(Policy):
    """All available clients, q_k = (α_k / π̂_k) / Σ_{j∈A} (α_j / π̂_j).

    Biased: the normalisation in each round restores part of the bias that the inverse removes. With α = (½, ½) and
    π = (.9, .1) the effective importance is (.9, .1). Unbiased when all π and all α are equal, or no client is ever
    absent.

    Reference: Tan et al., "AdaFed: optimizing participation-aware federated learning with adaptive aggregation
    weights", IEEE TNSE 2022.
    """

    needs_estimates: ClassVar[bool] = True
    weighing: ClassVar[Weighing] = "normalised"

    def in_theory(self, importance: np.ndarray, availability: np.ndarray, inverse: np.ndarray) -> Weighting:
        return Weighting(inverse, normalised=True)

    def decide(self, state: tuple[()], observation: Observation) -> tuple[Decision, tuple[()]]:
        importance = observation.population.importance
        weight = jnp.where(observation.available, importance / observation.estimate.availability, 0)
        weight = weight * share_of_all(importance, weight)
        return Decision(observation.available, weight), state
