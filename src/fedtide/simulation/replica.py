"""One replica: its state, its records, and its round, composed of the method's parts."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from fedtide.methods.base import Method
from fedtide.rows import weighted_rows
from fedtide.simulation import calls
from fedtide.simulation.cohorts import gather, scatter
from fedtide.simulation.measures import EvaluationRecord, selection_skew, summarise
from fedtide.simulation.rates import with_round_rate
from fedtide.streams import Purpose, Stream
from fedtide.types import (
    Cohort,
    Decision,
    Evaluation,
    Memory,
    Observation,
    Params,
    Population,
    Problem,
    State,
    Task,
    Trained,
    Updates,
)


class Carry(NamedTuple):
    """The state of one replica between rounds; a checkpoint holds exactly this."""

    w: Array  # [d]
    estimator: State
    participation: State
    solver: Memory
    aggregation: State
    server: State
    time: Any = ()  # a `Timeline`, with a clock


def initial(method: Method, population: Population, w: Array) -> Carry:
    """The state before round 0, of which w [d] is the model."""
    return Carry(
        w,
        calls.begin(method.estimator, population),
        calls.begin(method.participation, population),
        calls.begin(method.solver, population, w),
        calls.begin(method.aggregation, population, len(w)),
        calls.begin(method.server, w),
    )


class RoundRecord(NamedTuple):
    """One round of one replica."""

    available: Array  # [] clients available
    invited: Array  # [] clients invited
    weight: Array  # [] sum of their weights
    loss: Array  # [] mean local loss of the invited
    step: Array  # [] norm of the model's change


class ClientRecord(NamedTuple):
    """One round of one replica, client by client."""

    invited: Array  # [N] bool
    trained: Array  # [N] bool: was invited and took a step
    weight: Array  # [N]
    loss: Array  # [N] meaningful where trained; not finite for a client that diverged


class SegmentRecord(NamedTuple):
    """The records of a segment; leading axes are blocks, and rounds of a block."""

    rounds: RoundRecord  # [B, E]
    clients: ClientRecord | tuple[()]  # [B, E, N] where clients are recorded
    faults: Array  # [B, E] the fault of the round's decision: 0, or a code for `calls.explain`
    evaluation: EvaluationRecord | tuple[()]  # [B] where the segment evaluates
    by_client: Evaluation | tuple[()]  # [B, N] where it evaluates and clients are recorded
    times: Any = ()  # ([B, E] steps, [B, E, N] arrivals) with a clock


class Shape(NamedTuple):
    """The static parameters of a program, besides the shapes of its arguments."""

    blocks: int  # evaluations in the segment
    rounds: int  # rounds before each
    capacity: int  # rows of the training cohort
    query_capacity: int  # rows of the cohort that is asked for losses
    chunk: int | None  # clients trained at a time; None: all at once
    record_clients: bool
    devices: int = 1  # that share the seeds
    evaluates: bool = True  # whether an evaluation ends each block
    arrivals: int = 0  # rows of the arriving cohort, with a clock under which work continues after a server step


def replica(method: Method, problem: Problem, population: Population, seed: Array, shape: Shape) -> "Replica":
    """One replica, ready to run rounds."""
    starts = jnp.cumsum(population.sizes) - population.sizes
    return Replica(method, problem, population, starts, unraveller(problem), seed, shape)


def unraveller(problem: Problem) -> Callable[[Array], Params]:
    """The function from a vector [d] to parameters; found by tracing, without computing anything."""
    unravel = []
    jax.eval_shape(lambda: unravel.append(ravel_pytree(problem.init(jax.random.key(0)))[1]))
    return unravel[0]


class Replica(NamedTuple):
    """One replica's round, composed of the method's parts."""

    method: Method
    problem: Problem
    population: Population
    starts: Array  # [N] first sample of each client
    unravel: Any
    seed: Array
    shape: Shape

    def block(self, step: Callable[..., Any], carry: Carry, inputs: tuple[Array, Any]) -> tuple[Carry, SegmentRecord]:
        """Some rounds, each one `step`, then an evaluation."""
        carry, (rounds, clients, faults, *times) = jax.lax.scan(step, carry, inputs)
        if not self.shape.evaluates:
            return carry, SegmentRecord(rounds, clients, faults, (), (), *times)
        by_client = self.problem.evaluate(self.unravel(calls.serve(self.method.server, carry.server, carry.w)))
        skew = self._skew(carry.participation, inputs[0][-1], by_client)
        summary = summarise(by_client, self.population.importance, skew)
        kept = by_client if self.shape.record_clients else ()
        return carry, SegmentRecord(rounds, clients, faults, summary, kept, *times)

    def round(self, carry: Carry, inputs: tuple[Array, Array]) -> tuple[Carry, tuple[RoundRecord, Any, Array]]:
        """availability → estimator → participation → solver → aggregation → server."""
        t, available = inputs
        method = self.method
        estimate, estimator = calls.update(method.estimator, carry.estimator, available)
        observation = self._ask(carry, t, available, estimate)
        decision, participation = calls.decide(method.participation, carry.participation, observation)
        training, cohort = self._cohorts(decision)
        before = jax.tree.map(lambda a: a[training.client], carry.solver.client)
        updates, after = self._train(carry.w, t, training, cohort, before, carry.solver.shared)
        updates = with_round_rate(updates, method, self.population, self.seed, t, carry.solver.shared)
        current = carry._replace(estimator=estimator, participation=participation)
        settled, rows = settle(method, current, t, cohort, updates, before, after)
        kept = jax.tree.map(lambda new, old: scatter(training, new, old), rows, carry.solver.client)
        change = jnp.sqrt(((settled.w - carry.w) ** 2).sum())
        record = self._record(available, decision, cohort, updates, change)
        fault = calls.fault(observation, decision, self.shape.query_capacity, self.shape.capacity)
        return settled._replace(solver=Memory(kept, settled.solver.shared)), (*record, fault)

    def one_step(self, w: Array) -> tuple[Array, Array]:
        """A single gradient of a single client, for memory estimates."""
        return self._gradient(lambda i: self._minibatch(Stream(self.seed, Purpose.MINIBATCH), jnp.int32(0), i))(w, 0)

    def train_one(self, w: Array, t: Array, client: Array, row: Any, shared: Any) -> tuple[Array, Trained]:
        """One client's training in round t, alone: (w_t − w_k, its other results)."""
        size = self.population.sizes[client]
        steps = self.method.solver.work.steps(Stream(self.seed, Purpose.WORK, t), client, size)
        return self._local(w, t, steps, shared, client, jnp.asarray(steps), size, row)

    def loss_of(self, w: Array, t: Array, client: Array) -> Array:
        """The loss that a client reports in round t when the policy asks for it."""
        if self.method.participation.needs_losses == "all":
            return self._whole_loss(w, client)
        return self._loss(w, *self._minibatch(Stream(self.seed, Purpose.QUERY, t), client, 0))

    def _ask(self, carry: Carry, t: Array, available: Array, estimate: Any) -> Observation:
        """The policy's observation, with the losses of its candidates at the current model where it needs them."""
        policy = self.method.participation
        none, nothing = jnp.zeros_like(available), jnp.zeros(len(available), carry.w.dtype)
        stream = Stream(self.seed, Purpose.PARTICIPATION, t)
        observation = Observation(available, estimate, nothing, none, t, stream, self.population)
        if not policy.needs_losses:
            return observation
        asked = calls.candidates(policy, carry.participation, observation)
        rows = gather(Decision(asked, nothing), self.population.importance, self.shape.query_capacity)
        answer = functools.partial(self.loss_of, carry.w, t)
        losses = _in_chunks(answer, (rows.client,), self.shape.chunk)
        return observation._replace(asked=asked, loss=scatter(rows, losses, nothing))

    def _cohorts(self, decision: Decision) -> tuple[Cohort, Cohort]:
        """(clients that train, clients that take part) in the same rows: the same clients, for most solvers."""
        importance = self.population.importance
        if not self.method.solver.trains_absent:
            cohort = gather(decision, importance, self.shape.capacity)
            return cohort, cohort
        training = gather(decision._replace(invited=jnp.ones_like(decision.invited)), importance, len(importance))
        return training, training._replace(present=decision.invited[training.client])

    def _train(
        self, w: Array, t: Array, training: Cohort, cohort: Cohort, before: Any, shared: Any
    ) -> tuple[Updates, Any]:
        """Local training, all rows at once or chunk by chunk: (updates of the cohort, rows after training)."""
        sizes = self.population.sizes[training.client]
        steps = self.method.solver.work.steps(Stream(self.seed, Purpose.WORK, t), training.client, sizes)
        local = functools.partial(self._local, w, t, steps, shared)
        inputs = (training.client, jnp.broadcast_to(jnp.where(training.present, steps, 0), sizes.shape), sizes, before)
        train = _in_chunks if isinstance(steps, int) else _by_work
        delta, trained = train(local, inputs, self.shape.chunk)
        sent = Updates(delta, trained.loss, trained.steps, trained.mass, trained.rate, trained.message)
        return jax.tree.map(lambda rows: _masked(cohort.present, rows), sent), trained.row

    def _local(
        self, w: Array, t: Array, steps: Array | int, shared: Any, client: Array, mine: Array, size: Array, row: Any
    ) -> tuple[Array, Trained]:
        """One client's training: (w_t − w_k, its other results). `steps` is an int where it is the same for all."""
        solver, work = self.method.solver, self.method.solver.work
        draw = functools.partial(self._minibatch, Stream(self.seed, Purpose.MINIBATCH, t), client)
        stream = Stream(self.seed, Purpose.WORK, t)
        if isinstance(steps, int):  # all minibatches at once: random numbers are cheap in bulk
            drawn = jax.vmap(draw)(jnp.arange(max(steps, 1)))
            # On a GPU the loop would take longer than a few small steps; on a CPU unrolling only compiles longer.
            unroll = steps <= 8 and w.size <= _SMALL_MODEL and jax.default_backend() != "cpu"
            gradient = self._gradient(lambda i: jax.tree.map(lambda a: a[i], drawn))
            task = Task(steps, gradient, t, work.steps_per_epoch(size), unroll, client, stream)
        else:
            task = Task(mine, self._gradient(draw), t, work.steps_per_epoch(size), client=client, stream=stream)
        trained = calls.train(solver, w, task, row, shared)
        numbers = jax.tree.map(jnp.asarray, trained._replace(w=()))
        return w - trained.w, numbers

    def _skew(self, state: State, t: Array, by_client: Evaluation) -> Array | None:
        """The skew of the selection towards large losses at this model."""
        policy = self.method.participation
        if not policy.selects_by_loss or self.population.optimum is None:
            return None
        return selection_skew(
            policy, state, Stream(self.seed, Purpose.MEASUREMENT, t), by_client.train_loss, self.population
        )

    def _minibatch(self, stream: Stream, client: Array, step: Array | int) -> tuple[Array, Array]:
        """(samples [b], mask [b]) of one local step."""
        size = self.population.sizes[client]
        position, present = self.method.solver.work.minibatch(stream, client, size, step)
        return self.starts[client] + position, present

    def _gradient(self, draw: Any) -> Any:
        """(w, step) -> (loss, gradient) on the step's minibatch, `draw(step)`."""
        return lambda w, step: jax.value_and_grad(self._loss)(w, *draw(step))

    def _loss(self, w: Array, samples: Array, present: Array) -> Array:
        params = self.unravel(w)
        losses = self.problem.losses(params, samples)
        return jnp.where(present, losses, 0).sum() / present.sum() + self.problem.penalty(params)

    def _whole_loss(self, w: Array, client: Array) -> Array:
        """F_k(w) over all of a client's samples, block by block: sizes differ too much for padding."""
        params, size = self.unravel(w), self.population.sizes[client]

        def add(i: Array, total: Array) -> Array:
            place = i * _BLOCK + jnp.arange(_BLOCK)
            losses = self.problem.losses(params, self.starts[client] + jnp.minimum(place, size - 1))
            return total + jnp.where(place < size, losses, 0).sum()

        total = jax.lax.fori_loop(0, -(-size // _BLOCK), add, jnp.zeros((), w.dtype))
        return total / size + self.problem.penalty(params)

    def _record(
        self, available: Array, decision: Decision, cohort: Cohort, updates: Updates, change: Array
    ) -> tuple[RoundRecord, ClientRecord | tuple[()]]:
        # Sums run over clients or in row order: they must not depend on the capacity.
        trained = updates.steps > 0
        total = weighted_rows(trained.astype(updates.loss.dtype), jnp.where(trained, updates.loss, 0)[:, None])[0]
        loss = total / trained.sum()  # nan where no client trained, or one diverged
        record = RoundRecord(available.sum(), decision.invited.sum(), decision.weight.sum(), loss, change)
        if not self.shape.record_clients:
            return record, ()
        took_part = scatter(cohort, trained, jnp.zeros_like(available))
        losses = scatter(cohort, updates.loss, jnp.zeros(len(available), updates.loss.dtype))
        return record, ClientRecord(decision.invited, took_part, decision.weight, losses)


def settle(
    method: Method, carry: Carry, t: Array, cohort: Cohort, updates: Updates, before: Any, after: Any
) -> tuple[Carry, Any]:
    """The server's work after the cohort's training: (its state after round t, the rows [C, …] for clients to keep).

    Needs no data: simulation and deployment share it. The clients' rows in `carry` do not change.
    """
    participation = calls.learn(method.participation, carry.participation, cohort, updates)
    direction, aggregation = calls.combine(method.aggregation, carry.aggregation, cohort, updates)
    w, server = calls.step(method.server, carry.server, carry.w, direction)
    # A round without updates does not change model and server, unless the aggregation has updates in memory.
    moves = cohort.present.any() | method.aggregation.moves_when_empty
    w, server = jax.tree.map(lambda new, old: jnp.where(moves, new, old), (w, server), (carry.w, carry.server))
    w, server = calls.end_round(method.server, server, w, t)
    shared, rows = calls.close(method.solver, carry.solver.shared, cohort, updates, before, after, w)
    return Carry(w, carry.estimator, participation, Memory(carry.solver.client, shared), aggregation, server), rows


_BLOCK = 64  # samples of a client whose losses are computed at once
_SMALL_MODEL = 500_000  # parameters up to which a step is short compared with a loop iteration


def _masked(present: Array, rows: Array) -> Array:
    return jnp.where(present.reshape(-1, *(1,) * (rows.ndim - 1)), rows, 0)


def _in_chunks(f: Any, inputs: Any, chunk: int | None) -> Any:
    if chunk is None or chunk >= len(jax.tree.leaves(inputs)[0]):
        return jax.vmap(f)(*inputs)
    return jax.lax.map(lambda row: f(*row), inputs, batch_size=chunk)


def _by_work(f: Any, inputs: Any, chunk: int | None) -> Any:
    """Clients of unequal work (the second input): sorted by it, in eight groups, each as long as its slowest client.

    A GPU, which steps of few clients would leave idle, takes all at once.
    """
    order = jnp.argsort(-inputs[1])
    groups = 8 if jax.default_backend() == "cpu" else 1
    chunk = min(-(-len(order) // groups), chunk or len(order))
    outputs = _in_chunks(f, jax.tree.map(lambda a: a[order], inputs), chunk)
    return jax.tree.map(lambda a: jnp.zeros_like(a).at[order].set(a), outputs)
