"""The mean of every coordinate without its largest and smallest values."""

import jax.numpy as jnp
from jax import Array

from fedtide.aggregation.base import Rule
from fedtide.aggregation.sums import mean_rows, ordered_rows, usable
from fedtide.errors import number
from fedtide.types import Cohort, Updates, part


@part
class TrimmedMean(Rule):
    """v_i = mean of (Δ_k)_i over S without its b largest and b smallest values, b = ⌊β |S|⌋ and β = `trim`.

    Each coordinate of v lies between values of honest clients while at most b of S are attackers. β = 0 is the
    unweighted mean; at least one value always remains, or two where |S| is even, so β → ½ is `CoordinateMedian`.
    Weights are ignored, so weights α/π̂ against unequal availability have no effect. Biased where clients' data differ
    and β > 0. Updates that are not finite count as absent.

    Reference: Yin et al., "Byzantine-robust distributed learning: towards optimal statistical rates", ICML 2018.
    """

    trim: float = 0.2

    def __post_init__(self):
        number("aggregation.trim", self.trim, low=0, below=0.5)

    def combine(self, state: tuple[()], cohort: Cohort, updates: Updates) -> tuple[Array, tuple[()]]:
        here = usable(cohort, updates.delta)
        ordered, count = ordered_rows(here, updates.delta), here.sum()
        # The slack makes 0.29 · 100 = 28.999… count as 29.
        cut = jnp.minimum(jnp.floor(self.trim * count + 1e-3).astype(count.dtype), jnp.maximum(count - 1, 0) // 2)
        place = jnp.arange(len(here))
        kept = (place >= cut) & (place < count - cut)
        return mean_rows(kept.astype(ordered.dtype), jnp.where(kept[:, None], ordered, 0)), state
