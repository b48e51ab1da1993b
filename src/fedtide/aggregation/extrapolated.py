"""A longer step where updates differ."""

import jax.numpy as jnp
from jax import Array

from fedtide.aggregation.base import AggregationWrapper
from fedtide.aggregation.weighted_sum import WeightedSum
from fedtide.errors import number
from fedtide.rows import weighted_rows
from fedtide.types import Aggregation, Cohort, State, Updates, part


@part
class Extrapolated(AggregationWrapper):
    """v = η_g · (direction of `aggregation`), η_g = max(1, Σ_S a_k‖Δ_k‖² / (2 (‖Σ_S a_k Δ_k‖² + ε))).

    a_k = q_k / Σ_S q. ε is `regulariser`, in the units of ‖Δ‖²: it matters where updates are small. Equal updates
    give η_g = 1, m orthogonal ones of equal length m/2 (ε = 0). η_g depends on the participants, so v is unbiased only
    if all clients take part.

    Reference: Jhunjhunwala, Wang and Joshi, "FedExP: speeding up federated averaging via extrapolation", ICLR 2023.
    (Its code multiplies ε by |S| and by 0.998² per round; this does neither.)
    """

    aggregation: Aggregation = WeightedSum()
    regulariser: float = 1e-3

    def __post_init__(self):
        super().__post_init__()
        number("aggregation.regulariser", self.regulariser, low=0)

    def combine(self, state: State, cohort: Cohort, updates: Updates) -> tuple[Array, State]:
        direction, state = self.aggregation.combine(state, cohort, updates)
        return extrapolation(cohort.weight, updates.delta, self.regulariser) * direction, state


def extrapolation(weight: Array, delta: Array, regulariser: Array | float) -> Array:
    """η_g of the updates [C, d]; 1 where there are none, or where they cancel."""
    total = weighted_rows(weight, jnp.ones_like(delta[:, :1]))[0]
    squares = weighted_rows(weight, (delta**2).sum(axis=1, keepdims=True))[0]
    # Numerator and denominator times (Σ q)², so that weights that are all 0 do not give 0/0.
    below = 2 * ((weighted_rows(weight, delta) ** 2).sum() + regulariser * total**2)
    return jnp.maximum(1.0, jnp.where(below > 0, squares * total / jnp.where(below > 0, below, 1), 0))
