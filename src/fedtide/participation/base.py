"""What participation policies have in common."""

from typing import ClassVar, Literal

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.declared import Weighting
from fedtide.errors import check_one_of
from fedtide.types import Cohort, Observation, Population, QueriedLosses, State, Updates, Weighing, check_whole, derived

Weights = Literal["equal", "scaled", "ratio", "fixed"]
"""The weights of the invited clients: see `weigh`."""

_WEIGHING: dict[Weights, Weighing] = {"fixed": "fixed", "ratio": "normalised", "equal": "normalised", "scaled": "free"}


class Policy:
    """Defaults for policies: no requirements, no state, and up to all available clients, or up to `clients` of them
    where the policy has that field."""

    needs_estimates: ClassVar[bool] = False
    needs_correlation: ClassVar[bool] = False
    needs_losses: ClassVar[QueriedLosses] = None
    needs_optimum: ClassVar[bool] = False
    selects_by_loss: ClassVar[bool] = False
    weighing: ClassVar[Weighing] = "free"
    counts_invitations: ClassVar[bool] = False

    def in_theory(self, importance: np.ndarray, availability: np.ndarray, inverse: np.ndarray) -> Weighting:
        kind = type(self).__name__
        note = f"The weights ({kind}) change from round to round: neither limit nor path is predicted."
        return Weighting(note=note)

    def init(self, population: Population) -> State:
        return ()

    def candidates(self, state: State, observation: Observation) -> Array:
        return observation.available

    def learn(self, state: State, cohort: Cohort, updates: Updates) -> State:
        return state

    def query_capacity(self, available: int) -> int:
        return available

    def capacity(self, available: int) -> int:
        clients: int | None = getattr(self, "clients", None)
        return available if clients is None else min(clients, available)


class Weighed(Policy):
    """A policy with the weights of `weigh`."""

    weights: Weights

    def __post_init__(self):
        check_one_of("participation.weights", self.weights, Weights)
        if hasattr(self, "clients"):
            check_whole(self, "participation", clients=1)

    weighing: ClassVar[Weighing] = derived(lambda self: _WEIGHING[self.weights])

    def weighting(self, importance: np.ndarray) -> Weighting:
        """The weights of `weigh` where all available clients are invited, or equally many in every round."""
        if self.weights in ("ratio", "fixed"):
            return Weighting(importance, normalised=self.weights == "ratio")
        factor = importance * len(importance) if self.weights == "scaled" else None
        return Weighting(np.ones_like(importance), normalised=True, factor=factor)


def weigh(weights: Weights, importance: Array, invited: Array) -> Array:
    """q_k of the invited clients S: `equal` 1/|S|; `scaled` α_k N/|S|; `ratio` α_k / Σ_S α; `fixed` α_k. 0 for the
    others."""
    count = jnp.maximum(invited.sum(), 1)
    if weights == "equal":
        return jnp.where(invited, jnp.ones_like(importance) / count, 0)
    weight = jnp.where(invited, importance, 0)
    if weights == "scaled":
        return weight * len(importance) / count
    return weight * share_of_all(importance, weight) if weights == "ratio" else weight


def share_of_all(importance: Array, weight: Array) -> Array:
    """Σ α / Σ weight: the factor that normalises weights to sum 1 (Σ α = 1).

    Exactly 1 where the weights are α, so that normalised and fixed weights agree to the bit when all are available.
    """
    return importance.sum() / jnp.maximum(weight.sum(), jnp.finfo(weight.dtype).tiny)
