"""What solvers have in common: the loop over local steps, and remembering nothing."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from fedtide.types import Cohort, Memory, Population, Task


class Forgetful:
    """A solver without memory."""

    def init(self, population: Population, parameters: int) -> Memory:
        return Memory()

    def share(self, shared: Any, cohort: Cohort, before: Any, after: Any) -> Any:
        return shared


def descend(w: Array, task: Task, step: Callable[[Array, Array, Any], tuple[Array, Any]], extra: Any = ()):
    """Runs `step(w, gradient, extra) -> (w, extra)` τ_k times: (w_k, mean minibatch loss, extra)."""

    def body(i: Array | int, carry: tuple[Array, Array, Any]) -> tuple[Array, Array, Any]:
        w, total, extra = carry
        loss, gradient = task.gradient(w, i)
        w, extra = step(w, gradient, extra)
        return w, total + loss, extra

    start = (w, jnp.zeros((), w.dtype), extra)
    w_k, total, extra = jax.lax.fori_loop(0, task.steps, body, start, unroll=task.unroll or None)
    return w_k, total / jnp.maximum(task.steps, 1), extra
