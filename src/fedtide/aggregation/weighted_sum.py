"""The weighted sum of the updates."""

from typing import ClassVar

from jax import Array

from fedtide.aggregation.base import Rule
from fedtide.declared import Combination
from fedtide.rows import weighted_rows
from fedtide.types import Cohort, Sends, Updates, part


@part
class WeightedSum(Rule):
    """v = Σ_{k∈S} q_k Δ_k. Unbiased where the weights are."""

    takes: ClassVar[tuple[Sends, ...]] = ("change", "model")

    def in_theory(self) -> Combination:
        return Combination()

    def combine(self, state: tuple[()], cohort: Cohort, updates: Updates) -> tuple[Array, tuple[()]]:
        return weighted_rows(cohort.weight, updates.delta), state
