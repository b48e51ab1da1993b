"""A round as it will stand in the ledger, while it is being written."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from fedtide.adapters.ledger import Presence


@dataclass
class Line:
    """One client's line of the round in the ledger."""

    here: bool = False
    reason: str | None = "not-listed"
    loss: float | None = None
    weight: float | None = None
    included: bool = False
    update_norm: float | None = None
    latency: float | None = None


@dataclass
class Sheet:
    """A round that is being written."""

    round: int
    began: float
    lines: list[Line]
    asked: dict[int, int]  # node of each client that is connected
    deadline: float = 0.0
    strangers: list[str] = field(default_factory=list)

    def rows(self, clients: Sequence[str]) -> list[Presence]:
        """The ledger's rows; `clients` are the ids by number."""
        rows = [Presence(client, **vars(line)) for client, line in zip(clients, self.lines, strict=True)]
        return rows + [Presence(client, False, "refused:not on the roster") for client in self.strangers]
