"""Stochastic gradient descent held near the received model."""

from typing import Any

from jax import Array

from fedtide.errors import require
from fedtide.solvers.base import Forgetful, descend
from fedtide.types import Task, Work, part
from fedtide.work import Steps


@part
class Proximal(Forgetful):
    """w_k ← w_k − η (g + μ (w_k − w_t)), τ_k times: the gradient of F_k + (μ/2) ‖w_k − w_t‖². μ = 0 is `Sgd`.

    Reference: Li et al., "Federated optimization in heterogeneous networks", MLSys 2020 (FedProx).
    """

    rate: float = 0.1
    mu: float = 0.1
    work: Work = Steps()

    def __post_init__(self):
        require(self.rate >= 0, "solver.rate", self.rate, "0 or more")
        require(self.mu >= 0, "solver.mu", self.mu, "0 or more")

    def train(self, w: Array, task: Task, row: Any, shared: Any) -> tuple[Array, Array, Any]:
        w_k, loss, _ = descend(w, task, lambda v, g, _: (v - self.rate * (g + self.mu * (v - w)), ()))
        return w_k, loss, row
