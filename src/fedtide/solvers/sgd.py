"""Plain stochastic gradient descent."""

from typing import Any

import jax.numpy as jnp
from jax import Array

from fedtide.declared import Descent
from fedtide.schedules import Constant, factors_of
from fedtide.solvers.base import Local, Recipe, check_steps, descend
from fedtide.types import Schedule, Task, Trained, Work, part
from fedtide.work import Steps


@part
class Sgd(Local):
    """w_k ← w_k − η g, τ_k times, where g is the gradient of a minibatch. ‖a‖₁ = τ_k.

    Reference: McMahan et al., "Communication-efficient learning of deep networks", AISTATS 2017.
    """

    rate: float = 0.1
    work: Work = Steps()
    schedule: Schedule = Constant()

    def __post_init__(self):
        check_steps(self)

    def recipe(self, row: Any, shared: Any) -> Recipe:
        return Recipe()

    def in_theory(self) -> Descent:
        return Descent(float(self.rate) if isinstance(self.schedule, Constant) else None, factors_of(self.schedule))

    def train(self, w: Array, task: Task, row: Any, shared: Any) -> Trained:
        def step(w: Array, g: Array, i: Array | int, mass: Array) -> tuple[Array, Array]:
            rate = self.rate * self.schedule.factor(task, i)
            return w - rate * g, mass + rate

        w_k, loss, mass = descend(w, task, step, jnp.zeros((), w.dtype))
        return Trained(w_k, loss, task.steps, mass, self.first_rate(task, shared), row)
