"""Attackers that know all updates of the round and hide among them."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from fedtide.aggregation.base import AggregationWrapper
from fedtide.aggregation.sums import mean_rows, usable
from fedtide.aggregation.weighted_sum import WeightedSum
from fedtide.attackers import Attackers, attacker_mask, check_attackers
from fedtide.errors import number
from fedtide.types import Aggregation, Cohort, Population, Updates, check_whole, part


class ColludingState(NamedTuple):
    attacker: Array  # [N] bool: constant
    inner: Any


@part
class Colluding(AggregationWrapper):
    """Δ_k ← μ − z σ for all attackers in S, with μ and σ the mean and standard deviation of the honest updates of the
    round, coordinate by coordinate, and z = `deviations`; then `aggregation`.

    A simulated attack, not a defence: it wraps the rule under attack, because only there all updates of a round meet.
    For small z the common update is closer to the mean than many honest ones, so that rules that remove outliers keep
    it. The paper derives z = Φ⁻¹((h − s)/h) for n participants, h of them honest, and s = ⌊n/2 + 1⌋ − (n − h): with s
    honest clients that are farther out, the attackers are a majority. There they estimate μ and σ from their own data;
    here they know them. `attackers` are client numbers, or the number of clients drawn by `seed`, which is independent
    of a run's seeds. Without attackers it is `aggregation` to the bit.

    Reference: Baruch, Baruch and Goldberg, "A little is enough: circumventing defenses for distributed learning",
    NeurIPS 2019 (ALIE).
    """

    aggregation: Aggregation = WeightedSum()
    attackers: Attackers = 1
    deviations: float = 1.5
    seed: int = 0

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "attackers", check_attackers("aggregation.attackers", self.attackers))
        number("aggregation.deviations", self.deviations)
        check_whole(self, "aggregation", seed=0)

    def init(self, population: Population, parameters: int) -> ColludingState:
        mask = attacker_mask("aggregation.attackers", self.attackers, len(population.importance), self.seed)
        return ColludingState(jnp.asarray(mask), self.aggregation.init(population, parameters))

    def combine(self, state: ColludingState, cohort: Cohort, updates: Updates) -> tuple[Array, ColludingState]:
        here = usable(cohort, updates.delta)
        attacks = cohort.present & (cohort.weight != 0) & state.attacker[cohort.client]
        honest, rows = (here & ~attacks).astype(updates.delta.dtype), jnp.where(here[:, None], updates.delta, 0)
        mean = mean_rows(honest, rows)
        spread = jnp.sqrt(mean_rows(honest, (rows - mean) ** 2))
        delta = jnp.where(attacks[:, None], mean - self.deviations * spread, updates.delta)
        direction, inner = self.aggregation.combine(state.inner, cohort, updates._replace(delta=delta))
        return direction, state._replace(inner=inner)
