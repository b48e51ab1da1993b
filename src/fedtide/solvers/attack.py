"""What attackers have in common: they train, and send something else."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from fedtide.attackers import Attackers, attacker_mask, check_attackers
from fedtide.errors import number
from fedtide.solvers.base import SolverWrapper, check_sends_change, planned_steps
from fedtide.types import Cohort, Memory, Population, Task, Trained, Updates, check_whole


class AttackShared(NamedTuple):
    attacker: Array  # [N] bool: constant
    inner: Any


class Attack(SolverWrapper):
    """Defaults for an attack: its `attackers` train with `solver` and send a `forged` change; the others are honest.

    The loss and the mass that attackers report are those of their training, and the state that they keep is that of
    `solver`.
    """

    attackers: Attackers
    scale: float
    seed: int

    def __post_init__(self):
        check_sends_change(self.solver)
        object.__setattr__(self, "attackers", check_attackers("solver.attackers", self.attackers))
        number("solver.scale", self.scale, low=0)
        check_whole(self, "solver", seed=0)

    def forged(self, change: Array, task: Task) -> Array:
        """The change [d] that an attacker sends in place of its own."""
        raise NotImplementedError

    def init(self, population: Population, w: Array) -> Memory:
        inner = self.solver.init(population, w)
        mask = attacker_mask("solver.attackers", self.attackers, len(population.importance), self.seed)
        return Memory(inner.client, AttackShared(jnp.asarray(mask), inner.shared))

    def train(self, w: Array, task: Task, row: Any, shared: AttackShared) -> Trained:
        trained = self.solver.train(w, task, row, shared.inner)
        attacks = shared.attacker[0 if task.client is None else task.client] & (jnp.asarray(trained.steps) > 0)
        return trained._replace(w=jnp.where(attacks, w - self.forged(w - trained.w, task), trained.w))

    def first_rate(self, task: Task, shared: AttackShared) -> Array | float:
        return self.solver.first_rate(task, shared.inner)

    def planned(self, steps: Array | int, shared: AttackShared) -> Array | int:
        return planned_steps(self.solver, steps, shared.inner)

    def close(
        self, shared: AttackShared, cohort: Cohort, updates: Updates, before: Any, after: Any, model: Array
    ) -> tuple[AttackShared, Any]:
        inner, rows = self.solver.close(shared.inner, cohort, updates, before, after, model)
        return AttackShared(shared.attacker, inner), rows
