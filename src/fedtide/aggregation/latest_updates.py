"""The latest update of every client."""

from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jax import Array

from fedtide.aggregation.base import Rule
from fedtide.aggregation.sums import per_unit, rate_now, trained_only
from fedtide.declared import Combination
from fedtide.errors import flag, number
from fedtide.rows import weighted_rows
from fedtide.types import Cohort, Population, Updates, part


class Latest(NamedTuple):
    """The memory of updates."""

    rows: Array  # [N, d] y_k / η of its round, 0 before the first
    mean: Array  # [d] Σ α_k rows_k
    participated: Any  # [N] bool: has taken part; () unless the rule waits for all clients


@part
class LatestUpdates(Rule):
    """v = β Σ_j α_j y_j + Σ_{k∈S} q_k (Δ_k − β y_k), then y_k ← Δ_k on S: others count by their latest update.

    β is `trust`. E[v] = Σ α_k Δ_k where E[q_k 1{k∈S}] = α_k, whatever y is: unbiased exactly where the weights are.
    With q = α and β = 1, v = Σ α_j y_j with the new y: biased by staleness only. In a round without updates the model
    follows the memory.

    Updates are stored per unit of the learning rate and counted at the rate of the current round (in an empty one, the
    rate at which clients would have started), so that with a decaying rate old updates are not too large. With `wait`
    the model does not change until every client of positive importance has taken part: never, if one never does.
    Memory: N · d floats.

    Reference: Jhunjhunwala et al., "FedVARP: tackling the variance due to partial client participation in federated
    learning", UAI 2022; Rodio and Neglia, "FedStale: leveraging stale client updates in federated learning", 2024;
    Gu et al., "Fast federated learning in the presence of arbitrary device unavailability", NeurIPS 2021.
    """

    trust: float = 1.0
    wait: bool = False

    def __post_init__(self):
        number("aggregation.trust", self.trust, low=0, high=1)
        flag("aggregation.wait", self.wait)

    moves_when_empty: ClassVar[bool] = True

    def in_theory(self) -> Combination:
        return Combination(trust=float(self.trust))

    def init(self, population: Population, parameters: int) -> Latest:
        rows, participated = (len(population.importance), parameters), population.importance <= 0 if self.wait else ()
        return Latest(jnp.zeros(rows), jnp.zeros(parameters), participated)

    def combine(self, state: Latest, cohort: Cohort, updates: Updates) -> tuple[Array, Latest]:
        cohort = trained_only(cohort, updates)
        rate = rate_now(cohort, updates)
        old, new = state.rows[cohort.client], per_unit(updates.rate, updates.delta)
        trusted = self.trust * rate
        direction = trusted * state.mean + weighted_rows(cohort.weight, updates.delta - trusted * old)
        importance = jnp.where(cohort.present, cohort.importance, 0)
        mean = state.mean + weighted_rows(importance, new - old)
        target = jnp.where(cohort.present, cohort.client, len(state.rows))
        # The written rows depend on the rows read: otherwise the compiler may write first, and copy all rows to read.
        kept = jnp.where(cohort.present[:, None], new, old)
        rows, participated = state.rows.at[target].set(kept, mode="drop"), state.participated
        if self.wait:
            participated = participated.at[target].set(True, mode="drop")
            direction = jnp.where(participated.all(), direction, 0)
        return direction, Latest(rows, mean, participated)
