"""Stochastic gradient descent with heavy-ball momentum."""

from typing import Any

import jax.numpy as jnp
from jax import Array

from fedtide.errors import require
from fedtide.solvers.base import Forgetful, descend
from fedtide.types import Memory, Population, Task, Work, part
from fedtide.work import Steps


@part
class Momentum(Forgetful):
    """m ← ρ m + g, w_k ← w_k − η m, τ_k times. ρ = 0 is `Sgd`.

    The buffer m starts at 0 each round, or with `persistent` is kept for each client between rounds (N · d floats).
    """

    rate: float = 0.1
    decay: float = 0.9
    persistent: bool = False
    work: Work = Steps()

    def __post_init__(self):
        require(self.rate >= 0, "solver.rate", self.rate, "0 or more")
        require(0 <= self.decay < 1, "solver.decay", self.decay, "in [0, 1)")

    def init(self, population: Population, parameters: int) -> Memory:
        return Memory(client=jnp.zeros((len(population.sizes), parameters)) if self.persistent else ())

    def train(self, w: Array, task: Task, row: Any, shared: Any) -> tuple[Array, Array, Any]:
        def step(w: Array, g: Array, m: Array) -> tuple[Array, Array]:
            m = self.decay * m + g
            return w - self.rate * m, m

        w_k, loss, m = descend(w, task, step, row if self.persistent else jnp.zeros_like(w))
        return w_k, loss, m if self.persistent else row
