"""The server side of a method without a network: its estimator, policy, aggregation and server step, on CPU.

The simulator runs the same objects in the same order. Here clients are other processes, which keep their own rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.errors import FedtideError, require, whole
from fedtide.methods.base import Method, title_of
from fedtide.simulation import calls
from fedtide.simulation.cohorts import capacity_for
from fedtide.simulation.rates import with_round_rate
from fedtide.simulation.replica import Carry, initial, settle
from fedtide.simulation.setup import on_device
from fedtide.simulation.trees import named
from fedtide.solvers.base import Local
from fedtide.streams import Purpose, Stream
from fedtide.types import Cohort, Decision, Estimate, Memory, Observation, Population, State, Task, Trained, Updates


class Opening(NamedTuple):
    """A round whose active set is known."""

    round: int  # rounds done before it
    observation: Observation  # with all losses 0; the policy needs those of the clients in `asked`
    estimator: State  # after this round's observation


class Invitations(NamedTuple):
    """A round whose invitations are known."""

    opening: Opening
    invited: np.ndarray  # [N] bool
    weight: np.ndarray  # [N]
    participation: State


class Update(NamedTuple):
    """A client's result of local training."""

    delta: np.ndarray  # [d] w_t − w_k
    loss: float
    steps: int
    mass: Any  # [] or [d]
    rate: float
    message: Any = ()
    before: Any = ()  # its row before and after training, if the solver's `close` needs them
    after: Any = ()


class Closing(NamedTuple):
    """The outcome of a finished round."""

    included: np.ndarray  # [N] bool: clients whose update was used
    owed: dict[int, dict[str, np.ndarray]]  # by client and name: leaves of its row that the server changed


class Shapes(NamedTuple):
    """Shapes of the state and messages of a solver, as trees of `jax.ShapeDtypeStruct`."""

    row: Any
    shared: Any
    message: Any
    mass: Any


class Coordinator:
    """The server side of a method: `begin`, `decide` and `finish` in every round.

    `carry` is the server's complete state. Only `finish` changes it, so an aborted round has no effect. It does not
    contain clients' rows, which the clients keep. `start` is the initial model, from which their first rows are made.
    """

    def __init__(self, method: Method, population: Population, w: np.ndarray, seed: int = 0, names: Sequence[str] = ()):
        refuse_training_while_absent(method)
        self.names = names  # of clients, for errors
        self.clients = len(population.sizes)
        self.seed = np.uint32(whole("seed", seed, 0, 2**32 - 1))
        self._cpu = jax.devices("cpu")[0]
        with jax.default_device(self._cpu):
            self.method, self.population = jax.tree.map(on_device, (method, population))
            dtype = jnp.result_type(float)
            require(w.ndim == 1 and w.dtype == dtype, "w", f"{w.dtype}{w.shape}", f"a vector of {dtype}")
            self.start = np.asarray(w)
            self.carry: Carry = _start(self.method, self.population, self.start)
        self.shapes = shapes(method, self.population, len(w))
        row, _, message, mass = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), self.shapes)
        vector, number, steps = np.zeros_like(self.start), np.zeros((), dtype), np.zeros((), np.int32)
        # The masked entry of a cohort: an update, and the row before and after training.
        self._masked = Updates(vector, number, steps, mass, number, message), row, row  # pyright: ignore

    @property
    def model(self) -> np.ndarray:
        """The model that clients train from [d]."""
        return np.asarray(self.carry.w)

    @property
    def served(self) -> np.ndarray:
        """The model to evaluate and to return [d]."""
        with jax.default_device(self._cpu):
            return np.asarray(_serve(self.method.server, self.carry.server, self.carry.w))

    @property
    def shared(self) -> Any:
        """The solver's state that is sent to all clients with the model."""
        return jax.tree.map(np.asarray, self.carry.solver.shared)

    def first_row(self, client: int) -> Any:
        """The row of a client that has not participated yet."""
        with jax.default_device(self._cpu):
            return jax.tree.map(np.asarray, _first_row(self.method, self.population, self.start, client))

    def begin(self, t: int, available: np.ndarray) -> Opening:
        """Begins round t: updates the estimator, and determines the clients whose losses the policy needs."""
        available = np.asarray(available, bool)
        require(available.shape == (self.clients,), "available", available.shape, f"one for each of {self.clients}")
        none: Any = np.zeros(self.clients, bool)
        zeros: Any = np.zeros(self.clients, self.start.dtype)
        number: Any = np.int32(t)
        stream = Stream(self.seed, int(Purpose.PARTICIPATION), number)  # pyright: ignore[reportArgumentType]
        seen: Any = Observation(available, Estimate(zeros, zeros), zeros, none, number, stream, self.population)  # pyright: ignore
        with jax.default_device(self._cpu):
            estimate, estimator, asked, fault = _begin(self.method, self.carry, seen)
        self._refuse(t, int(fault))
        return Opening(t, seen._replace(**jax.tree.map(np.asarray, {"estimate": estimate, "asked": asked})), estimator)

    def decide(self, opening: Opening, losses: Mapping[int, float] | None = None) -> Invitations:
        """The invited clients and their weights. `losses` must contain all clients that the policy asks."""
        losses, asked = losses or {}, np.flatnonzero(opening.observation.asked).tolist()
        missing = [k for k in asked if k not in losses]
        require(not missing, "losses", f"none for client {next(iter(missing), None)}", "one for each client in `asked`")
        loss: Any = np.zeros(self.clients, self.start.dtype)
        loss[asked] = [losses[k] for k in asked]
        with jax.default_device(self._cpu):
            seen = opening.observation._replace(loss=loss)
            decision, participation, fault = _decide(self.method, self.carry.participation, seen)
        self._refuse(opening.round, int(fault))
        return Invitations(opening, np.asarray(decision.invited), np.asarray(decision.weight), participation)

    def finish(
        self, choice: Invitations, answers: Mapping[int, Update], late: Mapping[int, Update] | None = None
    ) -> Closing:
        """Ends the round with the updates of invited clients; an invited client without an update does not participate.

        Updates of other clients are ignored. `late` contains updates of earlier rounds. They get weight 0, so only an
        aggregation with memory uses them.
        """
        counted = {k: a for k, a in answers.items() if choice.invited[k]}
        older = {k: a for k, a in (late or {}).items() if k not in counted}
        order = sorted(counted | older)
        capacity = capacity_for(len(order), self.clients)
        client: Any = np.zeros(capacity, np.int32)
        weight: Any = np.zeros(capacity, choice.weight.dtype)
        present: Any = np.arange(capacity) < len(order)
        client[present], weight[present] = order, [choice.weight[k] if k in counted else 0 for k in order]
        importance: Any = np.asarray(self.population.importance)[client]
        cohort = Cohort(client, present, weight, importance)
        rows = [self._row((counted | older)[k]) for k in order] + [self._masked] * (capacity - len(order))
        updates, before, after = jax.tree.map(lambda *leaves: np.stack(leaves), *rows)
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
        """Raises if the policy violated its contract."""
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
        masked, row, _ = self._masked
        mass: Any = np.broadcast_to(answer.mass, self.shapes.mass.shape)
        sent = Updates(answer.delta, answer.loss, answer.steps, mass, answer.rate, answer.message)  # pyright: ignore
        update = sent, answer.before or row, answer.after or row
        return jax.tree.map(lambda like, leaf: np.asarray(leaf, like.dtype), (masked, row, row), update)


def refuse_training_while_absent(method: Method) -> None:
    """Refuses a method whose clients train while disconnected."""
    if method.solver.trains_absent:
        raise FedtideError(
            f"{title_of(method)}: its clients also train in rounds in which they are unavailable; "
            "real clients do not train while disconnected"
        )


def shapes(method: Method, population: Population, parameters: int) -> Shapes:
    """Shapes of what the server and a training client exchange besides the model [parameters]."""
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
    """Whether clients send their rows, because the solver overrides `close`."""
    return type(method.solver).close is not Local.close


_serve = jax.jit(calls.serve)


@jax.jit
def _start(method: Method, population: Population, w: Array) -> Carry:
    carry = initial(method, population, w)
    return carry._replace(solver=carry.solver._replace(client=()))


@jax.jit
def _first_row(method: Method, population: Population, w: Array, client: Array) -> Any:
    return jax.tree.map(lambda a: a[client], method.solver.init(population, w).client)


@jax.jit
def _begin(method: Method, carry: Carry, seen: Observation) -> tuple[Estimate, State, Array, Array]:
    estimate, estimator = calls.update(method.estimator, carry.estimator, seen.available)
    policy, seen, nobody = method.participation, seen._replace(estimate=estimate), Decision(seen.asked, seen.loss)
    if policy.needs_losses:
        seen = seen._replace(asked=calls.candidates(policy, carry.participation, seen))
    return estimate, estimator, seen.asked, calls.fault(seen, nobody, len(seen.available), len(seen.available))


@jax.jit
def _decide(method: Method, state: State, seen: Observation) -> tuple[Decision, State, Array]:
    decision, state = calls.decide(method.participation, state, seen)
    return decision, state, calls.fault(seen, decision, len(seen.available), len(seen.available))


@jax.jit
def _settle(
    method: Method, population: Population, seed: Array, carry: Carry, t: Array, cohort: Cohort, updates: Updates,
    before: Any, after: Any,
) -> tuple[Carry, Any]:  # fmt: skip
    updates = with_round_rate(updates, method, population, seed, t, carry.solver.shared)
    return settle(method, carry, t, cohort, updates, before, after)
