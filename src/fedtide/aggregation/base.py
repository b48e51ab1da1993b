"""Defaults of aggregation rules."""

from typing import ClassVar

from fedtide.declared import Combination
from fedtide.errors import check_kind, require
from fedtide.types import Aggregation, Population, Sends, State, derived


class Rule:
    """Defaults for a rule without memory, for clients that send the change made by training."""

    moves_when_empty: ClassVar[bool] = False
    takes: ClassVar[tuple[Sends, ...]] = ("change",)
    divides_by_mass: ClassVar[bool] = False

    def in_theory(self) -> Combination:
        return Combination(unfollowed=f"It is not a weighted sum of updates ({type(self).__name__})")

    def init(self, population: Population, parameters: int) -> State:
        return ()


class AggregationWrapper(Rule):
    """Defaults for a wrapper: a rule that changes the input or the output of another one, its `aggregation`."""

    aggregation: Aggregation

    moves_when_empty: ClassVar[bool] = derived(lambda self: self.aggregation.moves_when_empty)
    divides_by_mass: ClassVar[bool] = derived(lambda self: self.aggregation.divides_by_mass)

    def __post_init__(self):
        check_kind("aggregation.aggregation", self.aggregation, "aggregation")
        inner = type(self.aggregation).__name__
        wanted = "one that takes the change made by training"
        require("change" in self.aggregation.takes, "aggregation.aggregation", inner, wanted)

    def init(self, population: Population, parameters: int) -> State:
        return self.aggregation.init(population, parameters)
