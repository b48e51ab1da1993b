"""The compiled engine: a stretch of rounds, for all replicas of a method, is one program.

Replicas have two batch axes: G settings of the method's plain numbers, and R seeds. Methods know of neither.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from fedtide.aggregation.rows import weighted_rows
from fedtide.methods.base import Method
from fedtide.simulation.cohorts import gather, scatter
from fedtide.streams import Purpose, Stream
from fedtide.types import Cohort, Decision, Evaluation, Memory, Observation, Population, Problem, State, Task, Updates


class Carry(NamedTuple):
    """All that changes from round to round in one replica; a checkpoint holds exactly this."""

    w: Array  # [d]
    estimator: State
    participation: State
    solver: Memory
    aggregation: State
    server: State


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
    trained: Array  # [N] bool: invited, and took a step
    weight: Array  # [N]
    loss: Array  # [N] counts where trained; not finite for a client that diverged


class EvaluationRecord(NamedTuple):
    """The model after a round."""

    objective: Array  # [] F(w) = Σ α_k F_k(w)
    test_loss: Array  # [] α-weighted over clients with test samples
    test_accuracy: Array  # []
    worst_decile: Array  # [] mean accuracy of the tenth of the clients that are served worst


class Stretch(NamedTuple):
    """What a stretch returns; leading axes are blocks, and rounds of a block."""

    rounds: RoundRecord  # [B, E]
    clients: ClientRecord | tuple[()]  # [B, E, N] where clients are recorded
    evaluation: EvaluationRecord | tuple[()]  # [B] where the stretch evaluates
    by_client: Evaluation | tuple[()]  # [B, N] where it evaluates and clients are recorded


class Shape(NamedTuple):
    """What a program is compiled for, besides the shapes of its arguments."""

    blocks: int  # evaluations in the stretch
    rounds: int  # rounds before each
    capacity: int  # rows of the training cohort
    query_capacity: int  # rows of the cohort whose losses are asked for
    chunk: int | None  # clients trained at a time; None: all at once
    record_clients: bool
    devices: int = 1  # that share the seeds
    evaluates: bool = True  # whether an evaluation ends each block


@functools.partial(jax.jit, static_argnames=("history",))
def start(method: Method, problem: Problem, population: Population, seeds: Array, trace: Array, history: int) -> Carry:
    """The state before round 0 of every replica [G, R, …]; `trace` [R, history, N] was observed before."""

    def one(method: Method, seed: Array, trace: Array) -> Carry:
        w, _ = ravel_pytree(problem.init(Stream(seed, Purpose.MODEL).key()))
        estimator = method.estimator.init(population)
        if history:
            estimator, _ = jax.lax.scan(lambda s, a: (method.estimator.update(s, a)[1], None), estimator, trace)
        return Carry(
            w,
            estimator,
            method.participation.init(population),
            method.solver.init(population, len(w)),
            method.aggregation.init(population, len(w)),
            method.server.init(w),
        )

    return _replicate(one, method, seeds, trace)


@functools.partial(jax.jit, static_argnames=("shape",), donate_argnames=("carry",))
def run_stretch(
    method: Method,
    problem: Problem,
    population: Population,
    seeds: Array,
    carry: Carry,
    first: Array,
    trace: Array,
    shape: Shape,
) -> tuple[Carry, Stretch]:
    """Runs rounds first … first + blocks · rounds − 1 of every replica; `trace` is bool[R, blocks · rounds, N]."""

    def replicas(
        method: Method, problem: Problem, population: Population, first: Array, seeds: Array, trace: Array, carry: Carry
    ) -> tuple[Carry, Stretch]:
        def one(method: Method, seed: Array, trace: Array, carry: Carry) -> tuple[Carry, Stretch]:
            one_replica = replica(method, problem, population, seed, shape)
            rounds = (first + jnp.arange(shape.blocks * shape.rounds)).reshape(shape.blocks, shape.rounds)
            trace = trace.reshape(shape.blocks, shape.rounds, -1)
            return jax.lax.scan(one_replica.block, carry, (rounds, trace))

        return _replicate(one, method, seeds, trace, carry)

    if shape.devices > 1:
        whole, by_seed, by_both = P(), P("replicas"), P(None, "replicas")
        replicas = jax.shard_map(
            replicas,
            mesh=replica_mesh(shape.devices),
            in_specs=(whole, whole, whole, whole, by_seed, by_seed, by_both),
            out_specs=by_both,
            check_vma=False,
        )
    return replicas(method, problem, population, first, seeds, trace, carry)


def spread(carry: Carry, devices: int) -> Carry:
    """The carry where a stretch returns it, seeds shared among the devices: else the second stretch compiles anew."""
    if devices == 1:
        return carry
    return jax.device_put(carry, NamedSharding(replica_mesh(devices), P(None, "replicas")))


def replica_mesh(devices: int) -> Mesh:
    """The devices that share the replicas."""
    return Mesh(jax.devices()[:devices], ("replicas",))


@jax.jit
def evaluate(problem: Problem, population: Population, seeds: Array, w: Array) -> tuple[EvaluationRecord, Evaluation]:
    """Quality of the models w [G, R, d]."""

    def one(seed: Array, w: Array) -> tuple[EvaluationRecord, Evaluation]:
        _, unravel = ravel_pytree(problem.init(Stream(seed, Purpose.MODEL).key()))
        by_client = problem.evaluate(unravel(w))
        return summarise(by_client, population.importance), by_client

    return jax.vmap(jax.vmap(one), in_axes=(None, 0))(seeds, w)


def summarise(by_client: Evaluation, importance: Array) -> EvaluationRecord:
    """Importance-weighted means, and the mean accuracy of the worst-served tenth of the clients."""

    tested = by_client.tested
    weight = jnp.where(tested, importance, 0)

    def weighted(values: Array) -> Array:
        # Where all are tested, a diverged client's value counts: a mean that skipped it would look fine.
        return jnp.where(tested, weight * values, 0).sum() / weight.sum()

    accuracy = jnp.where(tested, by_client.test_accuracy, jnp.inf)
    tenth = jnp.ceil(tested.sum() / 10)
    worst = jnp.where(jnp.arange(len(accuracy)) < tenth, jnp.sort(accuracy), 0).sum() / tenth
    return EvaluationRecord(
        objective=(importance * by_client.train_loss).sum(),
        test_loss=weighted(by_client.test_loss),
        test_accuracy=weighted(by_client.test_accuracy),
        worst_decile=jnp.where(jnp.isnan(accuracy).any(), jnp.nan, worst),
    )


def replica(method: Method, problem: Problem, population: Population, seed: Array, shape: Shape) -> "Replica":
    """One replica, ready to run rounds."""
    _, unravel = ravel_pytree(problem.init(Stream(seed, Purpose.MODEL).key()))
    starts = jnp.cumsum(population.sizes) - population.sizes
    return Replica(method, problem, population, starts, unravel, seed, shape)


class Replica(NamedTuple):
    """One replica's round, out of its parts."""

    method: Method
    problem: Problem
    population: Population
    starts: Array  # [N] first sample of each client
    unravel: Any
    seed: Array
    shape: Shape

    def block(self, carry: Carry, inputs: tuple[Array, Array]) -> tuple[Carry, Stretch]:
        """Some rounds, then an evaluation."""
        carry, (rounds, clients) = jax.lax.scan(self.round, carry, inputs)
        if not self.shape.evaluates:
            return carry, Stretch(rounds, clients, (), ())
        by_client = self.problem.evaluate(self.unravel(carry.w))
        summary = summarise(by_client, self.population.importance)
        return carry, Stretch(rounds, clients, summary, by_client if self.shape.record_clients else ())

    def round(self, carry: Carry, inputs: tuple[Array, Array]) -> tuple[Carry, tuple[RoundRecord, Any]]:
        """availability → estimator → participation → solver → aggregation → server."""
        t, available = inputs
        method = self.method
        estimate, estimator = method.estimator.update(carry.estimator, available)
        asked, loss = self._ask(carry.w, t, available)
        seen = Observation(available, estimate, loss, asked, Stream(self.seed, Purpose.PARTICIPATION, t))
        decision, participation = method.participation.decide(carry.participation, seen)
        cohort = gather(decision, self.shape.capacity)
        updates, solver = self._train(carry.w, t, cohort, carry.solver)
        direction, aggregation = method.aggregation.combine(carry.aggregation, cohort, updates)
        w, server = method.server.step(carry.server, carry.w, direction)
        # A round without updates leaves model and server as they were, unless the aggregation has some in memory.
        moves = cohort.present.any() | method.aggregation.moves_when_empty
        w, server = jax.tree.map(lambda new, old: jnp.where(moves, new, old), (w, server), (carry.w, carry.server))
        change = jnp.sqrt(((w - carry.w) ** 2).sum())
        record = self._record(available, decision, cohort, updates, change)
        return Carry(w, estimator, participation, solver, aggregation, server), record

    def _ask(self, w: Array, t: Array, available: Array) -> tuple[Array, Array]:
        """Minibatch losses at w of the available, where the method needs them: (asked [N], loss [N])."""
        loss = jnp.zeros(len(available), w.dtype)
        if not self.method.participation.needs_losses:
            return jnp.zeros_like(available), loss
        rows = gather(Decision(available, loss), self.shape.query_capacity)
        stream = Stream(self.seed, Purpose.QUERY, t)
        ask = lambda client: self._loss(w, *self._minibatch(stream, client, 0))  # noqa: E731
        found = _in_chunks(ask, (rows.client,), self.shape.chunk)
        return available, scatter(rows, found, loss)

    def _train(self, w: Array, t: Array, cohort: Cohort, memory: Memory) -> tuple[Updates, Memory]:
        """Local training of the cohort, all rows at once or chunk by chunk."""
        solver = self.method.solver
        steps = solver.work.steps(self.population.sizes)
        stream = Stream(self.seed, Purpose.MINIBATCH, t)

        taken = jnp.where(cohort.present, steps if isinstance(steps, int) else steps[cohort.client], 0)

        def local(client: Array, mine: Array, row: Any) -> tuple[Array, Array, Any]:
            draw = functools.partial(self._minibatch, stream, client)
            if isinstance(steps, int):  # all minibatches at once: random numbers are cheap in bulk
                drawn = jax.vmap(draw)(jnp.arange(steps))
                # A GPU would spend more time on looping than on a few small steps; a CPU only compiles longer.
                unroll = steps <= 8 and jax.default_backend() != "cpu"
                task = Task(steps, self._gradient(lambda i: jax.tree.map(lambda a: a[i], drawn)), unroll)
            else:
                task = Task(mine, self._gradient(draw))
            w_k, loss, row = solver.train(w, task, row, memory.shared)
            return w - w_k, loss, row

        before = jax.tree.map(lambda a: a[cohort.client], memory.client)
        inputs = (cohort.client, taken, before)
        if isinstance(steps, int):
            delta, loss, after = _in_chunks(local, inputs, self.shape.chunk)
        else:
            delta, loss, after = self._by_work(local, inputs)
        present = cohort.present
        updates = Updates(jnp.where(present[:, None], delta, 0), jnp.where(present, loss, 0), taken)
        client = jax.tree.map(lambda rows, all_rows: scatter(cohort, rows, all_rows), after, memory.client)
        return updates, Memory(client, solver.share(memory.shared, cohort, before, after))

    def _by_work(self, local: Any, inputs: tuple[Array, Array, Any]) -> Any:
        """Clients of unequal work: sorted by it and trained in eighths, each as long as its slowest client."""
        order = jnp.argsort(-inputs[1])
        chunk = min(-(-len(order) // 8), self.shape.chunk or len(order))
        outputs = _in_chunks(local, jax.tree.map(lambda a: a[order], inputs), chunk)
        return jax.tree.map(lambda a: jnp.zeros_like(a).at[order].set(a), outputs)

    def one_step(self, w: Array) -> tuple[Array, Array]:
        """A single client's single gradient: what memory estimates look at."""
        return self._gradient(lambda i: self._minibatch(Stream(self.seed, Purpose.MINIBATCH), jnp.int32(0), i))(w, 0)

    def _minibatch(self, stream: Stream, client: Array, step: Array | int) -> tuple[Array, Array]:
        """(samples [b], mask [b]) of one local step."""
        size = self.population.sizes[client]
        position, present = self.method.solver.work.minibatch(stream, client, size, step)
        return self.starts[client] + position, present

    def _gradient(self, draw: Any) -> Any:
        """(w, step) -> (loss, gradient) on the minibatch that `draw` gives for the step."""
        return lambda w, step: jax.value_and_grad(self._loss)(w, *draw(step))

    def _loss(self, w: Array, samples: Array, present: Array) -> Array:
        params = self.unravel(w)
        losses = self.problem.losses(params, samples)
        return jnp.where(present, losses, 0).sum() / present.sum() + self.problem.penalty(params)

    def _record(
        self, available: Array, decision: Decision, cohort: Cohort, updates: Updates, change: Array
    ) -> tuple[RoundRecord, ClientRecord | tuple[()]]:
        # Sums run over clients or in row order: the capacity must not show in them.
        trained = updates.steps > 0
        total = weighted_rows(trained.astype(updates.loss.dtype), jnp.where(trained, updates.loss, 0)[:, None])[0]
        loss = total / trained.sum()  # nan where nobody trained, or somebody diverged
        record = RoundRecord(available.sum(), decision.invited.sum(), decision.weight.sum(), loss, change)
        if not self.shape.record_clients:
            return record, ()
        took_part = scatter(cohort, trained, jnp.zeros_like(available))
        losses = scatter(cohort, updates.loss, jnp.zeros(len(available), updates.loss.dtype))
        return record, ClientRecord(decision.invited, took_part, decision.weight, losses)


def _in_chunks(f: Any, inputs: Any, chunk: int | None) -> Any:
    if chunk is None or chunk >= len(jax.tree.leaves(inputs)[0]):
        return jax.vmap(f)(*inputs)
    return jax.lax.map(lambda row: f(*row), inputs, batch_size=chunk)


def _replicate(one: Any, method: Method, seeds: Array, *by_seed: Any) -> Any:
    """`one` for all settings of the method's numbers [G] and all seeds [R]. A Carry in `by_seed` has both axes.

    A GPU takes all replicas at once (vmap). A CPU takes one after the other within the same program: a replica then
    stays in the cache, costs what it costs alone, and gives the same bits however many run beside it.
    """
    both = [isinstance(item, Carry) for item in by_seed]
    if jax.default_backend() != "cpu":
        inner = jax.vmap(one, in_axes=(None, 0, *(0 for _ in by_seed)))
        return jax.vmap(inner, in_axes=(0, None, *(0 if b else None for b in both)))(method, seeds, *by_seed)

    def setting(item: tuple[Method, list[Any]]) -> Any:
        settings, carries = item
        own = iter(carries)
        inputs = tuple(next(own) if b else item for b, item in zip(both, by_seed, strict=True))
        return jax.lax.map(lambda x: one(settings, *x), (seeds, *inputs))

    return jax.lax.map(setting, (method, [item for b, item in zip(both, by_seed, strict=True) if b]))
