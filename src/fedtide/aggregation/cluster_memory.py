"""One remembered update for each cluster of clients."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedtide.aggregation.base import Rule
from fedtide.aggregation.clusters import cluster_by_labels
from fedtide.aggregation.sums import grouped_rows, per_unit, rate_now, trained_only
from fedtide.errors import FedtideError, check_one_each, membership_of
from fedtide.rows import weighted_rows
from fedtide.types import Cohort, Population, Updates, check_whole, part


class ByCluster(NamedTuple):
    cluster: Array  # [N] of each client: constant, but computed once
    importance: Array  # [K] Σ α of its clients: constant, as the clusters are
    rows: Array  # [K, d] y_c / η of its round


@part
class ClusterMemory(Rule):
    """v = Σ_j α_j y_c(j) + Σ_{k∈S} q_k (Δ_k − y_c(k)), then y_c ← mean of Δ_k over S ∩ c (where not empty).

    Unbiased exactly where the weights are, as `LatestUpdates` is, with K rows of memory in place of N. One cluster is
    the weighted sum where the weights sum to 1; a cluster for each client is `LatestUpdates`.

    `assignment` is the cluster of each client, 0 … clusters − 1; without it clients are grouped by their labels
    (k-means), which the server must then know. Updates are kept per unit of the learning rate, as in
    `LatestUpdates`.

    Reference: Jhunjhunwala et al., "FedVARP: tackling the variance due to partial client participation in federated
    learning", UAI 2022 (ClusterFedVARP).
    """

    clusters: int = 10
    assignment: Array | None = None

    def __post_init__(self):
        check_whole(self, "aggregation", clusters=1)
        if self.assignment is not None:
            member = membership_of("aggregation.assignment", self.assignment, self.clusters)
            object.__setattr__(self, "assignment", member)

    moves_when_empty: ClassVar[bool] = True

    def init(self, population: Population, parameters: int) -> ByCluster:
        cluster = self._assigned(population)
        importance = jax.ops.segment_sum(population.importance, cluster, self.clusters)
        return ByCluster(cluster, importance, jnp.zeros((self.clusters, parameters)))

    def combine(self, state: ByCluster, cohort: Cohort, updates: Updates) -> tuple[Array, ByCluster]:
        cohort = trained_only(cohort, updates)
        rate = rate_now(cohort, updates)
        cluster, present = state.cluster[cohort.client], cohort.present.astype(state.rows.dtype)

        def by_cluster(weight: Array, rows: Array) -> Array:
            return grouped_rows(weight, cluster, rows, self.clusters)

        # Σ_j α_j y_c(j) − Σ_S q_k y_c(k) is Σ_c (α_c − Σ_{S∩c} q) y_c.
        rest = state.importance - by_cluster(cohort.weight, jnp.ones_like(updates.delta[:, :1]))[:, 0]
        direction = rate * weighted_rows(rest, state.rows) + weighted_rows(cohort.weight, updates.delta)
        count = by_cluster(present, jnp.ones_like(updates.delta[:, :1]))
        mean = by_cluster(present, per_unit(updates.rate, updates.delta)) / jnp.maximum(count, 1)
        return direction, state._replace(rows=jnp.where(count > 0, mean, state.rows))

    def _assigned(self, population: Population) -> Array:
        clients = len(population.importance)
        if self.assignment is not None:
            check_one_each("aggregation.assignment", self.assignment, clients)
            return jnp.asarray(self.assignment)
        if population.labels is None:
            raise FedtideError("aggregation ClusterMemory: this problem has no labels to group by; give `assignment`")
        return cluster_by_labels(population.labels, min(self.clusters, clients))
