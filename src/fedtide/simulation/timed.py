"""A replica with a clock: its server steps are steps of the scan, as rounds are without one."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedtide.availability.base import Process
from fedtide.clock import Clock
from fedtide.simulation import calls, events, flight
from fedtide.simulation.cohorts import gather, scatter
from fedtide.simulation.events import Events, Interval, Slot, Tasks
from fedtide.simulation.flight import Flight
from fedtide.simulation.rates import with_round_rate
from fedtide.simulation.replica import Carry, Replica, settle
from fedtide.solvers.base import Local, planned_steps
from fedtide.streams import Purpose, Stream
from fedtide.types import Cohort, Decision, Estimate, Memory, Observation, State, Updates


class Timeline(NamedTuple):
    """The part of a replica's state that concerns time."""

    slot: Slot
    tasks: Tasks
    estimate: Estimate
    weight: Array | tuple[()]  # [N] of the tasks, as the policy decided; () where it decides on arrivals
    flight: Flight | tuple[()]  # () where no work continues after a server step


class StepRecord(NamedTuple):
    """The time and the work of one server step of one replica."""

    slot: Array  # [] slots before the current one
    left: Array  # [] seconds until its end
    slots: Array  # [] slots since the last server step
    starts: Array  # [] tasks that have started since then
    arrived: Array  # [] updates that have arrived
    lost: Array  # [] tasks that were lost because their clients left
    late: Array  # [] tasks that were dropped at the server step
    age: Array  # [] mean age of the updates, in server steps
    worked: Array  # [] seconds of work of all clients since the last step
    wasted: Array  # [] seconds of work of the tasks that were lost or dropped


class ArrivalRecord(NamedTuple):
    """One server step of one replica, client by client."""

    available: Array  # [N] bool, when the interval began
    arrived: Array  # [N] bool
    age: Array  # [N] of its update, where it arrived


class Decided(NamedTuple):
    """The policy's decision in one interval, and the states after it."""

    observation: Observation
    decision: Decision
    participation: State
    estimator: State
    weight: Array | tuple[()]  # of `Timeline`


class TimedReplica(NamedTuple):
    """A replica whose rounds take time."""

    base: Replica
    clock: Clock
    process: Process

    def start(self, carry: Carry, history: int) -> Carry:
        """The state before the first server step."""
        barrier, clients = self.clock.barrier, len(self.base.population.sizes)
        unknown = jnp.full(clients, jnp.nan, carry.w.dtype)
        weight = jnp.zeros(clients, carry.w.dtype) if barrier.keeps and barrier.starts == "policy" else ()
        table = ()
        if barrier.keeps:
            rows = clients if barrier.places is None else min(barrier.places, clients)
            table = flight.empty(rows, clients, jax.eval_shape(self._one_row, carry))
        slot = events.before(self.process, self.base.seed, history)
        time = Timeline(slot, events.idle(clients), Estimate(unknown, unknown), weight, table)
        return carry._replace(time=time)

    def round(self, carry: Carry, inputs: tuple[Array, Any]) -> tuple[Carry, tuple[Any, Any, Array, Any]]:
        """events → training of those that count → aggregation → server."""
        t, _ = inputs
        base, time, barrier = self.base, carry.time, self.clock.barrier
        method, population, sends = base.method, base.population, base.method.solver.sends
        run = Events(self.clock, self.process, base.seed, t, self._seconds(carry, t), self._observe)
        now = run.open(time.slot, time.tasks, carry.estimator, time.estimate)
        available, play = now.slot.available, self._invite if barrier.starts == "policy" else self._fill
        now, arrivals, decided = play(run, now, carry)
        tasks, late, unused = now.tasks, jnp.int32(0), jnp.zeros_like(now.wasted)
        if not barrier.keeps:
            tasks, late, unused = events.stopped(tasks)

        age = jnp.maximum(t - tasks.start, 0)
        starts = (age == 0) & (tasks.running | arrivals.invited)
        trained = gather(Decision(starts, arrivals.weight), population.importance, base.shape.capacity)
        before = jax.tree.map(lambda a: a[trained.client], carry.solver.client)
        fresh, after = self._train(carry.w, t, trained, before, carry.solver.shared)
        if barrier.keeps:  # clients without state: nothing is read or written for those that have not arrived
            cohort = gather(arrivals, population.importance, base.shape.arrivals)
            cohort = cohort._replace(age=jnp.where(cohort.present, age[cohort.client], 0))
            updates = flight.land(time.flight, cohort, trained, fresh, carry.w, sends, len(population.sizes))
            before = after = ()
            table = flight.take_off(time.flight, tasks, t, trained, fresh, carry.w, sends)
        else:
            cohort, updates, table = trained._replace(age=jnp.zeros_like(trained.client)), fresh, ()
        updates = with_round_rate(updates, method, population, base.seed, t, carry.solver.shared)
        current = carry._replace(estimator=decided.estimator, participation=decided.participation)
        settled, rows = settle(method, current, t, cohort, updates, before, after)
        kept = jax.tree.map(lambda new, old: scatter(trained, new, old), rows, carry.solver.client)
        change = jnp.sqrt(((settled.w - carry.w) ** 2).sum())
        record = base._record(available, Decision(now.begun, arrivals.weight), cohort, updates, change)
        fault = calls.fault(decided.observation, decided.decision, base.shape.query_capacity, len(trained.client))
        times = self._record(now, available, cohort, age, late, unused)
        following = Timeline(now.slot, tasks, now.estimate, decided.weight, table)
        settled = settled._replace(solver=Memory(kept, settled.solver.shared), time=following)
        return settled, (*record, fault, times)

    def _invite(self, run: Events, now: Interval, carry: Carry) -> tuple[Interval, Decision, Decided]:
        """The policy decides which of the idle available clients start; (the interval's end, who counts, …)."""
        policy = self.base.method.participation
        free = now.slot.available & ~now.tasks.running
        observation = self.base._ask(carry, run.t, free, now.estimate)
        decision, participation = calls.decide(policy, carry.participation, observation)
        now = run.run(run.begin(now, decision.invited))
        arrivals, weight = self._count(decision, carry.time.weight, now.arrived)
        return now, arrivals, Decided(observation, decision, participation, now.estimator, weight)

    def _fill(self, run: Events, now: Interval, carry: Carry) -> tuple[Interval, Decision, Decided]:
        """Places are filled, and the policy decides which arrivals count: for it and for the estimator these are the
        available clients."""
        method, population = self.base.method, self.base.population
        now = run.run(run.fill(now))
        estimate, estimator = calls.update(method.estimator, carry.estimator, now.arrived)
        nothing, none = jnp.zeros_like(population.importance), jnp.zeros_like(now.arrived)
        stream = Stream(self.base.seed, Purpose.PARTICIPATION, run.t)
        observation = Observation(now.arrived, estimate, nothing, none, run.t, stream, population)
        decision, participation = calls.decide(method.participation, carry.participation, observation)
        return now, decision, Decided(observation, decision, participation, estimator, ())

    def message_sizes(self, carry: Carry) -> tuple[int, int]:
        """(bytes to a client, bytes from it): the model and what the solver shares; the update, its messages, and the
        client's row where the server's part of the solver uses it."""
        updates, solver = jax.eval_shape(self._one_row, carry), self.base.method.solver
        model = carry.w.size * carry.w.dtype.itemsize
        down = sum(a.size * a.dtype.itemsize for a in jax.tree.leaves(carry.solver.shared))
        sent = [updates.message, *([carry.solver.client] if type(solver).close is not Local.close else [])]
        up = sum(a.size // len(a) * a.dtype.itemsize for a in jax.tree.leaves(sent))
        return model + down, model + up

    def _seconds(self, carry: Carry, t: Array) -> Array:
        """The duration [N] of a task that starts from the model of round t, without jitter."""
        base = self.base
        solver, sizes = base.method.solver, base.population.sizes
        clients = jnp.arange(len(sizes))
        steps = solver.work.steps(Stream(base.seed, Purpose.WORK, t), clients, sizes)
        down, up = self.message_sizes(carry)
        seconds = self.clock.devices.seconds(planned_steps(solver, steps, carry.solver.shared), down, up)
        return jnp.broadcast_to(seconds, sizes.shape).astype(carry.w.dtype)

    def _observe(self, state: State, estimate: Estimate, available: Array) -> tuple[Estimate, State]:
        """Availability is observed slot by slot, where the policy decides among available clients."""
        if self.clock.barrier.starts == "places":
            return estimate, state
        return calls.update(self.base.method.estimator, state, available)

    def _count(self, decision: Decision, earlier: Any, arrived: Array) -> tuple[Decision, Any]:
        """The clients that arrived in place of those invited, and the weights of all tasks. Weights with sum 1 keep
        their sum."""
        weight = decision.weight
        if self.clock.barrier.keeps:
            weight = jnp.where(decision.invited, decision.weight, earlier)
        counted = jnp.where(arrived, weight, 0)
        if self.base.method.participation.weighing == "normalised":
            total, wanted = counted.sum(), decision.weight.sum()
            factor = jnp.where(wanted > 0, wanted, 1) / jnp.where(total > 0, total, 1)
            # Not even rounded where the invited are those that arrived.
            counted = jnp.where((arrived == decision.invited).all(), decision.weight, counted * factor)
        return Decision(arrived, counted), weight if self.clock.barrier.keeps else ()

    def _train(self, w: Array, t: Array, cohort: Cohort, before: Any, shared: Any) -> tuple[Updates, Any]:
        """Local training in pieces, as many as have clients: how many start is not known before the run."""
        base, capacity = self.base, len(cohort.client)
        train = functools.partial(base._train, w, t)
        sizes = base.population.sizes[cohort.client]
        steps = base.method.solver.work.steps(Stream(base.seed, Purpose.WORK, t), cohort.client, sizes)
        piece = -(-capacity // _PIECES)
        whole = jax.default_backend() != "cpu" and not self.clock.barrier.refills
        if piece == capacity or whole or not isinstance(steps, int):  # unequal work is sorted, and absent clients last
            return train(cohort, cohort, before, shared)
        padding = piece * _PIECES - capacity
        padded = jax.tree.map(lambda a: jnp.pad(a, [(0, padding), *[(0, 0)] * (a.ndim - 1)]), (cohort, before))

        def rows(first: Array) -> tuple[Cohort, Any]:
            return jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, first, piece), padded)

        def one(i: Array, done: tuple[Updates, Any]) -> tuple[Updates, Any]:
            some, rest = rows(i * piece)
            new = train(some, some, rest, shared)
            return jax.tree.map(lambda a, b: jax.lax.dynamic_update_slice_in_dim(a, b, i * piece, 0), done, new)

        some, rest = rows(jnp.int32(0))
        shapes = jax.eval_shape(train, some, some, rest, shared)
        nothing = jax.tree.map(lambda a: jnp.zeros((piece * _PIECES, *a.shape[1:]), a.dtype), shapes)
        done = jax.lax.fori_loop(0, -(-cohort.present.sum() // piece), one, nothing)
        return jax.tree.map(lambda a: a[:capacity], done)

    def _one_row(self, carry: Carry) -> Updates:
        """Updates of one client; traced for its shapes."""
        one = gather(Decision(jnp.ones(1, bool), jnp.ones(1)), jnp.ones(1), 1)
        before = jax.tree.map(lambda a: a[:1], carry.solver.client)
        return self.base._train(carry.w, jnp.int32(0), one, one, before, carry.solver.shared)[0]

    def _record(
        self, now: Interval, available: Array, cohort: Cohort, age: Array, late: Array, unused: Array
    ) -> tuple[StepRecord, ArrivalRecord | tuple[()]]:
        counts = cohort.present.sum()
        mean = jnp.where(cohort.present, jnp.asarray(cohort.age), 0).sum() / counts  # nan where no update has arrived
        step = StepRecord(
            now.slot.number, now.slot.left, now.slots, now.starts, now.arrived.sum(), now.lost, late, mean,
            now.worked, now.wasted + unused,
        )  # fmt: skip
        if not self.base.shape.record_clients:
            return step, ()
        return step, ArrivalRecord(available, now.arrived, jnp.where(now.arrived, age, 0))


_PIECES = 8
