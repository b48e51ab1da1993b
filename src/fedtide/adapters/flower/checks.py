"""What a client's reply must be before it counts. Each check is a pure function; what fails has a reason in words."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from flwr.app import Message

from fedtide.adapters.coordinator import Shapes, Update
from fedtide.adapters.flower.messages import Reply, read_reply, size_of
from fedtide.adapters.flower.settings import CheckSettings
from fedtide.adapters.trees import named, tree_of
from fedtide.errors import FedtideError

_MOST_STEPS = 10**9
_SPARE = 2**20  # bytes that a reply may have beyond its arrays


class Refused(FedtideError):
    """A reply that does not count."""


class Expected(NamedTuple):
    """What a reply must fit."""

    kind: str
    round: int
    nonce: str
    client: str
    examples: int  # as enrolled; 0: unknown
    shapes: tuple[tuple[int, ...], ...]  # of the model's arrays
    exchanged: Shapes
    rows: bool  # whether rows are sent


def most_bytes(limits: CheckSettings, expected: Expected, parameters: int) -> int:
    """The largest reply: as configured, or what the method sends and some room."""
    if limits.most_bytes is not None:
        return limits.most_bytes
    exchanged = expected.exchanged
    parts = [exchanged.message, exchanged.mass, *([exchanged.row] * 2 if expected.rows else [])]
    size = sum(leaf.size * leaf.dtype.itemsize for part in parts for leaf in jax.tree.leaves(part))
    return size + 4 * parameters + _SPARE


def opened(message: Message, expected: Expected, limit: int) -> Reply:
    """The reply in a message, if it is one to what was asked; raises `Refused` otherwise."""
    try:
        size = size_of(message)
    except Exception as error:  # whatever a client sends must not stop the server
        raise Refused(f"malformed ({_words(error)})") from None
    if size > limit:
        raise Refused(f"{size:,} bytes where at most {limit:,} are allowed")
    try:
        reply = read_reply(message)
    except Exception as error:
        raise Refused(f"malformed ({_words(error)})") from None
    if reply.refusal:
        raise Refused(str(reply.refusal))
    if expected.client and reply.client != expected.client:
        raise Refused(f"answers as client {str(reply.client)!r:.60}, asked was {expected.client!r}")
    if (reply.kind, reply.round, reply.nonce) != (expected.kind, expected.round, expected.nonce):
        raise Refused(f"a replayed answer: to '{reply.kind!s:.20}' of round {reply.round!s:.20}")
    return reply


def loss_of(reply: Reply) -> float:
    """A finite loss."""
    return _finite(reply, "loss")


def update_of(reply: Reply, w: np.ndarray, expected: Expected, limits: CheckSettings) -> Update:
    """The update in a train reply to the model w [d]; raises `Refused` where it cannot be one."""
    delta = w - _model(reply, w, expected)
    norm = _norm(delta)
    if limits.most_norm is not None and norm > limits.most_norm:
        raise Refused(f"an update of norm {norm:.3g}, above checks.most_norm = {limits.most_norm:g}")
    steps, examples = (_whole(reply, name) for name in ("steps", "examples"))
    if steps > _MOST_STEPS:
        raise Refused(f"{steps} steps")
    if expected.examples and examples != expected.examples:
        raise Refused(f"{examples} examples, enrolled with {expected.examples}")
    loss, rate = _finite(reply, "loss"), _finite(reply, "rate")
    parts = {name: _part(reply, name, like) for name, like in _wanted(expected).items()}
    mass = parts["mass"]
    if rate < 0 or (np.asarray(mass) < 0).any():
        raise Refused(f"a rate of {rate:g} and a mass of {np.min(mass):g}: must be 0 or more")
    if limits.clip is not None and norm > limits.clip:
        delta = delta * np.asarray(limits.clip / norm, delta.dtype)
    rows = (parts["before"], parts["after"]) if expected.rows else ()
    return Update(delta, loss, steps, mass, rate, parts["message"], *rows)


def outliers(updates: Mapping[int, Update], times: float | None, norms: bool = True) -> dict[int, str]:
    """Reasons against updates far from the round's median, by client: in norm, rate, or mass of a step.

    Norms are left out where clients send more than this round's change: who was long away may send much.
    A lone client has nothing to be compared with, and of two none is the odd one: three or more are compared.
    """
    worked = {k: u for k, u in updates.items() if u.steps > 0}
    if times is None or len(worked) < 3:
        return {}
    measures = {
        "norm": {k: _norm(u.delta) for k, u in worked.items()} if norms else {},
        "rate": {k: float(u.rate) for k, u in worked.items()},
        "mass of a step": {k: float(np.mean(u.mass)) / u.steps for k, u in worked.items()},
    }
    found: dict[int, str] = {}
    for what, values in measures.items():
        median = float(np.median(list(values.values()))) if values else 0.0
        for client, value in values.items():
            small = what != "norm" and value * times < median  # it is divided by
            if median > 0 and (value > times * median or small):
                found.setdefault(client, f"a {what} of {value:.3g} where the median is {median:.3g}")
    return found


def _model(reply: Reply, w: np.ndarray, expected: Expected) -> np.ndarray:
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


def _wanted(expected: Expected) -> dict[str, Any]:
    exchanged = expected.exchanged
    wanted = {"message": exchanged.message, "mass": exchanged.mass}
    return wanted | ({"before": exchanged.row, "after": exchanged.row} if expected.rows else {})


def _part(reply: Reply, name: str, like: Any) -> Any:
    found = dict(reply.parts.get(name, {}))
    try:
        tree = tree_of(like, found)
    except FedtideError as error:
        raise Refused(f"{name}: {error}") from None
    for leaf, array in named(tree).items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise Refused(f"{name}{leaf} that is not finite")
    return tree


def _finite(reply: Reply, name: str) -> float:
    value = reply.numbers.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise Refused(f"a {name} of {value!r:.40}: must be a finite number")
    return float(value)


def _whole(reply: Reply, name: str) -> int:
    value = reply.numbers.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Refused(f"{name} = {value!r:.40}: must be a whole number, 0 or more")
    return value


def _norm(delta: np.ndarray) -> float:
    return float(np.linalg.norm(delta.astype(np.float64)))


def _words(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:160]
