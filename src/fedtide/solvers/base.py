"""Shared code of solvers: the loop over local steps, and defaults for solvers without state."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedtide.declared import Descent
from fedtide.errors import FedtideError, check_kind, number, require
from fedtide.rows import weighted_rows
from fedtide.types import Cohort, Memory, Population, Sends, Solver, Task, Updates, Work, derived


class Recipe(NamedTuple):
    """What a loop over plain gradient steps must add to take a solver's steps; None: nothing of that kind."""

    decay: float | None = None  # ρ of a momentum buffer that starts at 0
    pull: float | None = None  # μ of a term towards the received model, added after momentum
    correction: Any = None  # [d] added to every gradient
    steps: Any = None  # [] the number of steps that the method requires
    # (state, loss, η's schedule) -> (factor of this step's gradient, state); the first state is None
    factor: Callable[[Any, float, float], tuple[Any, Any]] | None = None


class Local:
    """Defaults for a solver that trains from the received model, sends the change and has no state."""

    sends: ClassVar[Sends] = "change"
    starts_fresh: ClassVar[bool] = True
    trains_absent: ClassVar[bool] = False

    def in_theory(self) -> Descent:
        return Descent(unfollowed=f"Its clients do more than gradient descent ({type(self).__name__})")

    def init(self, population: Population, w: Array) -> Memory:
        return Memory()

    def first_rate(self, task: Task, shared: Any) -> Array | float:
        rate, schedule = getattr(self, "rate", None), getattr(self, "schedule", None)
        if rate is None:
            name = type(self).__name__
            raise FedtideError(f"{name}.first_rate: missing; must be the learning rate of a client's first step")
        return rate if schedule is None else rate * schedule.factor(task._replace(client=None), 0)

    def recipe(self, row: Any, shared: Any) -> Recipe | None:
        """These steps for a client's own training loop in a deployment; None where such a loop cannot take them."""
        return None

    def planned(self, steps: Array | int, shared: Any) -> Array | int:
        """The steps that clients take when their work asks for `steps`, known before they train."""
        return steps

    def close(
        self, shared: Any, cohort: Cohort, updates: Updates, before: Any, after: Any, model: Array
    ) -> tuple[Any, Any]:
        return shared, after


class SolverWrapper(Local):
    """Defaults for a wrapper: a solver around another one, which takes the steps."""

    solver: Solver

    starts_fresh: ClassVar[bool] = derived(lambda self: self.solver.starts_fresh)
    trains_absent: ClassVar[bool] = derived(lambda self: self.solver.trains_absent)

    @property
    def work(self) -> Work:
        return self.solver.work

    def first_rate(self, task: Task, shared: Any) -> Array | float:
        return self.solver.first_rate(task, shared)

    def planned(self, steps: Array | int, shared: Any) -> Array | int:
        return planned_steps(self.solver, steps, shared)


def planned_steps(solver: Solver, steps: Array | int, shared: Any) -> Array | int:
    """The solver's planned steps; those asked for, if it does not say."""
    return solver.planned(steps, shared) if isinstance(solver, Local) else steps


def recipe_of(solver: Solver, row: Any, shared: Any) -> Recipe | None:
    """The solver's recipe; None for a solver without one."""
    return solver.recipe(row, shared) if isinstance(solver, Local) else None


def check_steps(solver: Solver) -> None:
    """Checks the fields of every solver that takes steps itself: its rate, its work and its schedule."""
    fields: Any = solver
    number("solver.rate", fields.rate, low=0)
    check_kind("solver.work", fields.work, "work")
    check_kind("solver.schedule", fields.schedule, "schedule")


def check_sends_change(solver: Solver) -> None:
    """Refuses an inner solver that sends anything but the change made by training."""
    check_kind("solver.solver", solver, "solver")
    wanted = "one that sends the change made by training, such as Sgd"
    require(solver.sends == "change", "solver.solver", type(solver).__name__, wanted)


def check_starts_fresh(solver: Solver) -> None:
    """Refuses an inner solver whose change contains gradients of earlier rounds: this round's mean is then unknown."""
    wanted = "one without gradients of earlier rounds in its change: they would count as this round's"
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


def change_of_mean(cohort: Cohort, before: Array, after: Array) -> Array:
    """The change of Σ_k α_k c_k when the cohort's rows c_k change from `before` [C, d] to `after` [C, d]."""
    change = choose(cohort.present, after - before, jnp.zeros_like(before))
    return weighted_rows(jnp.where(cohort.present, cohort.importance, 0), change)


def mean_of_rows(cohort: Cohort, rows: Any, otherwise: Any) -> Any:
    """Σ_S q_k rows_k / Σ_S q, or `otherwise` where no client has weight; trees of [C, …] and […]."""
    total = weighted_rows(jnp.ones_like(cohort.weight), cohort.weight[:, None])[0]
    share = cohort.weight / jnp.where(total > 0, total, 1)

    def mean(rows: Array, otherwise: Array) -> Array:
        flat = weighted_rows(share, rows.reshape(len(rows), -1)).reshape(otherwise.shape)
        return jnp.where(total > 0, flat, otherwise)

    return jax.tree.map(mean, rows, otherwise)
