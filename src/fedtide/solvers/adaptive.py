"""Adaptive local optimisers, with the exact sum of their preconditioners."""

from typing import Any, ClassVar, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.errors import check_one_of, number, require
from fedtide.schedules import Constant
from fedtide.solvers.base import Local, check_steps, descend, mean_of_rows
from fedtide.types import Cohort, Memory, Population, Schedule, Task, Trained, Updates, Work, derived, part
from fedtide.work import Steps

Algorithm = Literal["adam", "adagrad"]
Keeping = Literal["restarted", "persistent", "averaged"]


class Moments(NamedTuple):
    """Exponential means of the gradients and of their squares."""

    first: Array  # [d] m
    second: Array  # [d] v
    first_share: Array  # [] Σ of the coefficients in m: 1 − b1^n after n steps from 0
    second_share: Array  # [] the same for v


@part
class Adaptive(Local):
    """w_k ← w_k − η P m̂ with m ← b1 m + (1 − b1) g and P = 1 / (√v̂ + ε), coordinate by coordinate.

    `adam`: v ← b2 v + (1 − b2) g², b2 = 0.99 by default. `adagrad`: v ← v + g² (no b2). m̂ (and Adam's v̂) are
    divided by the sum of the coefficients in them: the usual bias correction, which remains correct when moments are
    averaged.

    The moments are `restarted` at 0 each round, `persistent` for each client (2 · N · d floats), or `averaged`: shared
    by all clients and replaced by Σ q_k (m_k, v_k) / Σ q over the cohort (2d more floats up and down).

    mass [d] = Σ_j η P^(j) c_j / (sum of the coefficients in m), c_j the coefficients of this round's gradients in m:
    the exact weight of a constant gradient in each coordinate of Δ. Averages of Δ optimise a mismatched objective where
    it differs between clients; `aggregation.Normalised` corrects that. A coordinate whose gradients are all 0 has
    P = 1/ε: a large ε prevents it from dominating the correction.

    Reference: Wang et al., "Local adaptivity in federated learning: convergence and consistency", arXiv 2106.02305.
    """

    rate: float = 0.01
    algorithm: Algorithm = "adam"
    b1: float = 0.9
    b2: float | None = None
    epsilon: float = 1e-3
    state: Keeping = "restarted"
    work: Work = Steps()
    schedule: Schedule = Constant()

    def __post_init__(self):
        check_steps(self)
        check_one_of("solver.algorithm", self.algorithm, Algorithm)
        number("solver.b1", self.b1, low=0, below=1)
        if self.algorithm == "adagrad":
            require(self.b2 is None, "solver.b2", self.b2, "left out: adagrad does not discount")
        else:
            b2 = 0.99 if self.b2 is None else self.b2
            object.__setattr__(self, "b2", number("solver.b2", b2, low=0, below=1))
        number("solver.epsilon", self.epsilon, above=0)
        check_one_of("solver.state", self.state, Keeping)

    # Moments of the squares only scale this round's gradients; those of the gradients themselves add earlier ones.
    starts_fresh: ClassVar[bool] = derived(lambda self: self.state == "restarted" or not np.any(self.b1))

    def init(self, population: Population, w: Array) -> Memory:
        clients = len(population.sizes)
        if self.state == "persistent":
            rows, numbers = jnp.zeros((clients, len(w)), w.dtype), jnp.zeros(clients, w.dtype)
            return Memory(client=Moments(rows, rows, numbers, numbers))
        return Memory(shared=_no_moments(w) if self.state == "averaged" else ())

    def train(self, w: Array, task: Task, row: Any, shared: Any) -> Trained:
        def step(w: Array, g: Array, i: Array | int, extra: Any) -> tuple[Array, Any]:
            past, share, mass = extra
            rate = self.rate * self.schedule.factor(task, i)
            now = self._moments(past, g)
            share = self.b1 * share + (1 - self.b1)
            scaled = rate / (jnp.sqrt(now.second / now.second_share) + self.epsilon) / now.first_share
            return w - scaled * now.first, (now, share, mass + scaled * share)

        start = {"persistent": row, "averaged": shared}.get(self.state) or _no_moments(w)
        extra = (start, jnp.zeros((), w.dtype), jnp.zeros_like(w))
        w_k, loss, (moments, _, mass) = descend(w, task, step, extra)
        rate = self.first_rate(task, shared)
        row, message = (moments if self.state == kept else () for kept in ("persistent", "averaged"))
        return Trained(w_k, loss, task.steps, mass, rate, row, message)

    def close(
        self, shared: Any, cohort: Cohort, updates: Updates, before: Any, after: Any, model: Array
    ) -> tuple[Any, Any]:
        return mean_of_rows(cohort, updates.message, shared) if self.state == "averaged" else shared, after

    def _moments(self, past: Moments, g: Array) -> Moments:
        first, first_share = self.b1 * past.first + (1 - self.b1) * g, self.b1 * past.first_share + (1 - self.b1)
        if self.algorithm == "adagrad":
            return Moments(first, past.second + g * g, first_share, jnp.ones_like(past.second_share))
        assert self.b2 is not None, "__post_init__ fills it in"
        second = self.b2 * past.second + (1 - self.b2) * g * g
        return Moments(first, second, first_share, self.b2 * past.second_share + (1 - self.b2))


def _no_moments(w: Array) -> Moments:
    none = jnp.zeros((), w.dtype)
    return Moments(jnp.zeros_like(w), jnp.zeros_like(w), none, none)
