"""The weighted sum of the updates."""

from jax import Array

from fedtide.aggregation.rows import weighted_rows
from fedtide.types import Cohort, Population, Updates, part


@part
class WeightedSum:
    """v = Σ_{k∈S} q_k Δ_k. Unbiased where the weights are."""

    @property
    def moves_when_empty(self) -> bool:
        return False

    def init(self, population: Population, parameters: int) -> tuple[()]:
        return ()

    def combine(self, state: tuple[()], cohort: Cohort, updates: Updates) -> tuple[Array, tuple[()]]:
        return weighted_rows(cohort.weight, updates.delta), state
