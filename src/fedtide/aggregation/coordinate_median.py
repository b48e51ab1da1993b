"""The median of every coordinate."""

import jax.numpy as jnp
from jax import Array

from fedtide.aggregation.base import Rule
from fedtide.aggregation.sums import ordered_rows, usable
from fedtide.types import Cohort, Updates, part


@part
class CoordinateMedian(Rule):
    """v_i = median of (Δ_k)_i over S, coordinate by coordinate; the mean of the two middle values where |S| is even.

    Each coordinate of v lies between values of honest clients while fewer than half of S are attackers. Weights are
    ignored, so weights α/π̂ against unequal availability have no effect. Biased where clients' data differ: a
    direction that only a minority of S needs is treated as an attack. Updates that are not finite count as absent.

    Reference: Yin et al., "Byzantine-robust distributed learning: towards optimal statistical rates", ICML 2018.
    """

    def combine(self, state: tuple[()], cohort: Cohort, updates: Updates) -> tuple[Array, tuple[()]]:
        here = usable(cohort, updates.delta)
        ordered, count = ordered_rows(here, updates.delta), here.sum()
        middle = ordered[(count - 1) // 2] / 2 + ordered[count // 2] / 2
        return jnp.where(count > 0, middle, 0), state
