"""What a deployment can afford, and which methods ask for more."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from fedtide.errors import number, whole
from fedtide.report.recommendation_notes import readable_pair

_BYTES = 4  # a parameter travels and is kept as a 32-bit float
_SCALAR = 8


class Constraints(NamedTuple):
    """What a method may ask for. None: as much as it likes.

    `client_memory` and `server_memory` are bytes that are kept between rounds; a model that a client trains and
    forgets does not count. `extra_messages` are kinds of messages a round and client besides the model down and the
    update up: SCAFFOLD sends a correction each way, which makes 2. `floor` is the least accuracy, as a share of 1, of
    the tenth of the devices that are served worst.
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
    """What a method asks for, when the model has so many parameters and the fleet so many devices."""

    extra_messages: int
    client_bytes: int
    server_bytes: int


def burden(facts: Mapping[str, Any], parameters: int, devices: int, clusters: int = 0) -> Burden:
    """From a method's facts; `server_bytes` counts the model itself."""
    rows = {"N": devices, "K": clusters, "": 0}[facts["server_rows"]]
    server = (facts["server_models"] + rows) * parameters * _BYTES + facts["server_scalars"] * devices * _SCALAR
    client = facts["client_models"] * parameters * _BYTES + facts["client_scalars"] * _SCALAR
    extra = sum(facts[way] != "–" for way in ("extra_up", "extra_down"))
    return Burden(extra, int(client), int(server))


def refusal(asked: Burden, limits: Constraints) -> tuple[str, str] | None:
    """The constraint that a method breaks first, and a sentence that says so; None where it fits."""
    if limits.client_memory is not None and asked.client_bytes > limits.client_memory:
        kept, allowed = readable_pair(asked.client_bytes, limits.client_memory)
        return "client_memory", f"It keeps {kept} on every device, more than the {allowed} allowed."
    if limits.server_memory is not None and asked.server_bytes > limits.server_memory:
        kept, allowed = readable_pair(asked.server_bytes, limits.server_memory)
        return "server_memory", f"It keeps {kept} on the server, more than the {allowed} allowed."
    if limits.extra_messages is not None and asked.extra_messages > limits.extra_messages:
        allowed = limits.extra_messages or "none"
        kinds = "1 extra message" if asked.extra_messages == 1 else f"{asked.extra_messages} extra messages"
        return "extra_messages", f"It sends {kinds} a round and client, where {allowed} may be sent."
    return None
