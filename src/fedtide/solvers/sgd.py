"""Plain stochastic gradient descent."""

from typing import Any

from jax import Array

from fedtide.errors import require
from fedtide.solvers.base import Forgetful, descend
from fedtide.types import Task, Work, part
from fedtide.work import Steps


@part
class Sgd(Forgetful):
    """w_k ← w_k − η g, τ_k times, g the gradient of a minibatch.

    Reference: McMahan et al., "Communication-efficient learning of deep networks", AISTATS 2017.
    """

    rate: float = 0.1
    work: Work = Steps()

    def __post_init__(self):
        require(self.rate >= 0, "solver.rate", self.rate, "0 or more")

    def train(self, w: Array, task: Task, row: Any, shared: Any) -> tuple[Array, Array, Any]:
        w_k, loss, _ = descend(w, task, lambda w, g, _: (w - self.rate * g, ()))
        return w_k, loss, row
