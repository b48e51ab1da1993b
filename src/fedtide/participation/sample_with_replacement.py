"""Draws by importance, with replacement."""

import jax.numpy as jnp
from jax import Array

from fedtide.errors import require
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
        require(self.clients >= 1, "participation.clients", self.clients, "1 or more")

    def init(self, population: Population) -> Array:
        return population.importance

    def decide(self, state: Array, seen: Observation) -> tuple[Decision, Array]:
        weight = jnp.where(seen.available, state, 0)
        # Draws are counted by client, not by row: the address of a draw is its number.
        draws = seen.stream.uniform(jnp.arange(self.clients), 1, start=8)[:, 0]
        reached = jnp.cumsum(weight)
        drawn = jnp.searchsorted(reached, draws * reached[-1], side="right")
        # Rounding must not reach past the last client of positive weight.
        last = len(weight) - 1 - jnp.argmax((weight > 0)[::-1])
        times = jnp.zeros(len(state), jnp.int32).at[jnp.minimum(drawn, last)].add(1)
        times = jnp.where(weight > 0, times, 0)
        return Decision(times > 0, times / self.clients * jnp.ones_like(state)), state

    def capacity(self, available: int) -> int:
        return min(self.clients, available)
