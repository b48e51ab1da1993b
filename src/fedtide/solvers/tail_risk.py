"""Gradient descent on the conditional value-at-risk of the losses."""

from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jax import Array

from fedtide.errors import flag, number
from fedtide.rows import weighted_rows
from fedtide.schedules import Constant
from fedtide.solvers.base import Local, Recipe, check_steps, descend
from fedtide.types import Cohort, Memory, Population, Schedule, Task, Trained, Updates, Work, derived, part
from fedtide.work import Steps


class Point(NamedTuple):
    model: Array  # [d]
    threshold: Array  # [] t


@part
class TailRisk(Local):
    """Gradient steps in (w, t) on (1 − γ) [t + (f − t)₊ / α] + γ f: the conditional value-at-risk of the losses at
    `level` α, mixed with `mix` γ of their mean.

    With f the loss of a minibatch: w_k ← w_k − η [(1 − γ) 1{f > t}/α + γ] ∇f and, at the same time,
    t_k ← t_k − η_t (1 − γ)(1 − 1{f > t}/α), η_t the `threshold_rate`. The schedule multiplies both rates. t drifts to
    the (1 − α)-quantile of the minibatch losses. From t⁰ = `start` = 0 every loss is above t: training begins as `Sgd`
    at the rate η (γ + (1 − γ)/α), which is 9.1 η at α = γ = 0.1.

    All clients start a round from the shared t and send t_k. It is updated as one more coordinate of the model,
    t ← t + Σ_S q_k (t_k − t), with the same weights: where these are unbiased for the model, they are for t. Where one
    client participates with weight 1, t becomes its t_k. (A server's rate does not apply to t.)

    γ = 1 is `Sgd` (t is constant), as is α = 1 while all losses are above t. ‖a‖₁ includes the factors of ∇f. The
    minibatch's hinge is a biased estimate of (f − t)₊ of the client, unless the minibatch is all its samples.

    With `train_everyone` absent clients train, too, without effect: the same numbers at the cost of the paper's
    Algorithm 1, in which all users train and one gets through.

    Reference: Theodoropoulos, Nikolakakis and Kalogerias, "Federated learning under restricted user availability",
    arXiv 2309.14176.
    """

    rate: float = 0.1
    threshold_rate: float = 0.01
    level: float = 0.1
    mix: float = 0.1
    start: float = 0.0
    train_everyone: bool = False
    work: Work = Steps()
    schedule: Schedule = Constant()

    def __post_init__(self):
        check_steps(self)
        number("solver.threshold_rate", self.threshold_rate, low=0)
        number("solver.level", self.level, above=0, high=1)
        number("solver.mix", self.mix, low=0, high=1)
        number("solver.start", self.start)
        flag("solver.train_everyone", self.train_everyone)

    trains_absent: ClassVar[bool] = derived(lambda self: self.train_everyone)

    def init(self, population: Population, w: Array) -> Memory:
        return Memory(shared=jnp.asarray(self.start, w.dtype))

    def recipe(self, row: Any, shared: Any) -> Recipe:
        def factor(threshold: Any, loss: float, scheduled: float) -> tuple[Any, Any]:
            return self._weighed(shared if threshold is None else threshold, loss, scheduled)

        return Recipe(factor=factor)

    def train(self, w: Array, task: Task, row: Any, shared: Array) -> Trained:
        def gradient(at: Point, i: Array | int) -> tuple[Array, tuple[Array, Array]]:
            loss, g = task.gradient(at.model, i)
            return loss, (g, loss)

        def step(at: Point, found: tuple[Array, Array], i: Array | int, mass: Array) -> tuple[Point, Array]:
            (g, loss), scheduled = found, self.schedule.factor(task, i)
            rate = self.rate * scheduled
            factor, threshold = self._weighed(at.threshold, loss, scheduled)
            return Point(at.model - rate * (factor * g), threshold), mass + rate * factor

        joint = task._replace(gradient=gradient)
        end, loss, mass = descend(Point(w, shared), joint, step, jnp.zeros((), w.dtype))
        rate = self.first_rate(task, shared)
        return Trained(end.model, loss, task.steps, mass, rate, row, end.threshold)

    def close(
        self, shared: Array, cohort: Cohort, updates: Updates, before: Any, after: Any, model: Array
    ) -> tuple[Array, Any]:
        change = jnp.where(cohort.present, updates.message - shared, 0)
        return shared + weighted_rows(cohort.weight, change[:, None])[0], after

    def _weighed(self, threshold: Any, loss: Any, scheduled: Any) -> tuple[Any, Any]:
        """(factor of ∇f, next t)."""
        slope = (1 - self.mix) * (1 - (loss > threshold) / self.level)
        # The derivatives with respect to f and t sum to 1.
        return 1 - slope, threshold - self.threshold_rate * scheduled * slope
