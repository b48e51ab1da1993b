"""Gradients corrected by control variates."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from fedtide.declared import Descent
from fedtide.solvers.base import (
    Recipe,
    SolverWrapper,
    change_of_mean,
    check_sends_change,
    check_starts_fresh,
    choose,
    planned_steps,
    recipe_of,
)
from fedtide.solvers.sgd import Sgd
from fedtide.types import Cohort, Memory, Population, Solver, Task, Trained, Updates, part


class ControlRow(NamedTuple):
    control: Array  # [d] c_k
    inner: Any


class ControlShared(NamedTuple):
    control: Array  # [d] c
    inner: Any


@part
class ControlVariate(SolverWrapper):
    """The steps of `solver` with g − c_k + c in place of g. After them c_k⁺ = c_k − c + Δ_k / (η‖a_k‖₁): the mean of
    the client's gradients in this round (option II of the paper; weighted as the solver weights them).

    c ← c + Σ_S α_k (c_k⁺ − c_k), so that c = Σ α_k c_k always; all start at 0. A client without steps keeps its c_k.
    The exact ‖a_k‖₁ makes it correct with momentum, a proximal term and adaptive steps, too, where they restart in each
    round (others are refused). The correction removes client drift and, at a fixed point, the bias of unequal
    participation: c tracks the mean gradient of all clients.

    Reference: Karimireddy et al., "SCAFFOLD: Stochastic controlled averaging for federated learning", ICML 2020.
    """

    solver: Solver = Sgd()

    def __post_init__(self):
        check_sends_change(self.solver)
        check_starts_fresh(self.solver)

    def in_theory(self) -> Descent:
        inner = self.solver.in_theory()
        return super().in_theory() if inner.corrected else Descent(corrected=True, unfollowed=inner.unfollowed)

    def init(self, population: Population, w: Array) -> Memory:
        inner = self.solver.init(population, w)
        rows = jnp.zeros((len(population.sizes), len(w)), w.dtype)
        return Memory(ControlRow(rows, inner.client), ControlShared(jnp.zeros_like(w), inner.shared))

    def recipe(self, row: ControlRow, shared: ControlShared) -> Recipe | None:
        inner = recipe_of(self.solver, row.inner, shared.inner)
        if inner is None or inner.factor is not None:  # the factor would have to apply to the correction, too
            return None
        return inner._replace(correction=shared.control - row.control)

    def train(self, w: Array, task: Task, row: ControlRow, shared: ControlShared) -> Trained:
        trained = self.solver.train(w, corrected(task, shared.control - row.control), row.inner, shared.inner)
        mean = mean_gradient(w, trained, row.control, shared.control)
        return trained._replace(row=ControlRow(mean, trained.row))

    def first_rate(self, task: Task, shared: ControlShared) -> Array | float:
        return self.solver.first_rate(task, shared.inner)

    def planned(self, steps: Array | int, shared: ControlShared) -> Array | int:
        return planned_steps(self.solver, steps, shared.inner)

    def close(
        self, shared: ControlShared, cohort: Cohort, updates: Updates, before: Any, after: Any, model: Array
    ) -> tuple[ControlShared, ControlRow]:
        inner, rows = self.solver.close(shared.inner, cohort, updates, before.inner, after.inner, model)
        change = change_of_mean(cohort, before.control, after.control)
        kept = choose(cohort.present, after.control, before.control)
        return ControlShared(shared.control + change, inner), ControlRow(kept, rows)


def corrected(task: Task, correction: Array) -> Task:
    """The task with the correction [d] added to every gradient."""

    def gradient(w: Array, step: Array | int) -> tuple[Array, Array]:
        loss, g = task.gradient(w, step)
        return loss, g + correction

    return task._replace(gradient=gradient)


def mean_gradient(w: Array, trained: Trained, own: Array, common: Array) -> Array:
    """The mean of a client's gradients, from the change by training with g − own + common; `own` without steps."""
    moved = trained.mass > 0
    return jnp.where(moved, own - common + (w - trained.w) / jnp.where(moved, trained.mass, 1), own)
