"""What solvers have in common: the loop over local steps, and remembering nothing."""

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import Array

from fedtide.errors import FedtideError, check_kind, number, require
from fedtide.rows import weighted_rows
from fedtide.types import Cohort, Memory, Population, Solver, Task, Updates, Work


class Local:
    """A solver that trains from the received model, sends the change and remembers nothing."""

    @property
    def sends(self) -> Literal["change", "model", "difference"]:
        return "change"

    @property
    def starts_fresh(self) -> bool:
        return True

    @property
    def trains_absent(self) -> bool:
        return False

    def init(self, population: Population, w: Array) -> Memory:
        return Memory()

    def first_rate(self, task: Task, shared: Any) -> Array | float:
        rate, schedule = getattr(self, "rate", None), getattr(self, "schedule", None)
        if rate is None:
            name = type(self).__name__
            raise FedtideError(f"{name}.first_rate: missing; must be the learning rate of a client's first step")
        return rate if schedule is None else rate * schedule.factor(task, 0)

    def close(
        self, shared: Any, cohort: Cohort, updates: Updates, before: Any, after: Any, model: Array
    ) -> tuple[Any, Any]:
        return shared, after


class Around(Local):
    """A solver around another one, which takes the steps."""

    solver: Solver

    @property
    def work(self) -> Work:
        return self.solver.work

    @property
    def starts_fresh(self) -> bool:
        return self.solver.starts_fresh

    @property
    def trains_absent(self) -> bool:
        return self.solver.trains_absent

    def first_rate(self, task: Task, shared: Any) -> Array | float:
        return self.solver.first_rate(task, shared)


def check_steps(solver: Solver) -> None:
    """Checks the fields of every solver that takes steps itself: its rate, its work and its schedule."""
    own: Any = solver
    number("solver.rate", own.rate, low=0)
    check_kind("solver.work", own.work, "work")
    check_kind("solver.schedule", own.schedule, "schedule")


def check_sends_change(solver: Solver) -> None:
    """Refuses an inner solver that sends anything but what training changed in the received model."""
    check_kind("solver.solver", solver, "solver")
    require(solver.sends == "change", "solver.solver", type(solver).__name__, "one that sends its change, as Sgd does")


def check_starts_fresh(solver: Solver) -> None:
    """Refuses an inner solver whose change holds more than this round's gradients: their mean cannot be told."""
    wanted = "one that starts every round afresh: what it keeps of earlier rounds would pass for this round's gradients"
    require(solver.starts_fresh, "solver.solver", type(solver).__name__, wanted)


Step = Callable[[Any, Any, Array | int, Any], tuple[Any, Any]]


def descend(w: Any, task: Task, step: Step, extra: Any) -> tuple[Any, Array, Any]:
    """Runs `step(w, gradient, i, extra) -> (w, extra)` for i = 0 … τ_k − 1: (w_k, mean minibatch loss, extra)."""

    def body(i: Array | int, carry: tuple[Any, Array, Any]) -> tuple[Any, Array, Any]:
        w, total, extra = carry
        loss, gradient = task.gradient(w, i)
        w, extra = step(w, gradient, i, extra)
        return w, total + loss, extra

    start = (w, jnp.zeros((), jax.tree.leaves(w)[0].dtype), extra)
    w_k, total, extra = jax.lax.fori_loop(0, task.steps, body, start, unroll=task.unroll or None)
    return w_k, total / jnp.maximum(task.steps, 1), extra


def choose(condition: Array, yes: Any, no: Any) -> Any:
    """`yes` [C, …] in the rows where the condition [C] (or []) holds, `no` in the others; trees alike."""

    def pick(yes: Array, no: Array) -> Array:
        shape = condition.shape + (1,) * (jnp.ndim(yes) - condition.ndim)
        return jnp.where(condition.reshape(shape), yes, no)

    return jax.tree.map(pick, yes, no)


def change_of_mean(importance: Array, cohort: Cohort, before: Array, after: Array) -> Array:
    """By how much Σ_k α_k c_k changes when the cohort's rows c_k go from `before` [C, d] to `after` [C, d]."""
    change = choose(cohort.present, after - before, jnp.zeros_like(before))
    return weighted_rows(jnp.where(cohort.present, importance[cohort.client], 0), change)


def mean_of_rows(cohort: Cohort, rows: Any, otherwise: Any) -> Any:
    """Σ_S q_k rows_k / Σ_S q, and `otherwise` where nobody has weight; trees of [C, …] and […]."""
    total = weighted_rows(jnp.ones_like(cohort.weight), cohort.weight[:, None])[0]
    share = cohort.weight / jnp.where(total > 0, total, 1)

    def mean(rows: Array, otherwise: Array) -> Array:
        flat = weighted_rows(share, rows.reshape(len(rows), -1)).reshape(otherwise.shape)
        return jnp.where(total > 0, flat, otherwise)

    return jax.tree.map(mean, rows, otherwise)
