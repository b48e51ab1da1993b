"""Old updates with less weight."""

from typing import ClassVar

from jax import Array

from fedtide.aggregation.base import AggregationWrapper
from fedtide.aggregation.weighted_sum import WeightedSum
from fedtide.declared import Combination
from fedtide.errors import check_kind
from fedtide.staleness import Polynomial
from fedtide.types import Aggregation, Cohort, Sends, Staleness, State, Updates, derived, part


@part
class AgeWeighted(AggregationWrapper):
    """q_k ← s(age_k) q_k, then `aggregation`; s is `staleness` and s(0) = 1.

    The age of an update is the number of server steps since its client received the model. Weights are not normalised
    again: a step of old updates is shorter. Without a clock every update is of age 0, and nothing changes.

    Reference: Xie, Koyejo and Gupta, "Asynchronous federated optimization", OPT 2020; Nguyen et al., "Federated
    learning with buffered asynchronous aggregation", AISTATS 2022.
    """

    aggregation: Aggregation = WeightedSum()
    staleness: Staleness = Polynomial()

    takes: ClassVar[tuple[Sends, ...]] = derived(lambda self: self.aggregation.takes)

    def __post_init__(self):
        super().__post_init__()
        check_kind("aggregation.staleness", self.staleness, "staleness")

    def in_theory(self) -> Combination:
        return self.aggregation.in_theory()

    def combine(self, state: State, cohort: Cohort, updates: Updates) -> tuple[Array, State]:
        if not isinstance(cohort.age, tuple):
            cohort = cohort._replace(weight=cohort.weight * self.staleness.discount(cohort.age))
        return self.aggregation.combine(state, cohort, updates)
