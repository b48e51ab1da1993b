"""Schedules: how a local learning rate changes over time. Every solver takes one; it multiplies the solver's rate."""

from typing import Literal

import jax.numpy as jnp
from jax import Array

from fedtide.errors import check_one_of, number
from fedtide.types import Task, check_whole, part

__all__ = ["Constant", "Geometric", "PowerDecay"]

Unit = Literal["steps", "epochs", "rounds"]
"""What a schedule counts from 0: local steps, epochs or rounds. Steps and epochs are counted as if the client had taken
part in every round with as much work as in this one; for work that is drawn anew each round, count rounds."""


@part
class Constant:
    """Always 1."""

    def factor(self, task: Task, step: Array | int) -> float:
        return 1.0


@part
class PowerDecay:
    """(⌊n / every⌋ + 1)^(−power), n counted in `unit` from 0.

    With rate C this is a_n = C / n^δ (n from 1, δ = `power`), C/n by default, and C / (⌊n/N⌋ + 1) with `every` = N.
    Σ a_n = ∞ for power ≤ 1 and Σ a_n² < ∞ for power > ½; the stochastic-approximation theory of local steps requires
    power > ¾.

    Reference: local SGD as stochastic approximation, see `fedtide.methods.stochastic_approximation`.
    """

    power: float = 1.0
    unit: Unit = "epochs"
    every: int = 1

    def __post_init__(self):
        number("schedule.power", self.power, low=0)
        check_one_of("schedule.unit", self.unit, Unit)
        check_whole(self, "schedule", every=1)

    def factor(self, task: Task, step: Array | int) -> Array:
        count = jnp.asarray(task.elapsed(self.unit, step) // self.every + 1, jnp.result_type(float))
        return count ** (-self.power)


@part
class Geometric:
    """ratio^⌊n / every⌋, n counted in `unit` from 0: 0.998 per round in FedExP, ½ at fixed rounds elsewhere."""

    ratio: float = 0.998
    unit: Unit = "rounds"
    every: int = 1

    def __post_init__(self):
        number("schedule.ratio", self.ratio, above=0, high=1)
        check_one_of("schedule.unit", self.unit, Unit)
        check_whole(self, "schedule", every=1)

    def factor(self, task: Task, step: Array | int) -> Array:
        count = jnp.asarray(task.elapsed(self.unit, step) // self.every, jnp.result_type(float))
        return jnp.asarray(self.ratio, count.dtype) ** count
