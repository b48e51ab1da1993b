"""The messages between server and clients, in Flower's format."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

Kind = Literal["hello", "here", "loss", "train", "evaluate"]

# Named arrays besides the model: of an order, and of a train reply.
_ORDER_PARTS, _REPLY_PARTS = ("shared", "owed"), ("before", "after", "message", "mass")

Named = Mapping[str, np.ndarray]
_NONE: Any = MappingProxyType({})


class Order(NamedTuple):
    """A request from the server to a client."""

    kind: Kind
    round: int = 0
    series: str = ""  # of rounds: a run that starts over has a new one
    nonce: str = ""
    client: str = ""
    number: int = 0
    clients: int = 1  # number of clients in the federation
    acknowledged: int = -1  # the last round in which the client's update was used
    arrays: Sequence[np.ndarray] | ArrayRecord = ()  # the model; packed if many clients get the same
    shared: Named = _NONE  # the solver's state that all clients get
    owed: Named = _NONE  # leaves of the client's row that the server changed in the acknowledged round


_ORDER_HEADER = tuple(name for name in Order._fields if name not in ("arrays", "shared", "owed"))


class Reply(NamedTuple):
    """A client's reply to an `Order`."""

    kind: str
    round: int
    nonce: str
    client: str
    numbers: Mapping[str, float] = _NONE
    arrays: Sequence[np.ndarray] = ()
    parts: Mapping[str, Named] = _NONE
    refusal: str = ""  # the reason, if the client refuses
    memory_lost: bool = False  # whether the reason is that its state is lost


_REPLY_HEADER = tuple(name for name in Reply._fields if name not in ("numbers", "arrays", "parts"))


def order_message(order: Order, node: int, ttl: float) -> Message:
    """The message with an order, addressed to a node."""
    header = {name: getattr(order, name) for name in _ORDER_HEADER}
    parts = {name: getattr(order, name) for name in _ORDER_PARTS}
    records = {"order": ConfigRecord(header)} | _arrays_of(order, parts)
    kind = order.kind if order.kind in ("train", "evaluate") else f"query.{order.kind}"
    return Message(RecordDict(records), node, kind, ttl=ttl)


def read_order(message: Message) -> Order:
    """The order in a message."""
    arrays, parts = _read_arrays(message.content, _ORDER_PARTS)
    return Order(**dict(message.content["order"]), arrays=arrays, **parts)  # pyright: ignore[reportArgumentType]


def reply_message(reply: Reply, to: Message) -> Message:
    """The message with the reply to an order."""
    header = {name: getattr(reply, name) for name in _REPLY_HEADER}
    records: dict[str, Any] = {"reply": ConfigRecord(header)}
    if reply.numbers:
        records["numbers"] = MetricRecord({name: _plain(value) for name, value in reply.numbers.items()})
    return Message(RecordDict(records | _arrays_of(reply, reply.parts)), reply_to=to)


def read_reply(message: Message) -> Reply:
    """The reply in a message; may raise any exception if it is malformed."""
    content = message.content
    header = {name: content["reply"][name] for name in _REPLY_HEADER if name in content["reply"]}
    numbers = dict(content["numbers"]) if "numbers" in content else {}
    arrays, parts = _read_arrays(content, _REPLY_PARTS)
    return Reply(**header, numbers=numbers, arrays=arrays, parts=parts)  # pyright: ignore[reportArgumentType]


def size_of(message: Message) -> int:
    """The size of a message in bytes, without decoding its arrays."""
    content = message.content
    arrays = [item for record in content.array_records.values() for item in record.items()]
    others = [*content.config_records.values(), *content.metric_records.values()]
    plain = [item for record in others for item in record.items()]
    size = sum(len(name) + len(a.data) + len(a.dtype) + len(a.stype) + 8 * len(a.shape) for name, a in arrays)
    return size + sum(len(name) + _bytes(value) for name, value in plain) + sum(map(len, content))


def packed(arrays: Sequence[np.ndarray] | ArrayRecord) -> ArrayRecord:
    """A model's arrays as a record of Flower."""
    if isinstance(arrays, ArrayRecord):
        return arrays
    return ArrayRecord({str(i): Array(np.ascontiguousarray(a).reshape(a.shape)) for i, a in enumerate(arrays)})


def _arrays_of(item: Order | Reply, parts: Mapping[str, Named]) -> dict[str, Any]:
    """Records of the model and the named arrays, if there are any."""
    records = {"model": packed(item.arrays)} if item.arrays else {}
    return records | {
        name: ArrayRecord({key: Array(np.asarray(a)) for key, a in part.items()})
        for name, part in parts.items()
        if part
    }


def _read_arrays(content: RecordDict, names: Sequence[str]) -> tuple[list[np.ndarray], Mapping[str, Named]]:
    """(the model's arrays, the named arrays that are present)."""
    model: Any = content.get("model", {})
    records: dict[str, Any] = {name: content[name] for name in names if name in content}
    parts = {name: {key: _array(a) for key, a in record.items()} for name, record in records.items()}
    return [_array(model[str(i)]) for i in range(len(model))], parts


def _array(array: Any) -> np.ndarray:
    decoded = array.numpy()
    if not isinstance(decoded, np.ndarray):  # NumPy also reads archives of arrays
        raise ValueError(f"{type(decoded).__name__} is not an array")
    return decoded


def _bytes(value: Any) -> int:
    """The size of a value. Flower's `count_bytes` raises on empty strings, such as an empty refusal."""
    if isinstance(value, list):
        return 8 * len(value) + sum(len(one) for one in value if isinstance(one, str | bytes))
    return len(value) if isinstance(value, str | bytes) else 8


def _plain(value: Any) -> int | float:
    return int(value) if isinstance(value, int | np.integer) else float(value)
