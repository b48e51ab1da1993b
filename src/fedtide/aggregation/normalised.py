"""Updates that count the same whatever work they took."""

import jax.numpy as jnp
from jax import Array

from fedtide.aggregation.base import Around
from fedtide.aggregation.sums import mean_rows
from fedtide.aggregation.weighted_sum import WeightedSum
from fedtide.types import Aggregation, Cohort, State, Updates, part


@part
class Normalised(Around):
    """Δ_k ← Δ_k · m̄ / m_k, m_k = η‖a_k‖₁ and m̄ = Σ_S q_k m_k / Σ_S q_k; then `aggregation`.

    Where everybody takes part, who takes more steps no longer counts more: the fixed point is that of Σ q_k F_k, not
    of Σ q_k τ_k F_k, as η → 0. m̄ is that of S, so with partial participation some of it stays: rounds of fast clients
    are longer, and a cohort of one is not corrected at all.
    Equal work changes nothing. For local optimisers that scale each coordinate m_k is a vector, and so is the
    correction. A client that took no step contributes nothing.

    Reference: Wang et al., "Tackling the objective inconsistency problem in heterogeneous federated optimization",
    NeurIPS 2020 (FedNova). The authors' code has m_k wrong for momentum with a proximal term, and m̄ = Σ q_k η τ_k
    there; this takes the exact m_k in both.
    """

    aggregation: Aggregation = WeightedSum()

    @property
    def divides_by_mass(self) -> bool:
        return True

    def combine(self, state: State, cohort: Cohort, updates: Updates) -> tuple[Array, State]:
        mass = updates.mass if updates.mass.ndim == 2 else updates.mass[:, None]
        common = mean_rows(cohort.weight, mass)
        worked = mass > 0
        delta = updates.delta * jnp.where(worked, common / jnp.where(worked, mass, 1), 0)
        same = jnp.broadcast_to(common, mass.shape).reshape(updates.mass.shape)
        return self.aggregation.combine(state, cohort, updates._replace(delta=delta, mass=same))
