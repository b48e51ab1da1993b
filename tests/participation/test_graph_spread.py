"""Far apart, and about equally often."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtide.errors import FedtideError, InvalidInput
from fedtide.participation import GraphSpread
from fedtide.participation.graph_spread import shortest_paths, spread_apart
from fedtide.streams import Purpose, Stream
from fedtide.types import Estimate, Observation, Population

CLIENTS = 8
KIND = np.array([0, 0, 0, 0, 1, 1, 2, 2])
LABELS = 20.0 * np.eye(3)[KIND] + 3
POPULATION = Population(jnp.full(CLIENTS, 1 / CLIENTS), jnp.ones(CLIENTS), labels=jnp.asarray(LABELS))


@jax.jit
def run(policy, available, population=POPULATION):
    nothing = jnp.zeros(CLIENTS)

    def one(state, row):
        t, here = row
        stream = Stream(0, Purpose.PARTICIPATION, t)
        seen = Observation(here, Estimate(nothing, nothing), nothing, nothing > 0, t, stream, population)
        decision, state = policy.decide(state, seen)
        return state, decision

    return jax.lax.scan(one, policy.init(population), (jnp.arange(len(available)), jnp.asarray(available, bool)))[1]


def test_without_spread_the_least_chosen_are_chosen():
    rng = np.random.default_rng(0)
    available = rng.random((60, CLIENTS)) < 0.6
    available[7] = False
    invited = np.asarray(run(GraphSpread(3, spread=0.0), available).invited)
    times = np.zeros(CLIENTS, int)
    for here, chosen in zip(available, invited, strict=True):
        assert chosen.sum() == min(3, here.sum())
        assert not (chosen & ~here).any()
        if chosen.any() and (here & ~chosen).any():
            assert times[chosen].max() <= times[here & ~chosen].min()
        times += chosen


def test_with_spread_those_chosen_differ():
    decision = run(GraphSpread(3, spread=1e3), np.ones((20, CLIENTS)))
    assert all(set(KIND[chosen]) == {0, 1, 2} for chosen in np.asarray(decision.invited))
    np.testing.assert_allclose(np.asarray(decision.weight).sum(axis=1), 1, rtol=1e-6)


def test_in_between_both_count():
    """Clients of every kind, and each about equally often within its kind."""
    invited = np.asarray(run(GraphSpread(3, spread=1.0), np.ones((120, CLIENTS))).invited)
    assert np.mean([len(set(KIND[chosen])) for chosen in invited]) > 2.4  # about 2.2 for three at random
    times = invited.sum(axis=0)
    assert np.ptp(times[KIND == 0]) <= 2


def test_paths_are_shortest():
    lengths = np.array([[0, 1, 5, np.inf], [1, 0, 2, np.inf], [5, 2, 0, np.inf], [np.inf, np.inf, np.inf, 0]])
    expected = [[0, 1, 3, np.inf], [1, 0, 2, np.inf], [3, 2, 0, np.inf], [np.inf, np.inf, np.inf, 0]]
    np.testing.assert_array_equal(shortest_paths(jnp.asarray(lengths)), expected)


def test_distances_are_those_of_the_labels():
    distance = np.asarray(GraphSpread(3).init(POPULATION).distance)
    np.testing.assert_array_equal(distance, distance.T)
    assert not distance.diagonal().any()
    assert distance.max() == pytest.approx(1, rel=1e-6)  # a compiled division may be a product with the inverse
    same = KIND[:, None] == KIND[None, :]
    assert distance[same].max() < 0.01 * distance[~same].min()


def test_the_search_is_nearly_exhaustive():
    rng = np.random.default_rng(2)
    ratios = []
    search = jax.jit(lambda d, c: spread_apart(d, c, jnp.ones(CLIENTS, bool), 4))
    for _ in range(40):
        points, cost = rng.normal(size=(CLIENTS, 2)), rng.uniform(0, 1, CLIENTS)
        distance = np.linalg.norm(points[:, None] - points[None], axis=2)

        def value(chosen, distance=distance, cost=cost):
            chosen = list(chosen)
            return distance[np.ix_(chosen, chosen)].sum() / 2 - cost[chosen].sum()

        best = max(value(chosen) for chosen in itertools.combinations(range(CLIENTS), 4))
        ratios.append(value(np.flatnonzero(search(jnp.asarray(distance), jnp.asarray(cost)))) / best)
    assert min(ratios) > 0.9
    assert np.mean(np.array(ratios) > 1 - 1e-6) > 0.8


def test_given_distances_are_used():
    distance = np.abs(np.arange(CLIENTS)[:, None] - np.arange(CLIENTS)[None, :]).astype(float)
    invited = run(
        GraphSpread(2, spread=1e3, distance=distance), np.ones((5, CLIENTS)), POPULATION._replace(labels=None)
    )
    np.testing.assert_array_equal(invited.invited, np.tile([1, 0, 0, 0, 0, 0, 0, 1], (5, 1)))


def test_it_says_what_is_missing():
    with pytest.raises(FedtideError, match="no labels to compare; give `distance`"):
        GraphSpread(2).init(POPULATION._replace(labels=None))
    many = Population(jnp.ones(1001) / 1001, jnp.ones(1001))
    with pytest.raises(FedtideError, match=r"at most 1,000 clients, not 1,001"):
        GraphSpread(2).init(many)
    with pytest.raises(InvalidInput, match="3 entries': must be one for each of 8 clients"):
        GraphSpread(2, distance=np.zeros((3, 3))).init(POPULATION)


@pytest.mark.parametrize(
    "bad",
    [{"clients": 0}, {"spread": -1.0}, {"scale": 0.0}, {"threshold": 2.0}, {"distance": np.array([[0, 1.0], [2, 0]])}],
)
def test_errors_name_the_bad_field(bad):
    (name,) = bad
    with pytest.raises(InvalidInput, match=rf"^participation\.{name} = "):
        GraphSpread(**bad)
