"""Stochastic gradient descent with heavy-ball momentum."""

from typing import Any, ClassVar

import jax.numpy as jnp
from jax import Array

from fedtide.declared import Descent
from fedtide.errors import flag, number
from fedtide.schedules import Constant, factors_of
from fedtide.solvers.base import Local, Recipe, check_steps, descend
from fedtide.types import Memory, Population, Schedule, Task, Trained, Work, derived, part
from fedtide.work import Steps


@part
class Momentum(Local):
    """m ← ρ m + g, w_k ← w_k − η m, τ_k times. ρ = 0 is `Sgd`. ‖a‖₁ = (τ − ρ (1 − ρ^τ) / (1 − ρ)) / (1 − ρ).

    The buffer m starts at 0 each round, or with `persistent` is kept for each client between rounds (N · d floats).
    ‖a‖₁ includes this round's gradients only.
    """

    rate: float = 0.1
    decay: float = 0.9
    persistent: bool = False
    work: Work = Steps()
    schedule: Schedule = Constant()

    def __post_init__(self):
        check_steps(self)
        number("solver.decay", self.decay, low=0, below=1)
        flag("solver.persistent", self.persistent)

    starts_fresh: ClassVar[bool] = derived(lambda self: not self.persistent)

    def init(self, population: Population, w: Array) -> Memory:
        return Memory(client=jnp.zeros((len(population.sizes), len(w)), w.dtype) if self.persistent else ())

    def recipe(self, row: Any, shared: Any) -> Recipe | None:
        return None if self.persistent else Recipe(decay=float(self.decay) or None)

    def in_theory(self) -> Descent:
        return Descent(factors=factors_of(self.schedule))

    def train(self, w: Array, task: Task, row: Any, shared: Any) -> Trained:
        def step(w: Array, g: Array, i: Array | int, extra: Any) -> tuple[Array, Any]:
            m, c, mass = extra
            rate = self.rate * self.schedule.factor(task, i)
            m, c = self.decay * m + g, self.decay * c + 1
            return w - rate * m, (m, c, mass + rate * c)

        zero = jnp.zeros((), w.dtype)
        start = (row if self.persistent else jnp.zeros_like(w), zero, zero)
        w_k, loss, (m, _, mass) = descend(w, task, step, start)
        row = m if self.persistent else row
        return Trained(w_k, loss, task.steps, mass, self.first_rate(task, shared), row)
