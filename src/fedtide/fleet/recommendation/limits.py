"""Constraints of a deployment, and which methods violate them."""

from typing import NamedTuple

from fedtide.errors import number, whole
from fedtide.methods import Facts
from fedtide.text import count, readable

_BYTES = 4  # a parameter travels and is kept as a 32-bit float
_SCALAR = 8


class Constraints(NamedTuple):
    """Limits on what a method may require; None for no limit.

    `client_memory` and `server_memory` are bytes kept between rounds; the model that a client trains and then discards
    does not count. `extra_messages` are messages per round and client besides the model sent to it and its update:
    SCAFFOLD sends a correction each way, which makes 2. `floor` is the minimum accuracy, as a share of 1, for the
    worst-served tenth of the devices.
    """

    client_memory: float | None = None
    server_memory: float | None = None
    extra_messages: int | None = None
    floor: float | None = None

    def checked(self) -> "Constraints":
        for name in ("client_memory", "server_memory"):
            if getattr(self, name) is not None:
                number(name, getattr(self, name), low=0)
        if self.extra_messages is not None:
            whole("extra_messages", self.extra_messages, 0)
        if self.floor is not None:
            number("floor", self.floor, low=0, high=1)
        return self


class Burden(NamedTuple):
    """What a method requires, for a given number of parameters and devices."""

    extra_messages: int
    client_bytes: int
    server_bytes: int


def burden(facts: Facts, parameters: int, devices: int, clusters: int = 0) -> Burden:
    """Computed from a method's declared facts; `server_bytes` includes the model itself."""
    rows = {"N": devices, "K": clusters, "": 0}[facts.server_rows]
    server = (facts.server_models + rows) * parameters * _BYTES + facts.server_scalars * devices * _SCALAR
    client = facts.client_models * parameters * _BYTES + facts.client_scalars * _SCALAR
    extra = (facts.extra_up != Facts.extra_up) + (facts.extra_down != Facts.extra_down)  # the default: none
    return Burden(extra, client, server)


def refusal(asked: Burden, limits: Constraints) -> str | None:
    """The first constraint that a method violates, in a sentence; None where it violates none."""
    for size, limit, where in (
        (asked.client_bytes, limits.client_memory, "every device"),
        (asked.server_bytes, limits.server_memory, "the server"),
    ):
        if limit is not None and size > limit:
            kept, allowed = readable_pair(size, limit)
            return f"It keeps {kept} on {where}; at most {allowed} is allowed."
    if limits.extra_messages is not None and asked.extra_messages > limits.extra_messages:
        allowed = limits.extra_messages or "none"
        return f"It sends {count(asked.extra_messages, 'extra message')} per client per round; allowed: {allowed}."
    return None


def readable_pair(size: float, other: float) -> tuple[str, str]:
    """Two sizes with enough digits to show which is larger."""
    pairs = ((readable(size, digits), readable(other, digits)) for digits in range(3, 16))
    return next((pair for pair in pairs if pair[0] != pair[1]), (f"{size:,} bytes", f"{other:,} bytes"))
