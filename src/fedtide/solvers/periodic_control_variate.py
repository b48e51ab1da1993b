"""Gradients corrected by the mean gradients of the last period."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from fedtide.solvers.base import (
    SolverWrapper,
    change_of_mean,
    check_sends_change,
    check_starts_fresh,
    choose,
    planned_steps,
)
from fedtide.solvers.control_variate import corrected, mean_gradient
from fedtide.solvers.sgd import Sgd
from fedtide.types import Cohort, Memory, Population, Solver, Task, Trained, Updates, check_whole, part


class PeriodRow(NamedTuple):
    control: Array  # [d] c_k during the row's period
    mean: Array  # [d] mean of the client's gradients in that period; c_k before the first
    steps: Array  # [] number of these gradients
    period: Array  # [] the period in which the client last took part


class PeriodShared(NamedTuple):
    control: Array  # [d] c during the period
    pending: Array  # [d] the change of c at the end of the period
    period: Array  # []


class WithInner(NamedTuple):
    own: Any
    inner: Any


@part
class PeriodicControlVariate(SolverWrapper):
    """The steps of `solver` with g − c_k + c in place of g, where c_k and c change only every `period` rounds.

    c_k is the mean of all gradients of client k in the last period in which it took part (0 before), and c = Σ α_k c_k.
    Periods are rounds 0 … P − 1, P … 2P − 1 and so on, empty rounds included. A round's mean gradient is computed as in
    `ControlVariate`, and rounds are weighted by their steps. P = 1 is `ControlVariate`.

    Nothing is computed for all clients at a period's end: a client replaces its c_k by its mean when it next takes
    part, and the server accumulates the change of Σ α_k c_k. So a round costs O(cohort · d).

    Reference: Crawshaw and Liu, "Federated learning under periodic client participation and heterogeneous data",
    NeurIPS 2024 (Amplified SCAFFOLD).
    """

    solver: Solver = Sgd()
    period: int = 10

    def __post_init__(self):
        check_sends_change(self.solver)
        check_starts_fresh(self.solver)
        check_whole(self, "solver", period=1)

    def init(self, population: Population, w: Array) -> Memory:
        inner, clients = self.solver.init(population, w), len(population.sizes)
        rows, zero = jnp.zeros((clients, len(w)), w.dtype), jnp.zeros(clients, jnp.int32)
        shared = PeriodShared(jnp.zeros_like(w), jnp.zeros_like(w), jnp.int32(0))
        own = PeriodRow(rows, rows, zero, zero)
        return Memory(WithInner(own, inner.client), WithInner(shared, inner.shared))

    def train(self, w: Array, task: Task, row: WithInner, shared: WithInner) -> Trained:
        period = jnp.asarray(task.round // self.period, jnp.int32)
        own, common = _in_period(row.own, period), _control_in(shared.own, period)
        trained = self.solver.train(w, corrected(task, common - own.control), row.inner, shared.inner)
        round_mean, steps = mean_gradient(w, trained, own.control, common), own.steps + trained.steps
        mean = own.mean + (round_mean - own.mean) * (trained.steps / jnp.maximum(steps, 1)).astype(w.dtype)
        new = PeriodRow(own.control, mean, steps, period)
        kept = choose(jnp.asarray(trained.steps) > 0, new, row.own)
        return trained._replace(row=WithInner(kept, trained.row), message=WithInner(period, trained.message))

    def first_rate(self, task: Task, shared: WithInner) -> Array | float:
        return self.solver.first_rate(task, shared.inner)

    def planned(self, steps: Array | int, shared: WithInner) -> Array | int:
        return planned_steps(self.solver, steps, shared.inner)

    def close(
        self, shared: WithInner, cohort: Cohort, updates: Updates, before: Any, after: Any, model: Array
    ) -> tuple[WithInner, WithInner]:
        inside = updates._replace(message=updates.message.inner)
        inner, rows = self.solver.close(shared.inner, cohort, inside, before.inner, after.inner, model)
        old = shared.own
        period = jnp.maximum(old.period, updates.message.own.max())  # no message, no change
        control = _control_in(old, period)
        pending = jnp.where(period > old.period, 0, old.pending)
        # A client's contribution before this round: its c_k of this period, or its mean so far in it.
        pending += change_of_mean(cohort, before.own.mean, after.own.mean)
        kept = choose(cohort.present, after.own, before.own)
        return WithInner(PeriodShared(control, pending, period), inner), WithInner(kept, rows)


def _in_period(row: PeriodRow, period: Array) -> PeriodRow:
    """The row at the beginning of a round of this period: the mean of an earlier period becomes c_k."""
    later = period > row.period
    return PeriodRow(choose(later, row.mean, row.control), row.mean, choose(later, 0, row.steps), row.period)


def _control_in(shared: PeriodShared, period: Array) -> Array:
    return jnp.where(period > shared.period, shared.control + shared.pending, shared.control)
