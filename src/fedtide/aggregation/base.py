"""What aggregation rules have in common."""

from fedtide.errors import check_kind, require
from fedtide.types import Aggregation, Population, State


class Rule:
    """A rule without memory, for clients that send what training changed."""

    @property
    def moves_when_empty(self) -> bool:
        return False

    @property
    def takes(self) -> tuple[str, ...]:
        return ("change",)

    @property
    def divides_by_mass(self) -> bool:
        return False

    def init(self, population: Population, parameters: int) -> State:
        return ()


class Around(Rule):
    """A rule that changes what another one, its `aggregation`, gets or gives; for what training changed."""

    aggregation: Aggregation

    def __post_init__(self):
        check_kind("aggregation.aggregation", self.aggregation, "aggregation")
        inner = type(self.aggregation).__name__
        wanted = "one that takes what training changed in the received model"
        require("change" in self.aggregation.takes, "aggregation.aggregation", inner, wanted)

    @property
    def moves_when_empty(self) -> bool:
        return self.aggregation.moves_when_empty

    @property
    def divides_by_mass(self) -> bool:
        return self.aggregation.divides_by_mass

    def init(self, population: Population, parameters: int) -> State:
        return self.aggregation.init(population, parameters)
