"""What goes into a ledger, checked before any of it is written."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from fedtide.errors import InvalidInput, number, require, whole

LONGEST = 200  # characters of an id
LONGEST_REASON = 500
REASONS = ("no-reply", "error", "refused", "expired", "late", "not-listed")
_LARGEST = 2**63 - 1
_HUGE = 1e100  # sums of squares of what is smaller can be taken in any database


class Enrolled(NamedTuple):
    """A client of a run's roster."""

    client: str
    number: int  # 0 … N−1
    examples: int
    importance: float


class Presence(NamedTuple):
    """A client in a round. `reason`: why it was away or, where it was here, why its update was not used."""

    client: str
    here: bool
    reason: str | None = None
    loss: float | None = None
    weight: float | None = None
    included: bool = False
    update_norm: float | None = None
    latency: float | None = None  # seconds


class Run(NamedTuple):
    run: str
    method: str
    config: dict[str, Any]
    started: float
    finished: float | None
    rounds: int  # how many are written


def check_client(client: object, field: str = "client") -> str:
    """The id, or `InvalidInput`: 1 to 200 characters that a database can hold (no NUL, no half of a character)."""
    if (
        not isinstance(client, str)
        or not 1 <= len(client) <= LONGEST
        or "\0" in client
        or client != client.encode(errors="replace").decode()
    ):
        raise InvalidInput(field, client, f"a text of 1 to {LONGEST} characters without NUL")
    return client


def checked_roster(roster: Sequence[Enrolled]) -> list[dict[str, Any]]:
    """Rows of the table, by number."""
    rows = [
        {
            "client": check_client(entry.client, "roster.client"),
            "number": whole("roster.number", entry.number, 0),
            "examples": _counted("roster.examples", entry.examples),
            "importance": float(number("roster.importance", entry.importance, low=0)),
        }
        for entry in roster
    ]
    rows.sort(key=lambda row: row["number"])
    numbers = [row["number"] for row in rows]
    require(numbers == list(range(len(rows))) and bool(rows), "roster.number", numbers, "0, 1, … once each")
    _once("roster.client", [row["client"] for row in rows])
    return rows


def checked_rows(rows: Sequence[Presence]) -> list[dict[str, Any]]:
    """Rows of the table, by client: writers that take locks in one order do not wait for each other in a circle."""
    checked = [_checked(row) for row in rows]
    _once("rows.client", [row["client"] for row in checked])
    return sorted(checked, key=lambda row: row["client"])


def finite(value: Any) -> float | None:
    """The value as a float; None where there is none, or none to reckon with."""
    value = None if value is None else float(value)
    return value if value is not None and abs(value) < _HUGE else None  # false for nan


def moment(field: str, value: Any) -> float:
    return float(number(field, value, allowed="a time in seconds since 1970"))


def round_number(value: Any) -> int:
    return _counted("round", value)


def _checked(row: Presence) -> dict[str, Any]:
    here, reason = bool(row.here), _reason(row.reason)
    require(here or reason is not None, "reason", reason, f"one of {', '.join(REASONS)} for a client that is not here")
    loss = finite(row.loss)
    if loss is None and row.loss is not None and reason is None:
        reason = f"refused:loss is {float(row.loss)}"
    return {
        "client": check_client(row.client, "rows.client"),
        "here": here,
        "reason": reason,
        "loss": loss,
        "weight": finite(row.weight),
        "included": bool(row.included),
        "update_norm": finite(row.update_norm),
        "latency": finite(row.latency),
    }


def _reason(reason: str | None) -> str | None:
    """A known kind; what stands behind it may be a client's own words, so it is made fit instead of refused."""
    if reason is None:
        return None
    kind, colon, why = reason.partition(":")
    require(kind in REASONS, "reason", reason, f"one of {', '.join(REASONS)}, with :why behind it or not")
    why = " ".join(why.replace("\0", " ").encode(errors="replace").decode().split())
    return f"{kind}{colon}{why}"[:LONGEST_REASON]


def _counted(field: str, value: Any) -> int:
    return whole(field, value, 0, _LARGEST)


def _once(field: str, clients: list[str]) -> None:
    known: set[str] = set()
    for client in clients:
        require(client not in known, field, client, "there only once")
        known.add(client)
