"""Fewer local steps as the loss decreases."""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedtide.errors import check_kind, number
from fedtide.solvers.base import Recipe, SolverWrapper, mean_of_rows, planned_steps, recipe_of
from fedtide.solvers.sgd import Sgd
from fedtide.types import Cohort, Memory, Population, Sends, Solver, Task, Trained, Updates, check_whole, derived, part


class StepsShared(NamedTuple):
    steps: Array  # [] τ
    most: Array  # [] τ_0
    first: Array  # [] F_0, the loss of the first round
    rounds: Array  # [] rounds in which a client trained
    inner: Any


@part
class AdaptiveSteps(SolverWrapper):
    """At most τ local steps of `solver`; after every `every` rounds τ ← ⌈√(F / F_0) τ_0⌉, or ⌈`shrink` τ⌉ where that
    would not be less than τ. So τ never increases, and reaches 1.

    τ_0 is the largest number of steps of a client. F is the cohort's mean local loss Σ q_k F_k / Σ q in the round that
    ends the interval, an estimate of the global loss, and F_0 that of the first round. Rounds in which no client trains
    are not counted. A schedule that counts steps or epochs counts them at the current τ.

    Reference: Wang and Joshi, "Adaptive communication strategies to achieve the best error-runtime trade-off in
    local-update SGD", SysML 2019 (AdaComm). Its intervals are wall-clock time; its correction for a decreasing
    learning rate is left out.
    """

    solver: Solver = Sgd()
    every: int = 10
    shrink: float = 0.5

    def __post_init__(self):
        check_kind("solver.solver", self.solver, "solver")
        check_whole(self, "solver", every=1)
        number("solver.shrink", self.shrink, above=0, high=1)

    sends: ClassVar[Sends] = derived(lambda self: self.solver.sends)

    def init(self, population: Population, w: Array) -> Memory:
        inner = self.solver.init(population, w)
        most = jnp.asarray(self.work.most(jnp.asarray(population.sizes)), jnp.int32)
        shared = StepsShared(most, most, jnp.zeros((), w.dtype), jnp.int32(0), inner.shared)
        return Memory(inner.client, shared)

    def recipe(self, row: Any, shared: StepsShared) -> Recipe | None:
        inner = recipe_of(self.solver, row, shared.inner)
        return inner and inner._replace(steps=shared.steps)

    def train(self, w: Array, task: Task, row: Any, shared: StepsShared) -> Trained:
        return self.solver.train(w, _at_most(task, shared), row, shared.inner)

    def first_rate(self, task: Task, shared: StepsShared) -> Array | float:
        return self.solver.first_rate(_at_most(task, shared), shared.inner)

    def planned(self, steps: Array | int, shared: StepsShared) -> Array:
        return jnp.minimum(planned_steps(self.solver, steps, shared.inner), shared.steps)

    def close(
        self, shared: StepsShared, cohort: Cohort, updates: Updates, before: Any, after: Any, model: Array
    ) -> tuple[StepsShared, Any]:
        inner, rows = self.solver.close(shared.inner, cohort, updates, before, after, model)
        trained = cohort.present & (updates.steps > 0)
        loss = mean_of_rows(cohort._replace(weight=jnp.where(trained, cohort.weight, 0)), updates.loss, shared.first)
        first = jnp.where(shared.rounds == 0, loss, shared.first)
        rounds = shared.rounds + 1
        wanted = jnp.ceil(jnp.sqrt(loss / first) * shared.most)
        # A ratio without meaning (of a loss of 0 or less) is harmless: τ only decreases.
        steps = jnp.where(wanted < shared.steps, wanted, jnp.ceil(self.shrink * shared.steps))
        steps = jnp.where(rounds % self.every == 0, jnp.maximum(steps, 1).astype(jnp.int32), shared.steps)
        new = StepsShared(steps, shared.most, first, rounds, inner)
        return jax.tree.map(lambda a, b: jnp.where(trained.any(), a, b), new, shared._replace(inner=inner)), rows


def _at_most(task: Task, shared: StepsShared) -> Task:
    steps = jnp.minimum(task.steps, jnp.asarray(shared.steps, jnp.int32))
    return task._replace(steps=steps, unroll=False)
