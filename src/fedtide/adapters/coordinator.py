"""A server's rounds without a network: the method's own estimator, policy, aggregation and server step, on CPU.

The simulator runs the same objects in the same order; here the clients are elsewhere, and so are their rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.adapters.trees import named
from fedtide.errors import FedtideError, require, whole
from fedtide.methods.base import Method, title_of
from fedtide.simulation import calls
from fedtide.simulation.cohorts import capacity_for
from fedtide.simulation.rates import with_round_rate
from fedtide.simulation.replica import Carry, settle
from fedtide.simulation.setup import batch
from fedtide.solvers.base import Local
from fedtide.streams import Purpose, Stream
from fedtide.types import Cohort, Decision, Estimate, Memory, Observation, Population, State, Task, Trained, Updates


class Opening(NamedTuple):
    """A round whose active set is known."""

    round: int  # rounds done before it
    available: np.ndarray  # [N] bool
    asked: np.ndarray  # [N] bool: whose loss the policy wants to know
    estimate: Estimate  # of numpy arrays
    estimator: State  # after this round's observation


class Choice(NamedTuple):
    """A round whose invitations are known."""

    opening: Opening
    invited: np.ndarray  # [N] bool
    weight: np.ndarray  # [N]
    participation: State


class Update(NamedTuple):
    """What one client sent after training."""

    delta: np.ndarray  # [d] w_t − w_k
    loss: float
    steps: int
    mass: Any  # [] or [d]
    rate: float
    message: Any = ()
    before: Any = ()  # its row before and after training, where the solver's `close` looks at them
    after: Any = ()


class Closing(NamedTuple):
    """A round that is over."""

    included: np.ndarray  # [N] bool: whose update counted
    owed: dict[int, dict[str, np.ndarray]]  # by client: those leaves of its row that the server changed, by name


class Shapes(NamedTuple):
    """The shapes of what a solver and its clients exchange, as trees of `jax.ShapeDtypeStruct`."""

    row: Any
    shared: Any
    message: Any
    mass: Any


class Coordinator:
    """The server's half of a method: `begin`, `decide`, `finish`, round after round.

    `carry` is all that the server keeps; only `finish` changes it, so a round that breaks off leaves no trace. Rows of
    clients are not in it: the clients have them. `start` is the initial model, from which their first rows are made.
    """

    def __init__(self, method: Method, population: Population, w: np.ndarray, seed: int = 0, names: Sequence[str] = ()):
        refuse_unheard(method)
        self.names = names  # of clients, for errors
        self.clients = len(population.sizes)
        self.seed = np.uint32(whole("seed", seed, 0, 2**32 - 1))
        self._cpu = jax.devices("cpu")[0]
        with jax.default_device(self._cpu):
            self.method = jax.tree.map(lambda a: a[0], batch([method]))
            self.population = jax.tree.map(jnp.asarray, population)
            dtype = jnp.result_type(float)
            require(w.ndim == 1 and w.dtype == dtype, "w", f"{w.dtype}{w.shape}", f"a vector of {dtype}")
            self.start = np.asarray(w)
            self.carry: Carry = _start(self.method, self.population, self.start)
        self.shapes = shapes(method, self.population, len(w))

    @property
    def model(self) -> np.ndarray:
        """The model that clients train from [d]."""
        return np.asarray(self.carry.w)

    @property
    def served(self) -> np.ndarray:
        """The model to evaluate and to hand out [d]."""
        with jax.default_device(self._cpu):
            return np.asarray(_served(self.method, self.carry))

    @property
    def shared(self) -> Any:
        """What all clients get besides the model."""
        return jax.tree.map(np.asarray, self.carry.solver.shared)

    def first_row(self, client: int) -> Any:
        """The row of a client that has never taken part."""
        with jax.default_device(self._cpu):
            return jax.tree.map(np.asarray, _first_row(self.method, self.population, self.start, client))

    def begin(self, t: int, available: np.ndarray) -> Opening:
        """Round t with these clients there: the estimator has seen them, and the policy says whose losses it wants."""
        available = np.asarray(available, bool)
        require(available.shape == (self.clients,), "available", available.shape, f"one for each of {self.clients}")
        with jax.default_device(self._cpu):
            found = _begin(self.method, self.carry, np.int32(t), available, self.seed)
        estimate, estimator, asked, fault = found
        self._refuse(t, int(fault))
        return Opening(t, available, np.asarray(asked), jax.tree.map(np.asarray, estimate), estimator)

    def decide(self, opening: Opening, losses: Mapping[int, float] | None = None) -> Choice:
        """Whom to invite, with what weight. `losses` are of all who were asked; those of others are not looked at."""
        losses = losses or {}
        missing = [int(k) for k in np.flatnonzero(opening.asked) if k not in losses]
        require(not missing, "losses", f"none of client {missing[:1]}", "one for each client that was asked")
        loss = np.zeros(self.clients, self.start.dtype)
        for client in np.flatnonzero(opening.asked):
            loss[client] = losses[int(client)]
        with jax.default_device(self._cpu):
            decision, participation, fault = _decide(
                self.method, self.carry, np.int32(opening.round), opening.available, opening.estimate, opening.asked,
                loss, self.seed,
            )  # fmt: skip
        self._refuse(opening.round, int(fault))
        return Choice(opening, np.asarray(decision.invited), np.asarray(decision.weight), participation)

    def finish(
        self, choice: Choice, answers: Mapping[int, Update], late: Mapping[int, Update] | None = None
    ) -> Closing:
        """Ends the round with the answers of the invited. Who was invited and is not among them takes no part.

        Answers of others are not looked at. `late` are updates of earlier rounds: they count with weight 0, which is
        how an aggregation with memory gets to know them.
        """
        counted = {k: a for k, a in answers.items() if choice.invited[k]}
        older = {k: a for k, a in (late or {}).items() if k not in counted}
        order = sorted(counted | older)
        capacity = capacity_for(len(order), self.clients)
        client: Any = np.array(order + [0] * (capacity - len(order)), np.int32)
        weight: Any = [choice.weight[k] if k in counted else 0 for k in order] + [0] * (capacity - len(order))
        present: Any = np.arange(capacity) < len(order)
        weight = np.asarray(weight, choice.weight.dtype)
        cohort = Cohort(client, present, weight)
        rows = [self._row(answer) for answer in ((counted | older)[k] for k in order)]
        updates, before, after = self._stacked(rows, capacity)
        carry = self.carry._replace(estimator=choice.opening.estimator, participation=choice.participation)
        with jax.default_device(self._cpu):
            settled, kept = _settle(
                self.method, self.population, self.seed, carry, np.int32(choice.opening.round), cohort, updates, before,
                after,
            )  # fmt: skip
        self.carry = settled
        included = np.zeros(self.clients, bool)
        included[list(counted)] = True
        return Closing(included, self._owed(kept, after, {k: i for i, k in enumerate(order) if k in counted}))

    def _refuse(self, t: int, fault: int) -> None:
        """Raises where the policy broke a rule."""
        if fault:
            what = calls.explain(self.method.participation, fault, self.clients, self.names)
            raise FedtideError(f"round {t + 1}: {what}")

    def _owed(self, kept: Any, after: Any, places: dict[int, int]) -> dict[int, dict[str, np.ndarray]]:
        if not sends_rows(self.method):
            return {}
        rows, trained = named(kept), named(after)
        owed = {}
        for client, i in places.items():
            changed = {n: rows[n][i] for n in rows if not np.array_equal(rows[n][i], trained[n][i], equal_nan=True)}
            if changed:
                owed[client] = changed
        return owed

    def _row(self, answer: Update) -> tuple[Updates, Any, Any]:
        dtype = self.start.dtype

        def number(value: Any) -> Any:
            return np.asarray(value, dtype)

        mass: Any = np.broadcast_to(number(answer.mass), self.shapes.mass.shape)
        steps: Any = np.asarray(answer.steps, np.int32)
        update = Updates(number(answer.delta), number(answer.loss), steps, mass, number(answer.rate), answer.message)
        empty = jax.tree.map(_zeros, self.shapes.row)
        return update, answer.before or empty, answer.after or empty

    def _stacked(self, rows: list[Any], capacity: int) -> Any:
        number: Any = np.zeros((), self.start.dtype)
        vector: Any = np.zeros_like(self.start)
        steps: Any = np.zeros((), np.int32)
        mass: Any = _zeros(self.shapes.mass)
        message, row = (jax.tree.map(_zeros, tree) for tree in (self.shapes.message, self.shapes.row))
        masked = (Updates(vector, number, steps, mass, number, message), row, row)
        padded = [*rows, *[masked] * (capacity - len(rows))]
        return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *padded)


def refuse_unheard(method: Method) -> None:
    """Refuses a method whose clients train in rounds in which nobody hears of them."""
    if method.solver.trains_absent:
        raise FedtideError(
            f"{title_of(method)}: its clients train in rounds that they take no part in; real ones do not hear of those"
        )


def shapes(method: Method, population: Population, parameters: int) -> Shapes:
    """What goes between the server and a client that trains, besides the model [parameters]."""
    w = jax.ShapeDtypeStruct((parameters,), jnp.result_type(float))

    def one(population: Population, w: Array) -> tuple[Memory, Trained]:
        memory = method.solver.init(population, w)
        row = jax.tree.map(lambda a: a[0], memory.client)
        task = Task(jnp.int32(1), lambda w, step: (jnp.zeros((), w.dtype), w), jnp.int32(0), jnp.int32(1))
        trained = method.solver.train(w, task, row, memory.shared)
        return Memory(row, memory.shared), jax.tree.map(jnp.asarray, trained)

    memory, trained = jax.eval_shape(one, population, w)
    return Shapes(memory.client, memory.shared, trained.message, trained.mass)


def sends_rows(method: Method) -> bool:
    """Whether the solver's `close` may look at what clients remember: then they send it."""
    return type(method.solver).close is not Local.close


@jax.jit
def _start(method: Method, population: Population, w: Array) -> Carry:
    return Carry(
        w,
        method.estimator.init(population),
        method.participation.init(population),
        Memory((), method.solver.init(population, w).shared),
        method.aggregation.init(population, len(w)),
        method.server.init(w),
    )


@jax.jit
def _first_row(method: Method, population: Population, w: Array, client: Array) -> Any:
    return jax.tree.map(lambda a: a[client], method.solver.init(population, w).client)


@jax.jit
def _begin(
    method: Method, carry: Carry, t: Array, available: Array, seed: Array
) -> tuple[Estimate, State, Array, Array]:
    estimate, estimator = calls.update(method.estimator, carry.estimator, available)
    nobody, nothing = jnp.zeros_like(available), jnp.zeros(len(available), carry.w.dtype)
    seen = Observation(available, estimate, nothing, nobody, t, Stream(seed, Purpose.PARTICIPATION, t))
    policy = method.participation
    asked = calls.candidates(policy, carry.participation, seen) if policy.needs_losses else nobody
    fault = calls.fault(seen._replace(asked=asked), Decision(nobody, nothing), len(available), len(available))
    return estimate, estimator, asked, fault


@jax.jit
def _decide(
    method: Method, carry: Carry, t: Array, available: Array, estimate: Estimate, asked: Array, loss: Array, seed: Array
) -> tuple[Decision, State, Array]:
    seen = Observation(available, estimate, loss, asked, t, Stream(seed, Purpose.PARTICIPATION, t))
    decision, state = calls.decide(method.participation, carry.participation, seen)
    return decision, state, calls.fault(seen, decision, len(available), len(available))


@jax.jit
def _settle(
    method: Method, population: Population, seed: Array, carry: Carry, t: Array, cohort: Cohort, updates: Updates,
    before: Any, after: Any,
) -> tuple[Carry, Any]:  # fmt: skip
    updates = with_round_rate(updates, method, population, seed, t, carry.solver.shared)
    return settle(method, carry, t, cohort, updates, before, after)


@jax.jit
def _served(method: Method, carry: Carry) -> Array:
    return calls.serve(method.server, carry.server, carry.w)


def _zeros(shape: Any) -> np.ndarray:
    return np.zeros(shape.shape, shape.dtype)
