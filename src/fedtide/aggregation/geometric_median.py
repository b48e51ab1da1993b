"""The point with the smallest sum of distances to the updates."""

import jax
import jax.numpy as jnp
from jax import Array

from fedtide.aggregation.base import Rule
from fedtide.aggregation.sums import mean_rows, usable
from fedtide.errors import number
from fedtide.types import Cohort, Updates, check_whole, part


@part
class GeometricMedian(Rule):
    """v ≈ argmin_v Σ_{k∈S} q_k ‖v − Δ_k‖, by smoothed Weiszfeld steps: v ← Σ_S β_k Δ_k / Σ_S β_k with
    β_k = q_k / max(ν, ‖v − Δ_k‖), `iterations` times from v = 0; ν is `smoothing`, in the units of ‖Δ‖.

    Bounded while attackers have less than half of the weight Σ_S q. From v = 0 this holds after any number of
    iterations: the mean of the updates, another possible start, is where attackers want it. Weights count, and are
    normalised: v is a weighted mean of updates whatever Σ q is. Weights α/π̂ therefore make rarely available clients
    count more, and rarely available attackers, too. Biased where clients' data differ: a minority in another direction
    counts less than its weight. Updates that are not finite count as absent.

    Reference: Pillutla, Kakade and Harchaoui, "Robust aggregation for federated learning", IEEE Transactions on Signal
    Processing 2022 (RFA).
    """

    iterations: int = 8
    smoothing: float = 1e-6

    def __post_init__(self):
        check_whole(self, "aggregation", iterations=1)
        number("aggregation.smoothing", self.smoothing, above=0)

    def combine(self, state: tuple[()], cohort: Cohort, updates: Updates) -> tuple[Array, tuple[()]]:
        here = usable(cohort, updates.delta)
        weight, rows = jnp.where(here, cohort.weight, 0), jnp.where(here[:, None], updates.delta, 0)

        def step(_: int, v: Array) -> Array:
            distance = jnp.sqrt(((rows - v) ** 2).sum(axis=1))
            return mean_rows(weight / jnp.maximum(self.smoothing, distance), rows)

        return jax.lax.fori_loop(0, self.iterations, step, jnp.zeros_like(rows[0])), state
