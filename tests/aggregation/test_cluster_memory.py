"""One remembered update for each cluster: by hand, its two extremes, and the clusters it finds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtide.aggregation import ClusterMemory, LatestUpdates, WeightedSum
from fedtide.errors import FedtideError, InvalidInput
from fedtide.types import Cohort, Population, Updates

ROUNDS, CLIENTS, DIMENSION = 10, 6, 3
RNG = np.random.default_rng(1)
PRESENT = RNG.random((ROUNDS, CLIENTS)) < 0.6
PRESENT[4] = False
DELTA = np.where(PRESENT[..., None], RNG.normal(size=(ROUNDS, CLIENTS, DIMENSION)), 0)
WEIGHT = PRESENT / np.maximum(PRESENT.sum(axis=1, keepdims=True), 1)  # sums to 1
POPULATION = Population(jnp.full(CLIENTS, 1 / CLIENTS), jnp.ones(CLIENTS))


@jax.jit
def run(rule, weight=WEIGHT):
    def one(state, row):
        present, weight, delta = row
        rate = jnp.where(present, 0.5, 0)
        updates = Updates(delta, rate, jnp.ones(CLIENTS, jnp.int32), rate, rate, round_rate=jnp.asarray(0.5))
        direction, state = rule.combine(
            state, Cohort(jnp.arange(CLIENTS), present, weight, POPULATION.importance), updates
        )
        return state, (direction, state)

    return jax.lax.scan(one, rule.init(POPULATION, DIMENSION), (PRESENT, weight, DELTA))[1]


def test_by_hand(float64):
    member = np.array([0, 0, 1, 1, 1, 0])
    y, found = np.zeros((2, DIMENSION)), []
    for here, q, delta in zip(PRESENT, WEIGHT, DELTA, strict=True):
        found.append(y[member].mean(axis=0) + q @ (delta - y[member]))
        for c in range(2):
            if (here & (member == c)).any():
                y[c] = delta[here & (member == c)].mean(axis=0)
    np.testing.assert_allclose(run(ClusterMemory(2, member))[0], found, rtol=1e-12, atol=1e-15)


def test_a_cluster_for_each_client_is_the_memory_of_all(float64):
    each, _ = run(ClusterMemory(CLIENTS, np.arange(CLIENTS)))
    np.testing.assert_allclose(each, run(LatestUpdates())[0], rtol=1e-12, atol=1e-15)


def test_one_cluster_cancels(float64):
    one, _ = run(ClusterMemory(1, np.zeros(CLIENTS, int)))
    several = PRESENT.any(axis=1)  # a round without updates moves along the memory
    np.testing.assert_allclose(one[several], run(WeightedSum())[0][several], rtol=1e-12, atol=1e-15)


def found_from(labels, clusters):
    population = Population(jnp.full(len(labels), 1 / len(labels)), jnp.ones(len(labels)), labels=jnp.asarray(labels))
    return np.asarray(jax.jit(lambda p: ClusterMemory(clusters).init(p, 2).cluster)(population))


def test_clusters_are_found_from_labels_whatever_the_sizes():
    kind = RNG.integers(0, 3, 60)
    mix = np.eye(3)[kind] * 0.8 + RNG.dirichlet(np.ones(3), 60) * 0.2
    cluster = found_from(mix * RNG.integers(10, 1000, (60, 1)), 3)
    pairs = set(zip(kind.tolist(), cluster.tolist(), strict=True))
    assert len(pairs) == 3  # one cluster a kind
    np.testing.assert_array_equal(cluster, found_from(mix * 50.0, 3))


def test_clients_with_the_same_labels_are_together():
    labels = np.array([[4.0, 0], [8, 0], [0, 3], [0, 9]])
    assert len(set(found_from(labels, 9).tolist())) == 2  # more clusters than clients, than kinds


def test_it_says_what_is_missing():
    with pytest.raises(FedtideError, match="no labels to group by; give `assignment`"):
        ClusterMemory(2).init(POPULATION, 3)
    with pytest.raises(InvalidInput, match="4 entries': must be one for each of 6 clients"):
        ClusterMemory(2, np.array([0, 1, 1, 0])).init(POPULATION, 3)


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda: ClusterMemory(0), "clusters"),
        (lambda: ClusterMemory(2, np.array([0, 2])), r"assignment\[1\]"),
        (lambda: ClusterMemory(2, np.array([0.5, 1])), "assignment"),
    ],
)
def test_errors_name_the_bad_field(build, field):
    with pytest.raises(InvalidInput, match=rf"^aggregation\.{field} = "):
        build()
