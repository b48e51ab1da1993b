"""Clients that send the change of their gradient."""

from typing import Any, ClassVar

import jax.numpy as jnp
from jax import Array

from fedtide.schedules import Constant
from fedtide.solvers.base import Local, check_steps, descend
from fedtide.types import Memory, Population, Schedule, Sends, Task, Trained, Work, part
from fedtide.work import Steps


@part
class GradientTracking(Local):
    """x ← x − η y, y ← y + g − g_prev, g_prev ← g in every local step, from x = w_t and y = 0; the first step does not
    change x. It sends Δ = η y.

    g_prev is at first the last gradient of the client's last participation (0 before any). So y telescopes, and a
    server that adds up what it receives (`aggregation.Accumulated`, weights α) has Σ α_k η g_k, where g_k is the last
    gradient of client k: the direction of gradient descent, however rarely some clients are available.

    The client keeps η g rather than g: with a schedule the server's sum is that of the latest η g_k, each at the rate
    of its own round.

    Reference: Ying, Li and Yang, "Exact and linear convergence for federated learning under arbitrary client
    participation is attainable", NeurIPS 2025 (FOCUS).
    """

    rate: float = 0.1
    work: Work = Steps()
    schedule: Schedule = Constant()

    def __post_init__(self):
        check_steps(self)

    sends: ClassVar[Sends] = "difference"

    def init(self, population: Population, w: Array) -> Memory:
        return Memory(client=jnp.zeros((len(population.sizes), len(w)), w.dtype))

    def train(self, w: Array, task: Task, row: Array, shared: Any) -> Trained:
        def step(x: Array, g: Array, i: Array | int, last: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
            rate = self.rate * self.schedule.factor(task, i)
            return x - (rate * g - row), (rate * g, jnp.asarray(rate, w.dtype))

        # The step after the last gradient is left to the server.
        _, loss, (sent, mass) = descend(w, task, step, (row, jnp.zeros((), w.dtype)))
        rate = self.first_rate(task, shared)
        # The server receives w − w_k in the model's precision: the rounded value must be kept, or the sum drifts.
        w_k = w - (sent - row)
        return Trained(w_k, loss, task.steps, mass, rate, row + (w - w_k))
