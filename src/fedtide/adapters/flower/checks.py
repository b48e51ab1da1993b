"""Checks of clients' replies, as pure functions. A failed check raises `Refused` with the reason."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import numpy as np
from flwr.app import Message

from fedtide.adapters.coordinator import Shapes, Update
from fedtide.adapters.flower.messages import Order, Reply, read_reply, size_of
from fedtide.adapters.flower.settings import CheckSettings
from fedtide.errors import FedtideError
from fedtide.simulation.trees import named, tree_of

_MOST_STEPS = 10**9
_SPARE = 2**20  # bytes of a reply besides its arrays
_MOST = 1e30  # of a loss or a rate: sums are then finite in single precision
_LONGEST = 400  # characters of a reason


class Refused(FedtideError):
    """A reply that cannot be used. The reason is one short line, whatever the client sent."""

    def __init__(self, why: str):
        super().__init__(" ".join(why.split())[:_LONGEST])


class LostMemory(Refused):
    """The client no longer has its state."""


class ExpectedReply(NamedTuple):
    """What a train reply must match."""

    shapes: tuple[tuple[int, ...], ...]  # of the model's arrays
    exchanged: Shapes
    rows: bool  # whether rows are sent
    change: bool = False  # whether the model's difference is only the change of this round's steps


def most_bytes(limits: CheckSettings, expected: ExpectedReply, model: int) -> int:
    """The largest size of a reply: as configured, else the model (in bytes), the method's other arrays and a margin."""
    if limits.most_bytes is not None:
        return limits.most_bytes
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(_wanted(expected))) + model + _SPARE


@contextmanager
def guarded() -> Iterator[None]:
    """Turns any error into `Refused`: nothing that a client sends may stop the server."""
    try:
        yield
    except Refused:
        raise
    except Exception as error:
        words = " ".join(f"{type(error).__name__}: {error}".split())[:160]
        raise Refused(f"malformed ({words})") from None


def opened(message: Message, order: Order, limit: int) -> Reply:
    """The reply in a message; raises `Refused` unless it answers this order."""
    with guarded():
        size = size_of(message)
        if size > limit:
            raise Refused(f"{size:,} bytes where at most {limit:,} are allowed")
        reply = read_reply(message)
    if reply.refusal:
        raise (LostMemory if reply.memory_lost is True else Refused)(str(reply.refusal))
    if order.client and reply.client != order.client:
        raise Refused(f"a reply of client {str(reply.client)!r:.60} to a request for client {order.client!r}")
    if (reply.kind, reply.round, reply.nonce) != (order.kind, order.round, order.nonce):
        raise Refused(f"a replayed answer: to '{reply.kind!s:.20}' of round {reply.round!s:.20}")
    return reply


def update_of(reply: Reply, w: np.ndarray, expected: ExpectedReply, enrolled: int, limits: CheckSettings) -> Update:
    """The update in a train reply to the model w [d]; raises `Refused` if it is invalid. `enrolled`: the client's
    number of examples, 0 if unknown."""
    with np.errstate(over="ignore"):
        delta = w - _model(reply, w, expected)
    if not np.isfinite(delta).all():
        raise Refused("a change that is not finite")
    norm = _norm(delta)
    if limits.most_norm is not None and norm > limits.most_norm:
        raise Refused(f"an update of norm {norm:.3g}, above checks.most_norm = {limits.most_norm:g}")
    steps, examples = (_whole(reply, name) for name in ("steps", "examples"))
    if steps > _MOST_STEPS:
        raise Refused(f"{steps} steps")
    if enrolled and examples != enrolled:
        raise Refused(f"{examples} examples, enrolled with {enrolled}")
    loss, rate = finite(reply, "loss"), finite(reply, "rate")
    parts = {name: _part(reply, name, like) for name, like in _wanted(expected).items()}
    mass = parts["mass"]
    if rate < 0 or (np.asarray(mass) < 0).any():
        raise Refused(f"a rate of {rate:g} and a mass of {np.min(mass):g}: must be 0 or more")
    if steps == 0 and ((expected.change and norm > 0) or (np.asarray(mass) > 0).any()):
        raise Refused("a change without a step")
    if limits.clip is not None and norm > limits.clip:
        delta = delta * np.asarray(limits.clip / norm, delta.dtype)
    rows = (parts["before"], parts["after"]) if expected.rows else ()
    return Update(delta, loss, steps, mass, rate, parts["message"], *rows)


def outliers(updates: Mapping[int, Update], times: float | None, norms: bool = True) -> dict[int, str]:
    """Reasons against updates far from the round's median, by client: in norm, rate, mass of a step, message or rows.

    Norms are not compared if clients send more than this round's change, which can be large after a long absence. The
    norms of a row before and after training are added: rows of new clients change much more than converged ones. At
    least three values are compared, as the median of two does not tell which of them is the outlier.
    """
    worked = {k: u for k, u in updates.items() if u.steps > 0}
    if times is None:
        return {}
    measures = {
        "norm": {k: _norm(u.delta) for k, u in worked.items()} if norms else {},
        "rate": {k: float(u.rate) for k, u in worked.items()},
        "mass of a step": {k: float(np.mean(u.mass, dtype=np.float64)) / u.steps for k, u in worked.items()},
        "message norm": {k: _norm_of(u.message) for k, u in updates.items()},
        "row norm": {k: _norm_of(u.before) + _norm_of(u.after) for k, u in updates.items()},
    }
    reasons: dict[int, str] = {}
    for what, values in measures.items():
        median = float(np.median(list(values.values()))) if len(values) >= 3 else 0.0
        for client, value in values.items():
            small = what in ("rate", "mass of a step") and value * times < median  # it is a divisor
            if median > 0 and (value > times * median or small):
                reasons.setdefault(client, f"a {what} of {value:.3g} where the median is {median:.3g}")
    return reasons


def sound(before: Any, after: Any) -> bool:
    """Whether all values of a tree of arrays that were finite still are."""
    pairs = zip(named(before).values(), named(after).values(), strict=True)
    return not any((np.isfinite(old) & ~np.isfinite(new)).any() for old, new in pairs if old.dtype.kind == "f")


def _model(reply: Reply, w: np.ndarray, expected: ExpectedReply) -> np.ndarray:
    shapes = [array.shape for array in reply.arrays]
    if len(shapes) != len(expected.shapes):
        raise Refused(f"{len(shapes)} arrays where {len(expected.shapes)} are expected")
    for i, (array, shape) in enumerate(zip(reply.arrays, expected.shapes, strict=True)):
        if array.shape != shape or array.dtype != w.dtype:
            raise Refused(f"array {i} is {array.dtype}{array.shape} where {w.dtype}{shape} is expected")
    w_k = np.concatenate([array.ravel() for array in reply.arrays])
    if not np.isfinite(w_k).all():
        raise Refused("parameters that are not finite")
    return w_k


def _wanted(expected: ExpectedReply) -> dict[str, Any]:
    exchanged = expected.exchanged
    wanted = {"message": exchanged.message, "mass": exchanged.mass}
    return wanted | ({"before": exchanged.row, "after": exchanged.row} if expected.rows else {})


def _part(reply: Reply, name: str, like: Any) -> Any:
    try:
        tree = tree_of(like, reply.parts.get(name, {}))
    except FedtideError as error:
        raise Refused(f"{name}: {error}") from None
    for leaf, array in named(tree).items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise Refused(f"{name}{leaf} that is not finite")
    return tree


def finite(reply: Reply, name: str) -> float:
    """A number of the reply, which must be finite."""
    value = reply.numbers.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _MOST:
        raise Refused(f"a {name} of {value!r:.40}: must be a finite number, at most {_MOST:g} in size")
    return float(value)


def _whole(reply: Reply, name: str) -> int:
    value = reply.numbers.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Refused(f"{name} = {value!r:.40}: must be a whole number, 0 or more")
    return value


def _norm(delta: np.ndarray) -> float:
    return float(np.linalg.norm(delta.astype(np.float64)))


def _norm_of(tree: Any) -> float:
    """The norm of its floating-point leaves; counters are integers."""
    return float(np.sqrt(sum(_norm(leaf) ** 2 for leaf in named(tree).values() if leaf.dtype.kind == "f")))
