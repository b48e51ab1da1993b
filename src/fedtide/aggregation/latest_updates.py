"""The latest update of every client, present or not."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from fedtide.aggregation.base import Rule
from fedtide.aggregation.sums import per_unit, rate_now, trained_only
from fedtide.errors import flag, number
from fedtide.rows import weighted_rows
from fedtide.types import Cohort, Population, Updates, part


class Latest(NamedTuple):
    importance: Array  # [N] α
    rows: Array  # [N, d] y_k / η of its round, 0 before the first
    mean: Array  # [d] Σ α_k rows_k
    seen: Any  # [N] bool: has taken part; () where nobody waits for it


@part
class LatestUpdates(Rule):
    """v = β Σ_j α_j y_j + Σ_{k∈S} q_k (Δ_k − β y_k), then y_k ← Δ_k on S: absent clients count by their latest update.

    β is `trust`. E[v] = Σ α_k Δ_k where E[q_k 1{k∈S}] = α_k, whatever y is: unbiased exactly where the weights are.
    With q = α and β = 1, v = Σ α_j y_j with the new y: biased by staleness only. A round without updates moves along
    the memory.

    Updates are kept per unit of the learning rate and counted at the rate of the present round (in an empty one, the
    rate that clients would have begun with), so that a decaying rate does not leave old updates too large. With `wait`
    nothing moves until every client of positive importance has taken part once: never, where one of them never comes.
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

    @property
    def moves_when_empty(self) -> bool:
        return True

    def init(self, population: Population, parameters: int) -> Latest:
        rows, seen = (len(population.importance), parameters), population.importance <= 0 if self.wait else ()
        return Latest(population.importance, jnp.zeros(rows), jnp.zeros(parameters), seen)

    def combine(self, state: Latest, cohort: Cohort, updates: Updates) -> tuple[Array, Latest]:
        clients = len(state.importance)
        cohort = trained_only(cohort, updates)
        rate = rate_now(cohort, updates)
        old, new = state.rows[cohort.client], per_unit(updates.rate, updates.delta)
        trusted = self.trust * rate
        direction = trusted * state.mean + weighted_rows(cohort.weight, updates.delta - trusted * old)
        importance = jnp.where(cohort.present, state.importance[cohort.client], 0)
        mean = state.mean + weighted_rows(importance, new - old)
        target = jnp.where(cohort.present, cohort.client, clients)
        # What is written depends on what was read: otherwise the compiler may write first, and copies all rows to read.
        kept = jnp.where(cohort.present[:, None], new, old)
        rows, seen = state.rows.at[target].set(kept, mode="drop"), state.seen
        if self.wait:
            seen = seen.at[target].set(True, mode="drop")
            direction = jnp.where(seen.all(), direction, 0)
        return direction, Latest(state.importance, rows, mean, seen)
