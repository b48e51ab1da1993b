"""Schedules: how local learning rates change over time and differ between clients. Every solver takes one, which
multiplies its rate."""

from typing import Literal, Self

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.errors import check_kind, check_one_each, check_one_of, floats, number, require, require_each
from fedtide.types import Schedule, Task, check_whole, part

__all__ = ["Constant", "Geometric", "PerClient", "PowerDecay"]

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


@part
class PerClient:
    """c_k times `schedule`: the learning rate of client k is c_k η, with c_k > 0 from `factors`, one for each client.

    This changes the objective: if equal rates lead to the optimum of Σ p_k F_k, these lead to that of Σ c_k p_k F_k, as
    η → 0, also where the server remembers updates. Factors proportional to 1/τ_k compensate for numbers of steps τ_k
    that differ. Control variates (SCAFFOLD) lead to the same optimum for any factors; normalisation
    (`aggregation.Normalised`, FedNova) does, too, if all clients take part.

    Reference: proposed as future work in "Stochastic approximation approach to federated machine learning", see
    `fedtide.methods.stochastic_approximation`.
    """

    factors: Array
    schedule: Schedule = Constant()

    def __post_init__(self):
        allowed = "one positive number for each client"
        factors = floats("schedule.factors", self.factors, allowed)
        require(factors.ndim == 1, "schedule.factors", self.factors, allowed)
        require_each(np.isfinite(factors) & (factors > 0), "schedule.factors", factors, "a positive number")
        object.__setattr__(self, "factors", factors)
        check_kind("schedule.schedule", self.schedule, "schedule")
        wanted = "one that is the same for all clients"
        require(not isinstance(self.schedule, PerClient), "schedule.schedule", type(self.schedule).__name__, wanted)

    def fit(self, sizes: np.ndarray) -> Self:
        check_one_each("schedule.factors", self.factors, len(sizes))
        return self

    def factor(self, task: Task, step: Array | int) -> Array | float:
        common = self.schedule.factor(task, step)
        return common if task.client is None else jnp.asarray(self.factors)[task.client] * common


def factors_of(schedule: Schedule) -> np.ndarray | None:
    """[N] factors of the clients' rates; None where all rates are equal."""
    return np.asarray(schedule.factors) if isinstance(schedule, PerClient) else None
