"""The running sum of the changes that clients send."""

from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from fedtide.aggregation.base import Rule
from fedtide.rows import weighted_rows
from fedtide.types import Cohort, Population, Sends, Updates, part


@part
class Accumulated(Rule):
    """v ← v + Σ_{k∈S} q_k D_k, where D_k is the change since client k's last upload: v = Σ_k q_k (its latest value).

    Each client keeps its latest contribution, the server their sum. Unbiased up to staleness with fixed weights q = α;
    weights that change from round to round leave remainders of earlier ones in v.

    Reference: Ying, Li and Yang, "Exact and linear convergence for federated learning under arbitrary client
    participation is attainable", NeurIPS 2025 (FOCUS).
    """

    moves_when_empty: ClassVar[bool] = True
    takes: ClassVar[tuple[Sends, ...]] = ("difference",)

    def init(self, population: Population, parameters: int) -> Array:
        return jnp.zeros(parameters)

    def combine(self, state: Array, cohort: Cohort, updates: Updates) -> tuple[Array, Array]:
        total = state + weighted_rows(cohort.weight, updates.delta)
        return total, total
