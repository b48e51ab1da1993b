"""What solvers have in common: the loop over local steps, and remembering nothing."""

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import Array

from fedtide.types import Cohort, Memory, Population, Task, Updates


class Local:
    """A solver that trains from the received model, sends the change and remembers nothing."""

    @property
    def sends(self) -> Literal["change", "model", "difference"]:
        return "change"

    @property
    def trains_absent(self) -> bool:
        return False

    def init(self, population: Population, parameters: int) -> Memory:
        return Memory()

    def close(
        self, shared: Any, cohort: Cohort, updates: Updates, before: Any, after: Any, model: Array
    ) -> tuple[Any, Any]:
        return shared, after


Step = Callable[[Array, Array, Array | int, Any], tuple[Array, Any]]


def descend(w: Array, task: Task, step: Step, extra: Any) -> tuple[Array, Array, Any]:
    """Runs `step(w, gradient, i, extra) -> (w, extra)` for i = 0 … τ_k − 1: (w_k, mean minibatch loss, extra)."""

    def body(i: Array | int, carry: tuple[Array, Array, Any]) -> tuple[Array, Array, Any]:
        w, total, extra = carry
        loss, gradient = task.gradient(w, i)
        w, extra = step(w, gradient, i, extra)
        return w, total + loss, extra

    start = (w, jnp.zeros((), w.dtype), extra)
    w_k, total, extra = jax.lax.fori_loop(0, task.steps, body, start, unroll=task.unroll or None)
    return w_k, total / jnp.maximum(task.steps, 1), extra
