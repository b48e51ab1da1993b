"""Power of choice: whom it picks, how ties are broken, what it remembers, and the skew that is recorded."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedtide
from fedtide.availability import Always
from fedtide.errors import InvalidInput
from fedtide.participation import HighestLoss
from fedtide.problems.quadratic import random_quadratic
from fedtide.streams import Purpose, Stream
from fedtide.types import Cohort, Estimate, Observation, Population, Updates
from fedtide.work import Steps

DRAWS = 4000


@jax.jit
def draw(policy, alpha, loss, available, state=None, rounds=np.arange(DRAWS)):
    """(candidates, invited) of many rounds, all from the same state."""
    alpha = jnp.asarray(alpha, jnp.float32)
    population = Population(alpha, jnp.ones(len(alpha)))
    state = policy.init(population) if state is None else state
    unknown = jnp.full(len(alpha), jnp.nan)

    def one(t):
        stream, nobody = Stream(5, Purpose.PARTICIPATION, t), jnp.zeros(len(alpha), bool)
        here, estimate = jnp.asarray(available, bool), Estimate(unknown, unknown)
        seen = Observation(here, estimate, unknown, nobody, t, stream, population)
        asked = policy.candidates(state, seen)
        seen = seen._replace(asked=asked, loss=jnp.where(asked, jnp.asarray(loss, jnp.float32), 0))
        return asked, policy.decide(state, seen)[0]

    return jax.vmap(one)(rounds)


EVEN, LOSS = np.full(6, 1 / 6), np.array([0.5, 2.0, 1.0, 3.0, 0.1, 2.5])


def test_all_as_candidates_are_the_largest_losses():
    for policy in (HighestLoss(2), HighestLoss(2, 6), HighestLoss(2, 60)):
        asked, decision = draw(policy, EVEN, LOSS, np.ones(6), rounds=np.arange(50))
        assert np.asarray(asked).all()
        np.testing.assert_array_equal(decision.invited, np.tile([0, 0, 0, 1, 0, 1], (50, 1)))
        np.testing.assert_array_equal(decision.weight, np.tile([0, 0, 0, 0.5, 0, 0.5], (50, 1)))


def test_candidates_are_among_the_available():
    asked, decision = draw(HighestLoss(2, 3), EVEN, LOSS, [1, 0, 1, 0, 1, 1], rounds=np.arange(50))
    assert not np.asarray(asked)[:, [1, 3]].any()
    assert (np.asarray(asked).sum(axis=1) == 3).all()
    assert (np.asarray(decision.invited) <= np.asarray(asked)).all()
    few, decision = draw(HighestLoss(3, 4), EVEN, LOSS, [0, 1, 0, 0, 1, 0], rounds=np.arange(3))
    np.testing.assert_array_equal(few, decision.invited)  # fewer than m: all of them
    np.testing.assert_array_equal(decision.weight, np.tile([0, 0.5, 0, 0, 0.5, 0], (3, 1)))


def test_as_many_candidates_as_clients_is_a_uniform_sample():
    _, decision = draw(HighestLoss(2, 2), EVEN, LOSS, np.ones(6))
    # A share of 1/3 in 4,000 draws has a standard error of .0075; the band is 5 of them (6 clients: error rate 4e-6).
    np.testing.assert_allclose(np.asarray(decision.invited).mean(axis=0), 1 / 3, atol=0.038)


def test_without_replacement_the_important_are_included_less_than_in_proportion():
    alpha = np.array([0.5, 0.3, 0.1, 0.1])
    asked, _ = draw(HighestLoss(2, 2), alpha, np.zeros(4), np.ones(4))
    # By enumeration of the two draws; the standard error of a share is at most .0079 / 2, the band 5 of them.
    first = alpha[:, None] * alpha[None, :] / (1 - alpha[:, None])
    np.fill_diagonal(first, 0)
    exact = (first.sum(axis=1) + first.sum(axis=0)) / 2
    np.testing.assert_allclose(exact, [0.413, 0.333, 0.127, 0.127], atol=5e-4)
    np.testing.assert_allclose(np.asarray(asked).mean(axis=0) / 2, exact, atol=0.02)


def test_who_has_no_importance_is_no_candidate():
    asked, _ = draw(HighestLoss(1, 3), np.array([0.5, 0.5, 0.0]), np.ones(3), np.ones(3), rounds=np.arange(20))
    np.testing.assert_array_equal(asked, np.tile([1, 1, 0], (20, 1)))


@pytest.mark.parametrize("loss", [0.0, 1.5, np.inf])
def test_ties_are_broken_at_random(loss):
    _, decision = draw(HighestLoss(2), EVEN, np.full(6, loss), np.ones(6))
    np.testing.assert_allclose(np.asarray(decision.invited).mean(axis=0), 1 / 3, atol=0.038)  # as above


def test_fewer_and_fewer_candidates():
    rounds = np.array([0, 4, 5, 9, 10, 15, 20, 1000, 2**31 - 1])
    world = (np.full(23, 1 / 23), np.arange(23), np.ones(23), None, rounds)
    asked, decision = draw(HighestLoss(3, None, "all", 5), *world)
    assert np.asarray(asked).sum(axis=1).tolist() == [23, 23, 12, 12, 6, 3, 3, 3, 3]
    assert (np.asarray(decision.invited).sum(axis=1) == 3).all()
    asked, _ = draw(HighestLoss(3, 10, "all", 5), *world)
    assert np.asarray(asked).sum(axis=1).tolist() == [10, 10, 5, 5, 3, 3, 3, 3, 3]


def test_what_it_asks_for():
    assert [HighestLoss(2, 4, kind).needs_losses for kind in ("all", "minibatch", "remembered")] == [
        "all", "minibatch", None,
    ]  # fmt: skip
    assert (HighestLoss(2, 4).query_capacity(9), HighestLoss(2, 4).query_capacity(3)) == (4, 3)
    assert (HighestLoss(2).query_capacity(9), HighestLoss(2).capacity(9), HighestLoss(2).capacity(1)) == (9, 2, 1)


def test_remembered_losses():
    policy = HighestLoss(2, None, "remembered")
    state = policy.init(Population(jnp.asarray(EVEN), jnp.ones(6)))
    cohort = Cohort(jnp.array([1, 2, 5, 4, 0]), jnp.array([1, 1, 1, 1, 0], bool), jnp.ones(5), jnp.ones(5) / 6)
    ones = jnp.ones(5)
    updates = Updates(jnp.ones((5, 1)), jnp.array([2.0, 7.0, 1.0, 0.0, 9.0]), jnp.array([1, 3, 2, 0, 4]), ones, ones)
    state = policy.learn(state, cohort, updates)
    # Client 0's row is masked and client 4 took no step: they, and client 3, have never been tried.
    assert state.tolist() == [np.inf, 2, 7, np.inf, np.inf, 1]
    _, decision = draw(policy, EVEN, np.zeros(6), np.ones(6), state)
    share = np.asarray(decision.invited).mean(axis=0)
    np.testing.assert_allclose(share, [2 / 3, 0, 0, 2 / 3, 2 / 3, 0], atol=0.038)  # as above
    _, decision = draw(policy, EVEN, np.zeros(6), [0, 1, 1, 0, 0, 1], state, np.arange(3))
    np.testing.assert_array_equal(decision.invited, np.tile([0, 1, 1, 0, 0, 0], (3, 1)))


@pytest.mark.parametrize(
    ("bad", "field"),
    [((0,), "clients"), ((3, 2), "pool"), ((3, 4, "some"), "losses"), ((3, 4, "all", 0), "halve_every")],
)
def test_errors_name_the_bad_field(bad, field):
    with pytest.raises(InvalidInput, match=rf"^participation\.{field} = "):
        HighestLoss(*bad)


def test_the_recorded_skew_is_the_skew():
    """ρ at the last model: exactly for d = N, and 1 on average for d = m with equal α."""
    problem = random_quadratic(clients=6, dimension=3, seed=3)
    work = Steps(count=1, batch=1)
    pick = {"all": 6, "as many": 2}
    methods = {label: fedtide.methods.pow_d(rate=0.02, clients=2, candidates=d, work=work) for label, d in pick.items()}
    found = fedtide.simulate(problem, Always(6), methods, rounds=40, seeds=4, evaluate_every=2, record_clients=False)
    last = found.rounds.filter(found.rounds["round"] == 40)
    for seed in range(4):
        gap = np.asarray(problem.evaluate(jnp.asarray(found.models["all"][seed])).train_loss, np.float64)  # F* = 0
        expected = np.sort(gap)[-2:].mean() / gap.mean()
        measured = last.filter((last["method"] == "all") & (last["seed"] == seed))["skew"].item()
        assert measured == pytest.approx(expected, rel=1e-4)
        assert measured > 1
    plain = found.rounds.filter((found.rounds["method"] == "as many") & found.rounds["skew"].is_not_null())["skew"]
    # 80 means over 16 draws, of ratios with a standard deviation below 1: the standard error is below .03.
    assert abs(plain.mean() - 1) < 0.15
