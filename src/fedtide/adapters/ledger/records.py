"""The records of a ledger, and checks before they are written."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from fedtide.errors import InvalidInput, number, require, whole

LONGEST = 200  # characters of an id
LONGEST_REASON = 500
REASONS = ("no-reply", "error", "refused", "expired", "late", "not-listed")
LARGEST = 2**63 - 1  # of an integer column
_HUGE = 1e100  # squares of smaller numbers can be summed in any database


class Enrolled(NamedTuple):
    """A client of a run's roster."""

    client: str
    number: int  # 0 … N−1
    examples: int
    importance: float


class ClientInRound(NamedTuple):
    """A client in a round. `here`: it was available. `reason`: why not or, if it was, why its update was not used."""

    client: str
    here: bool
    reason: str | None = None  # a kind of REASONS, then perhaps :why
    loss: float | None = None
    weight: float | None = None
    included: bool = False
    update_norm: float | None = None
    latency: float | None = None  # seconds

    @property
    def rejected(self) -> bool:
        """Whether the client's reply was refused or was an error."""
        return self.reason is not None and kind_of(self.reason) in ("refused", "error")


def kind_of(reason: str) -> str:
    """The kind of a stored reason, `kind` or `kind:why`: one of REASONS."""
    return reason.partition(":")[0]


class LedgerRun(NamedTuple):
    run: str
    method: str
    config: dict[str, Any]
    started: float
    finished: float | None
    rounds: int  # number of recorded rounds


def check_client(client: object, field: str = "client") -> str:
    """Returns the id, or raises: 1 to 200 characters that databases can store (no NUL, no lone surrogate)."""
    if (
        not isinstance(client, str)
        or not 1 <= len(client) <= LONGEST
        or "\0" in client
        or client != client.encode(errors="replace").decode()
    ):
        raise InvalidInput(field, client, f"a text of 1 to {LONGEST} characters without NUL")
    return client


def checked_roster(roster: Sequence[Enrolled]) -> list[Enrolled]:
    """The roster by number, in Python's types."""
    entries = [
        Enrolled(
            check_client(entry.client, "roster.client"),
            whole("roster.number", entry.number, 0),
            whole("roster.examples", entry.examples, 0, LARGEST),
            float(number("roster.importance", entry.importance, low=0)),
        )
        for entry in roster
    ]
    entries.sort(key=lambda entry: entry.number)
    numbers = [entry.number for entry in entries]
    require(numbers == list(range(len(entries))) and bool(entries), "roster.number", numbers, "0, 1, … once each")
    _once("roster.client", entries)
    return entries


def checked_rows(rows: Sequence[ClientInRound]) -> list[ClientInRound]:
    """The rows by client; with one order of locks, writers cannot deadlock."""
    checked = [_checked(row) for row in rows]
    _once("rows.client", checked)
    return sorted(checked, key=lambda row: row.client)


def finite(value: Any) -> float | None:
    """The value as a float; None if it is None, not finite or too large."""
    value = None if value is None else float(value)
    return value if value is not None and abs(value) < _HUGE else None  # false for nan


def moment(field: str, value: Any) -> float:
    """A time in seconds."""
    return float(number(field, value, allowed="a time in seconds since 1970"))


def _checked(row: ClientInRound) -> ClientInRound:
    here, reason = bool(row.here), _reason(row.reason)
    allowed = f"one of {', '.join(REASONS)} for a client that was not available"
    require(here or reason is not None, "reason", reason, allowed)
    loss = finite(row.loss)
    if loss is None and row.loss is not None and reason is None:
        reason = f"refused:loss is {float(row.loss)}"
    numbers = finite(row.weight), bool(row.included), finite(row.update_norm), finite(row.latency)
    return ClientInRound(check_client(row.client, "rows.client"), here, reason, loss, *numbers)


def _reason(reason: str | None) -> str | None:
    """A known kind of reason. The text after it may be from a client, so it is cleaned instead of rejected."""
    if reason is None:
        return None
    kind, colon, why = reason.partition(":")
    require(kind in REASONS, "reason", reason, f"one of {', '.join(REASONS)}, with :why after it or not")
    why = " ".join(why.replace("\0", " ").encode(errors="replace").decode().split())
    return f"{kind}{colon}{why}"[:LONGEST_REASON]


def _once(field: str, rows: Sequence[Enrolled] | Sequence[ClientInRound]) -> None:
    for client, times in Counter(row.client for row in rows).items():
        require(times == 1, field, client, "listed only once")
