"""Those who were away longest."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtide.errors import InvalidInput
from fedtide.participation import LeastRecent
from fedtide.streams import Purpose, Stream
from fedtide.types import Estimate, Observation, Population

ALPHA = jnp.array([0.1, 0.2, 0.3, 0.2, 0.2])


@jax.jit
def run(policy, available, seed=0):
    nothing, population = jnp.zeros(5), Population(ALPHA, jnp.ones(5))

    def one(state, row):
        t, here = row
        stream = Stream(seed, Purpose.PARTICIPATION, t)
        seen = Observation(here, Estimate(nothing, nothing), nothing, nothing > 0, t, stream, population)
        decision, state = policy.decide(state, seen)
        return state, decision

    return jax.lax.scan(one, policy.init(population), (jnp.arange(len(available)), jnp.asarray(available, bool)))[1]


def test_the_order_by_hand():
    available = np.array([[1, 0, 0, 0, 0], [0, 1, 1, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [1, 1, 1, 1, 1], [0] * 5])
    invited = np.asarray(run(LeastRecent(2), available).invited)
    np.testing.assert_array_equal(invited[0], [1, 0, 0, 0, 0])
    np.testing.assert_array_equal(invited[1], [0, 1, 1, 0, 0])
    assert invited[2].tolist() in ([1, 1, 0, 0, 0], [1, 0, 1, 0, 0])  # 0 first, then one of the two of round 1
    np.testing.assert_array_equal(invited[3], [0, 0, 0, 1, 1])  # never before
    left_out = 1 if invited[2, 2] else 2
    assert invited[4, left_out]
    assert not invited[5].any()


def test_always_there_is_taking_turns():
    invited = np.asarray(run(LeastRecent(1), np.ones((25, 5))).invited)
    assert (invited.reshape(5, 5, 5).sum(axis=1) == 1).all()  # everybody once in every five rounds
    np.testing.assert_array_equal(invited[:5], invited[5:10])


def test_ties_are_broken_at_random():
    first = np.asarray(jax.vmap(lambda s: run(LeastRecent(2), np.ones((1, 5)), s).invited[0])(np.arange(2000)))
    # A share of .4 in 2,000 draws has a standard error of .011; the band is 5 of them (5 clients: error rate 3e-6).
    np.testing.assert_allclose(first.mean(axis=0), 0.4, atol=0.055)


def test_weights_are_fixed_unless_given():
    decision = run(LeastRecent(5), np.ones((1, 5)))
    np.testing.assert_array_equal(decision.weight[0], ALPHA)
    np.testing.assert_allclose(run(LeastRecent(5, "equal"), np.ones((1, 5))).weight[0], 0.2, rtol=1e-6)
    assert (LeastRecent(3).capacity(5), LeastRecent(3).capacity(2)) == (3, 2)


@pytest.mark.parametrize("bad", [{"clients": 0}, {"weights": "even"}])
def test_errors_name_the_bad_field(bad):
    (name,) = bad
    with pytest.raises(InvalidInput, match=rf"^participation\.{name} = "):
        LeastRecent(**bad)
