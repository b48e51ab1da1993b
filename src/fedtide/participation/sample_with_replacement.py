"""Draws by importance, with replacement."""

from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array

from fedtide.errors import whole
from fedtide.participation.base import Policy
from fedtide.types import Decision, Observation, Population, part


@part
class SampleWithReplacement(Policy):
    """`clients` draws of available clients with probabilities ∝ α_k; q_k = (times drawn) / `clients`.

    Unbiased for any α when all are available: E[q_k] = α_k. A client that is drawn twice trains once and counts twice.

    Reference: Li et al., "On the convergence of FedAvg on non-IID data", ICLR 2020 (scheme I).
    """

    clients: int

    def __post_init__(self):
        object.__setattr__(self, "clients", whole("participation.clients", self.clients, 1))

    @property
    def weighing(self) -> Literal["fixed", "normalised", "free"]:
        return "normalised"

    def init(self, population: Population) -> Array:
        return population.importance

    def decide(self, state: Array, seen: Observation) -> tuple[Decision, Array]:
        weight = jnp.where(seen.available, state, 0)
        names = jnp.arange(len(state))

        def draw(i: Array) -> Array:
            # A race: the smallest of exponential times of rate α_k is k's with probability α_k / Σ α.
            uniform = seen.stream.uniform(names, 1, start=12 + 4 * i)[:, 0]
            time = jnp.where(weight > 0, -jnp.log1p(-uniform) / weight, jnp.inf)
            return jnp.argmin(time)

        times = jnp.zeros_like(state).at[jax.lax.map(draw, jnp.arange(self.clients))].add(1)
        times = jnp.where(weight > 0, times, 0)  # where nobody is there, nobody wins
        return Decision(times > 0, times / self.clients), state

    def capacity(self, available: int) -> int:
        return min(self.clients, available)
