"""The events between two server steps: clients start, finish, leave and return, and slots of availability begin.

None of this depends on the result of training, only on how long it takes. So the events of a step come first, and the
clients whose work counts train afterwards, as one batch from the model with which they started.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedtide.availability.base import Process, advance, begin
from fedtide.clock import Clock
from fedtide.participation.choice import largest
from fedtide.streams import Purpose, Stream
from fedtide.types import Estimate, State

MOST_SLOTS = 100_000
"""Slots after which a server step for which no client arrives is given up: it would hardly ever end."""


class Slot(NamedTuple):
    """The current slot of availability. Times count down, so that they stay exact however long a run is."""

    number: Array  # [] −1 before the first
    left: Array  # [] seconds until its end
    process: State
    available: Array  # [N] bool


class Tasks(NamedTuple):
    """Each client's task: there is at most one at a time."""

    left: Array  # [N] seconds of work to its end; infinite without a task
    spent: Array  # [N] seconds of work so far
    start: Array  # [N] server steps before it started; −1 before a client's first task

    @property
    def running(self) -> Array:
        """[N] bool."""
        return self.left < jnp.inf


class Draws(NamedTuple):
    """The random numbers of tasks that start in this slot from this model."""

    duration: Array  # [N]
    order: Array  # [N] the largest starts first


class Interval(NamedTuple):
    """The time from one server step to the next, up to now."""

    slot: Slot
    tasks: Tasks
    estimator: State
    estimate: Estimate
    draws: Draws
    arrived: Array  # [N] bool: its update waits for the server step
    begun: Array  # [N] bool: has started a task
    least: Array  # [] seconds that remain at least
    most: Array  # [] and at most
    slots: Array  # [] slots that have begun
    starts: Array  # [] tasks that have started
    lost: Array  # [] tasks that were lost
    wasted: Array  # [] seconds of work in them
    worked: Array  # [] seconds of work of all clients


def idle(clients: int) -> Tasks:
    """No client has a task."""
    nothing = jnp.zeros(clients, jnp.result_type(float))
    return Tasks(nothing + jnp.inf, nothing, jnp.full(clients, -1, jnp.int32))


class Events(NamedTuple):
    """The events before server step t + 1."""

    clock: Clock
    process: Process
    seed: Array
    t: Array
    duration: Array  # [N] of a task without jitter
    observe: Callable[[State, Estimate, Array], tuple[Estimate, State]]  # a new slot's availability

    def open(self, slot: Slot, tasks: Tasks, estimator: State, estimate: Estimate) -> Interval:
        """The interval's beginning. A slot that has ended is followed by the next one first."""
        barrier, clients = self.clock.barrier, len(slot.available)
        nobody, zero, none = jnp.zeros(clients, bool), jnp.zeros((), slot.left.dtype), jnp.int32(0)
        least = zero + barrier.least
        most = zero + (jnp.inf if barrier.most is None else barrier.most)
        interval = Interval(
            slot, tasks, estimator, estimate, self._draws(slot.number), nobody, nobody, least, most,
            none, none, none, zero, zero,
        )  # fmt: skip
        return jax.lax.cond(slot.left <= 0, self._next_slot, lambda same: same, interval)

    def begin(self, now: Interval, clients: Array) -> Interval:
        """These idle clients [N] start."""
        left = jnp.where(clients, now.draws.duration, now.tasks.left)
        start = jnp.where(clients, jnp.asarray(self.t, jnp.int32), now.tasks.start)
        tasks = Tasks(left, jnp.where(clients, 0, now.tasks.spent), start)
        return now._replace(tasks=tasks, begun=now.begun | clients, starts=now.starts + clients.sum(dtype=jnp.int32))

    def fill(self, now: Interval) -> Interval:
        """Free places are taken by available clients, in random order."""
        ready, places = self._ready(now), self.clock.barrier.places
        if places is None:
            return self.begin(now, ready)
        return self.begin(now, largest(now.draws.order, ready, places, places - now.tasks.running.sum()))

    def run(self, now: Interval) -> Interval:
        """The interval's end."""
        if not self.clock.barrier.refills:  # a round in which nobody works lasts until the next slot
            least = jnp.where(now.tasks.running.any(), now.least, jnp.maximum(now.least, now.slot.left))
            now = now._replace(least=jnp.minimum(least, now.most))
        return jax.lax.while_loop(lambda n: ~self._ended(n), self._next, now)

    def _ended(self, now: Interval) -> Array:
        barrier = self.clock.barrier
        enough = jnp.asarray(False)
        if barrier.target is not None:
            enough = now.arrived.sum() >= barrier.target
        if not barrier.refills:
            enough = enough | ~now.tasks.running.any()
        over = (now.most <= 0) | (now.slots >= MOST_SLOTS)
        return over | ((now.least <= 0) & enough)

    def _next(self, now: Interval) -> Interval:
        """The next slot begins; or a client starts, where one can, and time passes until something happens."""
        return jax.lax.cond(now.slot.left <= 0, self._next_slot, self._within_slot, now)

    def _within_slot(self, now: Interval) -> Interval:
        barrier = self.clock.barrier
        if not barrier.refills:
            return self._pass(now)
        if barrier.places is None:
            return self._pass(self.fill(now))
        ready, free = self._ready(now), barrier.places - now.tasks.running.sum()
        first = jnp.arange(len(ready)) == jnp.argmax(jnp.where(ready, now.draws.order, -1))
        now = self.begin(now, first & ready & (free > 0))
        more = (free > 1) & (ready.sum() > 1)  # clients that start at the same time, one after the other
        return jax.lax.cond(more, lambda same: same, self._pass, now)

    def _ready(self, now: Interval) -> Array:
        """Clients that can start: whose update waits for the server's step, starts after it."""
        return now.slot.available & ~now.tasks.running & ~now.arrived

    def _pass(self, now: Interval) -> Interval:
        """Time passes until the next event. Clients that finish at the same time arrive in the order of clients."""
        barrier, leaving, tasks, slot = self.clock.barrier, self.clock.leaving, now.tasks, now.slot
        length = self.clock.slot + barrier.least + (0 if barrier.most is None else barrier.most)
        working = delivers = tasks.running
        if leaving == "paused":
            working = delivers = tasks.running & now.slot.available
        if leaving == "finished offline":
            delivers = tasks.running & now.slot.available
            working = tasks.running & ((tasks.left > 0) | now.slot.available)
        left = jnp.where(working, tasks.left, jnp.inf)
        if barrier.target is not None or (barrier.refills and barrier.places is not None):
            event = left.min()  # each arrival may end the interval or free a place
        elif barrier.refills:
            event = jnp.asarray(jnp.inf, left.dtype)  # arrivals change nothing before the server's step
        else:
            latest = jnp.where(working, tasks.left, -1).max()
            event = jnp.where(working.any(), latest, jnp.inf)
        soonest = jnp.minimum(jnp.minimum(event, now.slot.left), now.most)
        time = jnp.minimum(soonest, jnp.where(now.least > 0, now.least, jnp.inf))
        spent = jnp.where(working, jnp.minimum(time, tasks.left), 0)
        left = jnp.where(working, _later(tasks.left, time, tasks.left + tasks.spent), tasks.left)
        done = delivers & (left <= 0)
        if barrier.target is not None:  # later ones remain at 0 seconds and arrive in the next interval
            done = done & (jnp.cumsum(done) <= barrier.target - now.arrived.sum())
        return now._replace(
            slot=slot._replace(left=_later(slot.left, time, length)),
            tasks=Tasks(jnp.where(done, jnp.inf, left), tasks.spent + spent, tasks.start),
            arrived=now.arrived | done,
            least=_later(now.least, time, length),
            most=_later(now.most, time, length),
            worked=now.worked + spent.sum(),
        )

    def _next_slot(self, now: Interval) -> Interval:
        number = now.slot.number + 1
        available, process = self.process.step(now.slot.process, Stream(self.seed, Purpose.AVAILABILITY, number))
        estimate, estimator = self.observe(now.estimator, now.estimate, available)
        length = jnp.asarray(self.clock.slot, now.slot.left.dtype)
        later = now._replace(
            slot=Slot(number, length, process, available),
            estimator=estimator,
            estimate=estimate,
            draws=self._draws(number),
            slots=now.slots + 1,
        )
        if self.clock.leaving != "lost":
            return later
        lost = now.tasks.running & ~available & (now.tasks.left > 0)
        return later._replace(
            tasks=now.tasks._replace(left=jnp.where(lost, jnp.inf, now.tasks.left)),
            lost=now.lost + lost.sum(dtype=jnp.int32),
            wasted=now.wasted + jnp.where(lost, now.tasks.spent, 0).sum(),
        )

    def _draws(self, slot: Array) -> Draws:
        """By model and slot: a client that lost its work and starts again from the same model is in a later slot."""
        clients = jnp.arange(len(self.duration))
        stream = Stream(self.seed, Purpose.TIME, self.t)
        uniform = stream.uniform(clients, 2, start=4 * jnp.asarray(slot, jnp.uint32))
        return Draws(self.duration * self.clock.devices.jitter.factor(uniform[:, 0]), uniform[:, 1])


def _later(left: Array, time: Array, length: Array | float) -> Array:
    """What is left, after some time, of seconds that count down from at most `length`. What differs from 0 only by
    rounding is 0: otherwise a deadline of two slots could end just before the second one does, and the next round begin
    in that one."""
    left = left - time
    return jnp.where(left > 16 * jnp.finfo(left.dtype).eps * length, left, 0)


def stopped(tasks: Tasks) -> tuple[Tasks, Array, Array]:
    """(no tasks, how many were running, seconds of work in them): work that is dropped at a server step."""
    running = tasks.running
    left = jnp.full_like(tasks.left, jnp.inf)
    return tasks._replace(left=left), running.sum(dtype=jnp.int32), jnp.where(running, tasks.spent, 0).sum()


def before(process: Process, seed: Array, history: int) -> Slot:
    """The time before the first slot, after `history` ones in which nobody trained."""
    _, state = advance(process, begin(process, seed), seed, 0, history)
    return Slot(jnp.int32(history - 1), jnp.zeros((), jnp.result_type(float)), state, jnp.zeros(process.clients, bool))
