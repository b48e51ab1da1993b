"""Gradients corrected by what each client's and everybody's gradients were."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from fedtide.solvers.base import Around, change_of_mean, check_sends_change, check_starts_fresh, choose
from fedtide.solvers.sgd import Sgd
from fedtide.types import Cohort, Memory, Population, Solver, Task, Trained, Updates, part


class ControlRow(NamedTuple):
    control: Array  # [d] c_k
    inner: Any


class ControlShared(NamedTuple):
    control: Array  # [d] c
    importance: Array  # [N]
    inner: Any


@part
class ControlVariate(Around):
    """The steps of `solver` with g − c_k + c for g. After them c_k⁺ = c_k − c + Δ_k / (η‖a_k‖₁): the mean of the
    gradients that the client took (option II of the paper; the mean weighted as the solver weighs them).

    c ← c + Σ_S α_k (c_k⁺ − c_k), so that c = Σ α_k c_k always; all start at 0. A client without steps keeps its c_k.
    The exact ‖a_k‖₁ makes it right with momentum, a proximal term and adaptive steps, too, where they start afresh
    each round (others are refused). The correction removes
    client drift, and where training comes to rest the bias of who takes part, too: c tracks everybody's gradient.

    Reference: Karimireddy et al., "SCAFFOLD: Stochastic controlled averaging for federated learning", ICML 2020.
    """

    solver: Solver = Sgd()

    def __post_init__(self):
        check_sends_change(self.solver)
        check_starts_fresh(self.solver)

    def init(self, population: Population, w: Array) -> Memory:
        inner = self.solver.init(population, w)
        rows = jnp.zeros((len(population.sizes), len(w)), w.dtype)
        shared = ControlShared(jnp.zeros_like(w), jnp.asarray(population.importance, w.dtype), inner.shared)
        return Memory(ControlRow(rows, inner.client), shared)

    def train(self, w: Array, task: Task, row: ControlRow, shared: ControlShared) -> Trained:
        trained = self.solver.train(w, corrected(task, shared.control - row.control), row.inner, shared.inner)
        mean = mean_gradient(w, trained, row.control, shared.control)
        return trained._replace(row=ControlRow(mean, trained.row))

    def first_rate(self, task: Task, shared: ControlShared) -> Array | float:
        return self.solver.first_rate(task, shared.inner)

    def close(
        self, shared: ControlShared, cohort: Cohort, updates: Updates, before: Any, after: Any, model: Array
    ) -> tuple[ControlShared, ControlRow]:
        inner, rows = self.solver.close(shared.inner, cohort, updates, before.inner, after.inner, model)
        change = change_of_mean(shared.importance, cohort, before.control, after.control)
        kept = choose(cohort.present, after.control, before.control)
        return ControlShared(shared.control + change, shared.importance, inner), ControlRow(kept, rows)


def corrected(task: Task, correction: Array) -> Task:
    """The task with the correction [d] added to every gradient."""

    def gradient(w: Array, step: Array | int) -> tuple[Array, Array]:
        loss, g = task.gradient(w, step)
        return loss, g + correction

    return task._replace(gradient=gradient)


def mean_gradient(w: Array, trained: Trained, own: Array, everyones: Array) -> Array:
    """The mean of a client's gradients, from what training with g − own + everyones changed; `own` without steps."""
    moved = trained.mass > 0
    return jnp.where(moved, own - everyones + (w - trained.w) / jnp.where(moved, trained.mass, 1), own)
