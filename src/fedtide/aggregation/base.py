"""What aggregation rules have in common."""

from fedtide.types import Population


class Rule:
    """A rule without memory, for clients that send what training changed."""

    @property
    def moves_when_empty(self) -> bool:
        return False

    @property
    def takes(self) -> tuple[str, ...]:
        return ("change",)

    def init(self, population: Population, parameters: int) -> tuple[()]:
        return ()
