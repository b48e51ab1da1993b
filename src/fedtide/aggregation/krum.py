"""The updates that are closest to most others."""

import jax
import jax.numpy as jnp
from jax import Array

from fedtide.aggregation.base import Rule
from fedtide.aggregation.sums import mean_rows, usable
from fedtide.rows import weighted_rows
from fedtide.types import Cohort, Updates, check_whole, part


@part
class Krum(Rule):
    """v = mean of the `keep` updates with the lowest scores; the score of Δ_k is the sum of its squared distances to
    its n − f − 2 nearest others in S, n = |S| and f = `attackers`.

    `keep` = 1 is Krum, more is multi-Krum. Proven for 2f + 2 < n and one update; keep at most n − f − 2, since the mean
    of more may contain an attacker's. Rounds with fewer participants use at least one neighbour, without a guarantee.
    Ties go to the first client. Weights are ignored, so weights α/π̂ against unequal availability have no effect. Biased
    where clients' data differ: Krum follows one client of a large group with similar data. Updates that are not finite
    count as absent. Time: n² d.

    Reference: Blanchard et al., "Machine learning with adversaries: Byzantine tolerant gradient descent", NeurIPS 2017.
    """

    attackers: int = 1
    keep: int = 1

    def __post_init__(self):
        check_whole(self, "aggregation", attackers=0, keep=1)

    def combine(self, state: tuple[()], cohort: Cohort, updates: Updates) -> tuple[Array, tuple[()]]:
        here = usable(cohort, updates.delta)
        rows, count, place = jnp.where(here[:, None], updates.delta, 0), here.sum(), jnp.arange(len(here))
        square = jax.lax.map(lambda row: ((rows - row) ** 2).sum(axis=1), rows)
        nearest = jnp.sort(jnp.where(here & (place != place[:, None]), square, jnp.inf), axis=1)
        neighbour = place < jnp.minimum(jnp.maximum(count - self.attackers - 2, 1), count - 1)
        # In order, so that masked rows at the end change no bit.
        score = weighted_rows(neighbour.astype(rows.dtype), jnp.where(neighbour, nearest, 0).T)
        rank = jnp.zeros_like(place).at[jnp.lexsort((score, ~here))].set(place)
        return mean_rows((here & (rank < self.keep)).astype(rows.dtype), rows), state
