"""The weighted sum of the updates."""

from jax import Array

from fedtide.aggregation.base import Rule
from fedtide.rows import weighted_rows
from fedtide.types import Cohort, Updates, part


@part
class WeightedSum(Rule):
    """v = Σ_{k∈S} q_k Δ_k. Unbiased where the weights are."""

    @property
    def takes(self) -> tuple[str, ...]:
        return ("change", "model")

    def combine(self, state: tuple[()], cohort: Cohort, updates: Updates) -> tuple[Array, tuple[()]]:
        return weighted_rows(cohort.weight, updates.delta), state
