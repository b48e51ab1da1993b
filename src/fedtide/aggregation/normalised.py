"""Updates normalised by the local work behind them."""

from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from fedtide.aggregation.base import AggregationWrapper
from fedtide.aggregation.sums import mean_rows
from fedtide.aggregation.weighted_sum import WeightedSum
from fedtide.declared import Combination
from fedtide.types import Aggregation, Cohort, State, Updates, part


@part
class Normalised(AggregationWrapper):
    """Δ_k ← Δ_k · m̄ / m_k, m_k = η‖a_k‖₁ and m̄ = Σ_S q_k m_k / Σ_S q_k; then `aggregation`.

    Where all clients take part, a client that takes more steps no longer counts more: the fixed point is that of Σ q_k
    F_k, not of Σ q_k τ_k F_k, as η → 0. m̄ is that of S, so with partial participation part of the effect remains:
    rounds of fast clients have longer steps, and a cohort of one is not corrected at all. With equal work nothing
    changes. For local optimisers that scale each coordinate, m_k and the correction are vectors. A client that took no
    step contributes nothing.

    Reference: Wang et al., "Tackling the objective inconsistency problem in heterogeneous federated optimization",
    NeurIPS 2020 (FedNova). For momentum with a proximal term the authors' code has another m_k, and m̄ = Σ q_k η τ_k;
    this uses the exact m_k in both.
    """

    aggregation: Aggregation = WeightedSum()

    divides_by_mass: ClassVar[bool] = True

    def in_theory(self) -> Combination:
        inner = self.aggregation.in_theory()
        return super().in_theory() if inner.normalised else inner._replace(normalised=True)

    def combine(self, state: State, cohort: Cohort, updates: Updates) -> tuple[Array, State]:
        mass = updates.mass if updates.mass.ndim == 2 else updates.mass[:, None]
        common = mean_rows(cohort.weight, mass)
        worked = mass > 0
        delta = updates.delta * jnp.where(worked, common / jnp.where(worked, mass, 1), 0)
        same = jnp.broadcast_to(common, mass.shape).reshape(updates.mass.shape)
        return self.aggregation.combine(state, cohort, updates._replace(delta=delta, mass=same))
