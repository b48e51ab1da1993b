"""The more available clients only."""

import jax.numpy as jnp
from jax import Array

from fedtide.errors import number
from fedtide.participation.base import Policy
from fedtide.types import Decision, Observation, Population, part


@part
class MostAvailable(Policy):
    """Keeps the `fraction` of clients with the largest π̂ (ties by client index); q_k = α_k / π̂_k on those.

    Unbiased among the kept, blind to the rest: the long-run objective is Σ_kept α_k F_k / Σ_kept α_k.

    Reference: Rodio et al., "Federated learning under heterogeneous and correlated client availability",
    IEEE/ACM ToN 2024 (its baseline "More available").
    """

    fraction: float = 0.5

    def __post_init__(self):
        number("participation.fraction", self.fraction, above=0, high=1)

    @property
    def needs_estimates(self) -> bool:
        return True

    def init(self, population: Population) -> Array:
        return population.importance

    def decide(self, state: Array, seen: Observation) -> tuple[Decision, Array]:
        clients = len(state)
        order = jnp.argsort(-seen.estimate.availability, stable=True)
        rank = jnp.zeros(clients, jnp.int32).at[order].set(jnp.arange(clients, dtype=jnp.int32))
        # Rounded down by a few units of float32, so that 0.3 · 100 keeps 30 and not ⌈30.000001⌉.
        kept = jnp.ceil(self.fraction * clients * (1 - 4 * jnp.finfo(jnp.float32).eps))
        invited = seen.available & (rank < kept)
        return Decision(invited, jnp.where(invited, state / seen.estimate.availability, 0)), state
