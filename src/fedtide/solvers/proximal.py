"""Stochastic gradient descent with a proximal term."""

from typing import Any

import jax.numpy as jnp
from jax import Array

from fedtide.declared import Descent
from fedtide.errors import number
from fedtide.schedules import Constant, factors_of
from fedtide.solvers.base import Local, Recipe, check_steps, descend
from fedtide.types import Schedule, Task, Trained, Work, part
from fedtide.work import Steps


@part
class Proximal(Local):
    """m ← ρ m + g, w_k ← w_k − η (m + μ (w_k − w_t)), τ_k times: descent on F_k + (μ/2) ‖w_k − w_t‖².

    The proximal term stays out of the momentum buffer, which starts at 0 each round. μ = 0 is `Momentum`, and
    ρ = 0 (the default) with μ = 0 is `Sgd`. ‖a‖₁ from c ← ρ c + 1, s ← (1 − ημ) s + c; for ρ = 0 it is
    (1 − (1 − ημ)^τ) / (ημ).

    Reference: Li et al., "Federated optimization in heterogeneous networks", MLSys 2020 (FedProx).
    """

    rate: float = 0.1
    mu: float = 0.1
    work: Work = Steps()
    schedule: Schedule = Constant()
    decay: float = 0.0

    def __post_init__(self):
        check_steps(self)
        number("solver.mu", self.mu, low=0)
        number("solver.decay", self.decay, low=0, below=1)

    def recipe(self, row: Any, shared: Any) -> Recipe:
        return Recipe(decay=float(self.decay) or None, pull=float(self.mu) or None)

    def in_theory(self) -> Descent:
        return Descent(factors=factors_of(self.schedule))

    def train(self, w: Array, task: Task, row: Any, shared: Any) -> Trained:
        def step(v: Array, g: Array, i: Array | int, extra: Any) -> tuple[Array, Any]:
            m, c, mass = extra
            rate = self.rate * self.schedule.factor(task, i)
            m, c = self.decay * m + g, self.decay * c + 1
            return v - rate * (m + self.mu * (v - w)), (m, c, (1 - rate * self.mu) * mass + rate * c)

        zero = jnp.zeros((), w.dtype)
        w_k, loss, (_, _, mass) = descend(w, task, step, (jnp.zeros_like(w), zero, zero))
        return Trained(w_k, loss, task.steps, mass, self.first_rate(task, shared), row)
