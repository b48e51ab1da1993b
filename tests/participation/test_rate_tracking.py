"""F3AST's identities, by hand and in the long run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtide.errors import InvalidInput
from fedtide.participation import Everyone, RateTracking
from fedtide.streams import Purpose, Stream
from fedtide.types import Estimate, Observation, Population


@jax.jit
def run(policy, alpha, available):
    """Decisions and rates, round after round."""
    nobody = jnp.zeros(len(alpha))
    population = Population(jnp.asarray(alpha, jnp.float32), jnp.ones(len(alpha)))

    def one(state, available):
        stream = Stream(0, Purpose.PARTICIPATION, 0)
        estimate, asked = Estimate(nobody, nobody), jnp.zeros_like(available)
        decision, state = policy.decide(state, Observation(available, estimate, nobody, asked, 0, stream, population))
        return state, (decision, state)

    return jax.lax.scan(one, policy.init(population), available)[1]


UNIFORM = np.full(6, 1 / 6)


@pytest.mark.parametrize("correlated", [False, True])
def test_equal_clients_that_are_always_there_take_turns(correlated):
    decisions, rates = run(RateTracking(2, 0.01, correlated), UNIFORM, np.ones((3000, 6), bool))
    turns = np.tile(np.repeat(np.eye(3, dtype=bool), 2, axis=1), (1000, 1))
    np.testing.assert_array_equal(decisions.invited, turns)
    # r oscillates by at most β around K/N = 1/3, so the weights α/r by at most β/r around 1/K = ½.
    np.testing.assert_allclose(rates, 1 / 3, atol=0.01)
    np.testing.assert_allclose(np.asarray(decisions.weight)[turns], 0.5, rtol=0.03)


@pytest.mark.parametrize("clients", [6, 8])
def test_room_for_all_who_are_always_there_is_fedavg(clients):
    available = np.ones((20, 6), bool)
    decisions, rates = run(RateTracking(clients), UNIFORM, available)
    fedavg, _ = run(Everyone(weights="fixed"), UNIFORM, available)
    np.testing.assert_array_equal(decisions.invited, fedavg.invited)
    np.testing.assert_allclose(decisions.weight, fedavg.weight, rtol=1e-5)
    np.testing.assert_allclose(rates, 1, rtol=1e-5)


def test_by_hand():
    # r⁰ = min(1, 1·α) = (½, ¼, ¼). Client 0 is away: client 1 wins the tie. β = ½ gives r = (¼, ⅝, ⅛), q₁ = ¼ / ⅝.
    # Then scores α²/r² are (4, .16, 4): client 0 wins the tie; r = (⅝, 5/16, 1/16) and q₀ = ½ / ⅝.
    decisions, rates = run(RateTracking(1, 0.5), [0.5, 0.25, 0.25], np.array([[0, 1, 1], [1, 1, 1]], bool))
    np.testing.assert_array_equal(decisions.invited, [[False, True, False], [True, False, False]])
    np.testing.assert_allclose(decisions.weight, [[0, 0.4, 0], [0.8, 0, 0]], rtol=1e-6)
    np.testing.assert_allclose(rates, [[0.25, 0.625, 0.125], [0.625, 0.3125, 0.0625]], rtol=1e-6)


def test_the_correlated_score_prefers_small_importance_more():
    # α = (.8, .2) at r = (.8, .2): α²/r² ties (client 0 wins), α/r² = (1.25, 5).
    for correlated, first in ((False, 0), (True, 1)):
        decisions, _ = run(RateTracking(1, correlated=correlated), [0.8, 0.2], np.ones((1, 2), bool))
        assert np.flatnonzero(decisions.invited).tolist() == [first]


def test_in_the_long_run_it_is_unbiased_under_unequal_availability():
    rng = np.random.default_rng(0)
    pi = np.array([0.9, 0.7, 0.5, 0.5, 0.3, 0.2])
    alpha = np.array([0.1, 0.1, 0.2, 0.2, 0.2, 0.2])
    decisions, rates = run(RateTracking(2, 0.002), alpha, rng.random((20_000, 6)) < pi)
    late = np.asarray(decisions.weight)[5000:]
    # A mean of q over 15,000 rounds has a relative standard error of about 2 % (weights up to 5, rates above .15, and
    # selection that evens itself out); the band is 4 of them.
    np.testing.assert_allclose(late.mean(axis=0), alpha, rtol=0.08)
    np.testing.assert_allclose(rates[-1].sum(), 2 * 0.97, atol=0.1)  # a few rounds have fewer than two


def test_clients_without_importance_take_no_place_of_others():
    decisions, _ = run(RateTracking(2), [0.0, 0.5, 0.5], np.array([[1, 1, 1], [1, 0, 1]], bool))
    np.testing.assert_array_equal(decisions.invited, [[False, True, True], [True, False, True]])
    assert np.isfinite(decisions.weight).all()
    assert (np.asarray(decisions.weight)[:, 0] == 0).all()


@pytest.mark.parametrize("bad", [{"clients": 0}, {"smoothing": 0.0}, {"smoothing": 2.0}])
def test_errors_name_the_bad_field(bad):
    (name,) = bad
    with pytest.raises(InvalidInput, match=rf"^participation\.{name} = "):
        RateTracking(**bad)
