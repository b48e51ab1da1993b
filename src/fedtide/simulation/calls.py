"""Calls of a method's parts, with checks of their results.

Shapes, types and the structure of states are checked when a program is traced, which costs nothing in a run. A policy's
decisions are known only in a round: `fault` reduces them to one number, which the host reads once per segment.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.errors import FedtideError
from fedtide.types import (
    Aggregation,
    Cohort,
    Decision,
    Estimate,
    Estimator,
    Observation,
    Participation,
    Server,
    Solver,
    State,
    Task,
    Trained,
    Updates,
)


def begin(part: Any, *arguments: Any) -> Any:
    """`init` of any part. A PRNG key cannot be part of the state: it cannot be stored in a checkpoint."""
    state = part.init(*arguments)
    for leaf in jax.tree.leaves(state):
        if jnp.issubdtype(jnp.result_type(leaf), jax.dtypes.prng_key):
            instead = "use the random numbers of a stream, such as observation.stream, in place of keys"
            raise FedtideError(f"{type(part).__name__}.init: the state holds a PRNG key; {instead}")
    return state


def update(estimator: Estimator, state: State, available: Array) -> tuple[Estimate, State]:
    """`Estimator.update`."""
    call = _Call(estimator, "update")
    estimate, after = call.pair(estimator.update(state, available), Estimate)
    for name, value in estimate._asdict().items():
        call.array(name, value, available.shape, "float")
    return estimate, call.state(state, after)


def candidates(policy: Participation, state: State, observation: Observation) -> Array:
    """`Participation.candidates`."""
    asked = policy.candidates(state, observation)
    return _Call(policy, "candidates").array("the mask", asked, observation.available.shape, "bool")


def decide(policy: Participation, state: State, observation: Observation) -> tuple[Decision, State]:
    """`Participation.decide`."""
    call = _Call(policy, "decide")
    decision, after = call.pair(policy.decide(state, observation), Decision)
    call.array("invited", decision.invited, observation.available.shape, "bool")
    call.array("weight", decision.weight, observation.available.shape, "float")
    return decision, call.state(state, after)


def learn(policy: Participation, state: State, cohort: Cohort, updates: Updates) -> State:
    """`Participation.learn`."""
    return _Call(policy, "learn").state(state, policy.learn(state, cohort, updates))


def train(solver: Solver, w: Array, task: Task, row: Any, shared: Any) -> Trained:
    """`Solver.train`."""
    call = _Call(solver, "train")
    trained = call.one(solver.train(w, task, row, shared), Trained)
    call.array("w", trained.w, w.shape, w.dtype)
    call.array("loss", trained.loss, (), "float")
    call.array("steps", trained.steps, (), "int")
    call.array("mass", trained.mass, () if np.ndim(trained.mass) == 0 else w.shape, "float")
    call.array("rate", trained.rate, (), "float")
    call.state(row, trained.row, "row", "the client's row before")
    return trained


def first_rate(solver: Solver, task: Task, shared: Any) -> Array | float:
    """`Solver.first_rate` of many clients at once."""
    rate = solver.first_rate(task, shared)
    clients = jnp.broadcast_shapes(jnp.shape(task.steps), jnp.shape(task.steps_per_epoch))
    shape = clients if jnp.ndim(rate) else ()
    return _Call(solver, "first_rate").array("the rate", rate, shape, "float")


def close(
    solver: Solver, shared: Any, cohort: Cohort, updates: Updates, before: Any, after: Any, model: Array
) -> tuple[Any, Any]:
    """`Solver.close`."""
    call = _Call(solver, "close")
    shared_after, rows = call.pair(solver.close(shared, cohort, updates, before, after, model), object)
    return call.state(shared, shared_after), call.state(after, rows, "rows", "the rows after training")


def combine(aggregation: Aggregation, state: State, cohort: Cohort, updates: Updates) -> tuple[Array, State]:
    """`Aggregation.combine`."""
    call = _Call(aggregation, "combine")
    direction, after = call.pair(aggregation.combine(state, cohort, updates), object)
    call.array("the direction", direction, updates.delta.shape[1:], updates.delta.dtype)
    return direction, call.state(state, after)


def step(server: Server, state: State, w: Array, direction: Array) -> tuple[Array, State]:
    """`Server.step`."""
    return _Call(server, "step").model(w, state, server.step(state, w, direction))


def end_round(server: Server, state: State, w: Array, round: Array) -> tuple[Array, State]:
    """`Server.end_round`."""
    return _Call(server, "end_round").model(w, state, server.end_round(state, w, round))


def serve(server: Server, state: State, w: Array) -> Array:
    """`Server.serve`."""
    return _Call(server, "serve").array("the model", server.serve(state, w), w.shape, w.dtype)


_RULES = (
    "gives client {client} a weight without inviting it",
    "gives client {client} a weight that is not finite",
    "asks client {client}, which is not available, for its loss",
    "invites client {client}, which is not available",
    "asks more clients for a loss than its query_capacity allows",
    "invites more clients than its capacity allows",
)


def fault(observation: Observation, decision: Decision, query_capacity: int, capacity: int) -> Array:
    """0 for a valid decision; otherwise encodes a broken rule and the first client for which it is broken."""
    clients, invited = len(observation.available), decision.invited
    broken = (
        ~invited & (decision.weight != 0),
        ~jnp.isfinite(decision.weight),
        observation.asked & ~observation.available,
        invited & ~observation.available,
    )
    rule = jnp.zeros(clients, jnp.int32)
    for i, mask in enumerate(broken, 1):
        rule = jnp.where(mask, i, rule)
    code = jnp.where(rule > 0, rule * clients - jnp.arange(clients), 0).max()
    # A policy that ignores availability also invites too many: the error with a client is more specific.
    for i, more in enumerate((observation.asked.sum() > query_capacity, invited.sum() > capacity), len(broken) + 1):
        code = jnp.where(more & (code == 0), i * clients, code)
    return code


def explain(policy: Participation, fault: int, clients: int, names: Sequence[str] = ()) -> str:
    """The message for a fault, with the client's name where clients have names."""
    rule = -(-fault // clients)
    client = rule * clients - fault
    name = f" (client {client} is {names[client]!r})" if names else ""
    return f"{_Call(policy, 'decide')}: {_RULES[rule - 1].format(client=client)}{name}"


def refuse_faults(
    label: str, policy: Participation, seeds: Sequence[int], first: int, clients: int, faults: np.ndarray
) -> None:
    """Raises for a decision that broke a rule; `faults` [R, …] are those of round `first` (from 0) and later ones."""
    if not faults.any():
        return
    seed, round_ = np.argwhere(faults.reshape(len(seeds), -1))[0]
    message = explain(policy, int(faults.reshape(len(seeds), -1)[seed, round_]), clients)
    raise FedtideError(f"{label}, seed {seeds[seed]}, round {first + 1 + round_}: {message}")


_KINDS = {"bool": jnp.bool_, "int": jnp.integer, "float": jnp.floating}


class _Call(NamedTuple):
    """A part's method, as errors name it."""

    part: object
    verb: str

    def __str__(self) -> str:
        return f"{type(self.part).__name__}.{self.verb}"

    def one(self, result: Any, kind: type) -> Any:
        if not isinstance(result, kind):
            raise FedtideError(f"{self}: returns {_described(result)}; must be {kind.__name__}")
        return result

    def pair(self, result: Any, kind: type) -> tuple[Any, Any]:
        """(value, state). A part without its state in the result returns the value alone, perhaps a NamedTuple of
        two."""
        if type(result) is not tuple or len(result) != 2:
            value = "value" if kind is object else kind.__name__
            raise FedtideError(f"{self}: returns {_described(result)}; must be a pair ({value}, state)")
        return self.one(result[0], kind), result[1]

    def model(self, w: Array, state: State, result: Any) -> tuple[Array, State]:
        new, after = self.pair(result, object)
        return self.array("the model", new, w.shape, w.dtype), self.state(state, after)

    def array(self, name: str, value: Any, shape: tuple[int, ...], kind: Any) -> Any:
        """The value, if it is an array or a number of this shape and type."""
        aval = _aval(value)
        wanted = _KINDS[kind] if isinstance(kind, str) else kind
        if aval is None or aval.shape != shape or not jnp.issubdtype(aval.dtype, wanted):
            raise FedtideError(f"{self}: {name} is {_described(value)}; must be {_typed(kind, shape)}")
        return value

    def state(self, before: State, after: State, name: str = "the state", like: str = "as before") -> State:
        """The new state, if it has the structure, shapes and types of the one before, as in any loop of JAX."""
        old, new = jax.tree.structure(before), jax.tree.structure(after)
        if old != new:
            raise FedtideError(f"{self}: {name} is {_described(after)}; must be {like}, {_described(before)}")
        for (path, a), b in zip(jax.tree.leaves_with_path(before), jax.tree.leaves(after), strict=True):
            if _described(a) != _described(b):
                where = f"{name}{jax.tree_util.keystr(path)}"
                raise FedtideError(f"{self}: {where} is {_described(b)}; must be {like}, {_described(a)}")
        return after


def _aval(value: Any) -> Any:
    """Shape and type of an array or a number; None for other objects."""
    try:
        return jax.typeof(value)
    except TypeError:
        return None


def _described(value: Any) -> str:
    """An array as float32[3,4]; a tuple with its fields; any other object as its class."""
    aval = _aval(value)
    if aval is not None:
        return _typed(aval.dtype, aval.shape)
    if isinstance(value, tuple):
        name = type(value).__name__ if hasattr(value, "_fields") else ""
        return f"{name}({', '.join(_described(item) for item in value)})"
    return "None" if value is None else type(value).__name__


def _typed(kind: Any, shape: tuple[int, ...]) -> str:
    return f"{kind}[{','.join(map(str, shape))}]"
