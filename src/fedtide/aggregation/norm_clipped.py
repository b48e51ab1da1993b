"""Updates of bounded length."""

import jax.numpy as jnp
from jax import Array

from fedtide.aggregation.base import AggregationWrapper
from fedtide.aggregation.weighted_sum import WeightedSum
from fedtide.errors import number
from fedtide.types import Aggregation, Cohort, State, Updates, part


@part
class NormClipped(AggregationWrapper):
    """Δ_k ← Δ_k min(1, c / ‖Δ_k‖), c = `norm`; then `aggregation`.

    With the weighted sum, attackers move v by at most c times their weight: bounded for any number of them, but they
    are never ignored. Weights count as in `aggregation`, so large weights α/π̂ also multiply what an attacker can do.
    Unbiased only where no update is longer than c. Updates that are not finite are 0. The mass of an update stays as it
    is, so that a rule that divides by it does not undo the clipping.

    Reference: Sun et al., "Can you really backdoor federated learning?", arXiv 1911.07963, 2019.
    """

    aggregation: Aggregation = WeightedSum()
    norm: float = 1.0

    def __post_init__(self):
        super().__post_init__()
        number("aggregation.norm", self.norm, above=0)

    def combine(self, state: State, cohort: Cohort, updates: Updates) -> tuple[Array, State]:
        delta = jnp.where(jnp.isfinite(updates.delta).all(axis=1, keepdims=True), updates.delta, 0)
        length = jnp.sqrt((delta**2).sum(axis=1, keepdims=True))
        clipped = delta * (self.norm / jnp.maximum(length, self.norm))
        return self.aggregation.combine(state, cohort, updates._replace(delta=clipped))
