"""Clients that send how their last gradient differs from the one before."""

from typing import Any, Literal

import jax.numpy as jnp
from jax import Array

from fedtide.schedules import Constant
from fedtide.solvers.base import Local, check_steps, descend
from fedtide.types import Memory, Population, Schedule, Task, Trained, Work, part
from fedtide.work import Steps


@part
class GradientTracking(Local):
    """x ← x − η y, y ← y + g − g_prev, g_prev ← g in every local step, from x = w_t and y = 0; the first step does not
    move x. It sends Δ = η y.

    g_prev begins as the last gradient of the round in which the client last took part (0 before any). So y telescopes,
    and a server that adds up what it receives (`aggregation.Accumulated`, weights α) holds Σ α_k η g_k, g_k the last
    gradient of client k: the direction of gradient descent, however rarely some are there.

    The client keeps η g rather than g, and y is in these units: with a schedule the server's sum is that of the latest
    η g_k, each at the rate of the round it is from.

    Reference: Ying, Li and Yang, "Exact and linear convergence for federated learning under arbitrary client
    participation is attainable", NeurIPS 2025 (FOCUS).
    """

    rate: float = 0.1
    work: Work = Steps()
    schedule: Schedule = Constant()

    def __post_init__(self):
        check_steps(self)

    @property
    def sends(self) -> Literal["change", "model", "difference"]:
        return "difference"

    def init(self, population: Population, w: Array) -> Memory:
        return Memory(client=jnp.zeros((len(population.sizes), len(w)), w.dtype))

    def train(self, w: Array, task: Task, row: Array, shared: Any) -> Trained:
        def step(x: Array, g: Array, i: Array | int, last: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
            rate = self.rate * self.schedule.factor(task, i)
            return x - (rate * g - row), (rate * g, jnp.asarray(rate, w.dtype))

        # The move after the last gradient is not the client's: the server makes it.
        _, loss, (sent, mass) = descend(w, task, step, (row, jnp.zeros((), w.dtype)))
        rate = self.first_rate(task, shared)
        # The server gets w − w_k, rounded as the model is: what it got is what must be remembered, or the sum drifts.
        w_k = w - (sent - row)
        return Trained(w_k, loss, task.steps, mass, rate, row + (w - w_k))
