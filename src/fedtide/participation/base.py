"""What participation policies have in common."""

from typing import Literal

import jax.numpy as jnp
from jax import Array

from fedtide.types import Cohort, Observation, State, Updates

Weights = Literal["equal", "scaled", "ratio", "fixed"]
"""How those who take part are weighed: see `weigh`."""


class Policy:
    """Declares what a policy asks for: by default nothing. By default it may invite all who are available."""

    @property
    def needs_estimates(self) -> bool:
        return False

    @property
    def needs_correlation(self) -> bool:
        return False

    @property
    def needs_losses(self) -> Literal["minibatch", "all"] | None:
        return None

    @property
    def needs_optimum(self) -> bool:
        return False

    @property
    def selects_by_loss(self) -> bool:
        return False

    @property
    def weighing(self) -> Literal["fixed", "normalised", "free"]:
        return "free"

    @property
    def counts_invitations(self) -> bool:
        return False

    def candidates(self, state: State, seen: Observation) -> Array:
        return seen.available

    def learn(self, state: State, cohort: Cohort, updates: Updates) -> State:
        return state

    def query_capacity(self, available: int) -> int:
        return available

    def capacity(self, available: int) -> int:
        return available


class Weighed(Policy):
    """A policy with the weights of `weigh`."""

    weights: Weights

    @property
    def weighing(self) -> Literal["fixed", "normalised", "free"]:
        kinds = {"fixed": "fixed", "ratio": "normalised", "equal": "normalised", "scaled": "free"}
        return kinds[self.weights]  # pyright: ignore[reportReturnType]


def weigh(weights: Weights, importance: Array, invited: Array) -> Array:
    """q_k of the invited S: `equal` 1/|S|; `scaled` α_k N/|S|; `ratio` α_k / Σ_S α; `fixed` α_k. 0 for the others."""
    count = jnp.maximum(invited.sum(), 1)
    if weights == "equal":
        return jnp.where(invited, jnp.ones_like(importance) / count, 0)
    weight = jnp.where(invited, importance, 0)
    if weights == "scaled":
        return weight * len(importance) / count
    return weight * share_of_all(importance, weight) if weights == "ratio" else weight


def share_of_all(importance: Array, weight: Array) -> Array:
    """Σ α / Σ weight: the factor that normalises weights to sum 1 (Σ α = 1).

    Exactly 1 when the weights are α itself, so that with everybody there normalised and fixed weights agree to the bit.
    """
    return importance.sum() / jnp.maximum(weight.sum(), jnp.finfo(weight.dtype).tiny)
