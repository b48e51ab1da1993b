"""What server and clients say to each other, as Flower's messages."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

Kind = Literal["hello", "here", "loss", "train", "evaluate"]

TYPES: dict[Kind, str] = {
    "hello": "query.hello",
    "here": "query.here",
    "loss": "query.loss",
    "train": "train",
    "evaluate": "evaluate",
}
PARTS = ("before", "after", "message", "mass")  # arrays that a train reply may hold besides the model

Named = Mapping[str, np.ndarray]
_NONE: Any = MappingProxyType({})


class Order(NamedTuple):
    """From the server to a client."""

    kind: Kind
    round: int = 0
    series: str = ""  # of rounds: a run that begins anew has another
    nonce: str = ""
    client: str = ""
    number: int = 0
    clients: int = 1  # in the federation
    acknowledged: int = -1  # the last round in which the client's update counted
    arrays: Sequence[np.ndarray] | ArrayRecord = ()  # the model; packed where many get the same
    shared: Named = _NONE  # what the solver shares with all
    owed: Named = _NONE  # leaves of the client's row that the server changed in the acknowledged round


_SAID = tuple(name for name in Order._fields if name not in ("arrays", "shared", "owed"))


class Reply(NamedTuple):
    """From a client to the server."""

    kind: str
    round: int
    nonce: str
    client: str
    numbers: Mapping[str, float] = _NONE
    arrays: Sequence[np.ndarray] = ()
    parts: Mapping[str, Named] = _NONE
    refusal: str = ""  # why the client does not do it


def order_message(order: Order, node: int, ttl: float) -> Message:
    """The order, addressed to a node."""
    said = {name: getattr(order, name) for name in _SAID}
    records: dict[str, Any] = {"order": ConfigRecord(said)}
    if order.arrays:
        records["model"] = packed(order.arrays)
    records |= {name: _named(found) for name in ("shared", "owed") if (found := getattr(order, name))}
    return Message(RecordDict(records), node, TYPES[order.kind], ttl=ttl)


def read_order(message: Message) -> Order:
    """What the server wants."""
    content = message.content
    said = dict(content["order"])
    arrays = _arrays(content["model"]) if "model" in content else ()
    parts = {name: _read(content[name]) for name in ("shared", "owed") if name in content}
    return Order(**said, arrays=arrays, **parts)  # pyright: ignore[reportArgumentType]


def reply_message(reply: Reply, to: Message) -> Message:
    """The reply to a message."""
    said = {name: getattr(reply, name) for name in ("kind", "round", "nonce", "client", "refusal")}
    records: dict[str, Any] = {"reply": ConfigRecord(said)}
    if reply.numbers:
        records["numbers"] = MetricRecord({name: _plain(value) for name, value in reply.numbers.items()})
    if reply.arrays:
        records["model"] = packed(reply.arrays)
    records |= {name: _named(part) for name, part in reply.parts.items() if part}
    return Message(RecordDict(records), reply_to=to)


def read_reply(message: Message) -> Reply:
    """What a client says; raises anything where it is malformed."""
    content = message.content
    said = {name: content["reply"][name] for name in ("kind", "round", "nonce", "client", "refusal")}
    numbers = dict(content["numbers"]) if "numbers" in content else {}
    arrays = _arrays(content["model"]) if "model" in content else ()
    parts = {name: _read(content[name]) for name in PARTS if name in content}
    return Reply(**said, numbers=numbers, arrays=arrays, parts=parts)  # pyright: ignore[reportArgumentType]


def size_of(message: Message) -> int:
    """Bytes of all that a message holds, without unpacking its arrays."""
    content = message.content
    arrays = [found for record in content.array_records.values() for found in record.items()]
    others = [*content.config_records.values(), *content.metric_records.values()]
    plain = [found for record in others for found in record.items()]
    size = sum(len(name) + len(a.data) + len(a.dtype) + len(a.stype) + 8 * len(a.shape) for name, a in arrays)
    return size + sum(len(name) + _bytes(value) for name, value in plain) + sum(map(len, content))


def packed(arrays: Sequence[np.ndarray] | ArrayRecord) -> ArrayRecord:
    """A model's arrays as Flower sends them."""
    if isinstance(arrays, ArrayRecord):
        return arrays
    return ArrayRecord({str(i): Array(np.ascontiguousarray(a).reshape(a.shape)) for i, a in enumerate(arrays)})


def _named(arrays: Named) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(a)) for name, a in arrays.items()})


def _arrays(record: Any) -> list[np.ndarray]:
    return [_array(record[str(i)]) for i in range(len(record))]


def _read(record: Any) -> dict[str, np.ndarray]:
    return {name: _array(array) for name, array in record.items()}


def _array(array: Any) -> np.ndarray:
    found = array.numpy()
    if not isinstance(found, np.ndarray):  # NumPy reads archives of arrays, too
        raise ValueError(f"{type(found).__name__} is not an array")
    return found


def _bytes(value: Any) -> int:
    if isinstance(value, list):
        return 8 * len(value) + sum(len(one) for one in value if isinstance(one, str | bytes))
    return len(value) if isinstance(value, str | bytes) else 8


def _plain(value: Any) -> int | float:
    return int(value) if isinstance(value, int | np.integer) else float(value)
