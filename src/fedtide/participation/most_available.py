"""Only the more available clients."""

import math
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from fedtide.declared import Weighting
from fedtide.errors import number
from fedtide.participation.base import Policy
from fedtide.types import Decision, Observation, part


@part
class MostAvailable(Policy):
    """Keeps the `fraction` of clients with the largest π̂ (ties by client index); q_k = α_k / π̂_k on those.

    Unbiased among the kept clients, ignores the others: the long-run objective is Σ_kept α_k F_k / Σ_kept α_k.

    Reference: Rodio et al., "Federated learning under heterogeneous and correlated client availability",
    IEEE/ACM ToN 2024 (its baseline "More available").
    """

    fraction: float = 0.5

    def __post_init__(self):
        number("participation.fraction", self.fraction, above=0, high=1)

    needs_estimates: ClassVar[bool] = True

    def in_theory(self, importance: np.ndarray, availability: np.ndarray, inverse: np.ndarray) -> Weighting:
        kept = np.argsort(-availability, kind="stable")[: math.ceil(self.fraction * len(inverse) * (1 - 1e-6))]
        return Weighting(np.where(np.isin(np.arange(len(inverse)), kept), inverse, 0))

    def decide(self, state: tuple[()], observation: Observation) -> tuple[Decision, tuple[()]]:
        clients = len(observation.available)
        order = jnp.argsort(-observation.estimate.availability, stable=True)
        rank = jnp.zeros(clients, jnp.int32).at[order].set(jnp.arange(clients, dtype=jnp.int32))
        # Rounded down by a few units of float32, so that 0.3 · 100 keeps 30 and not ⌈30.000001⌉.
        kept = jnp.ceil(self.fraction * clients * (1 - 4 * jnp.finfo(jnp.float32).eps))
        invited = observation.available & (rank < kept)
        weight = jnp.where(invited, observation.population.importance / observation.estimate.availability, 0)
        return Decision(invited, weight), state
