"""The running sum of what clients report as changed."""

import jax.numpy as jnp
from jax import Array

from fedtide.aggregation.base import Rule
from fedtide.rows import weighted_rows
from fedtide.types import Cohort, Population, Updates, part


@part
class Accumulated(Rule):
    """v ← v + Σ_{k∈S} q_k D_k, D_k the difference to what client k sent last: v = Σ_k q_k (what it sent last).

    The memory of each client's latest contribution lies with the clients; the server keeps their sum. Unbiased up to
    staleness with fixed weights q = α; weights that change from round to round leave remainders of old ones in v.

    Reference: Ying, Li and Yang, "Exact and linear convergence for federated learning under arbitrary client
    participation is attainable", NeurIPS 2025 (FOCUS).
    """

    @property
    def moves_when_empty(self) -> bool:
        return True

    @property
    def takes(self) -> tuple[str, ...]:
        return ("difference",)

    def init(self, population: Population, parameters: int) -> Array:
        return jnp.zeros(parameters)

    def combine(self, state: Array, cohort: Cohort, updates: Updates) -> tuple[Array, Array]:
        total = state + weighted_rows(cohort.weight, updates.delta)
        return total, total
