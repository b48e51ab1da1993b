"""A pause between two rounds, and weights from the rate of taking part."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtide.availability import Markov
from fedtide.errors import InvalidInput
from fedtide.participation import Everyone, Separated
from fedtide.streams import Purpose, Stream
from fedtide.types import Estimate, Observation, Population

ALPHA = jnp.array([0.4, 0.3, 0.2, 0.1])


@jax.jit
def run(policy, available):
    nothing, population = jnp.zeros(4), Population(ALPHA, jnp.ones(4))

    def one(state, row):
        t, here = row
        stream = Stream(0, Purpose.PARTICIPATION, t)
        seen = Observation(here, Estimate(nothing, nothing), nothing, nothing > 0, t, stream, population)
        decision, state = policy.decide(state, seen)
        return state, decision

    return jax.lax.scan(one, policy.init(population), (jnp.arange(len(available)), jnp.asarray(available, bool)))[1]


def test_by_hand():
    available = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 0], [1, 1, 1, 0]])
    decision = run(Separated(separation=1, prior=2.0), available)
    np.testing.assert_array_equal(decision.invited, [[1, 1, 0, 0], [0, 0, 1, 0], [1, 1, 0, 0], [0, 0, 1, 0]])
    # r₀ = ½: after one round (1 + 1) / 3, client 2 after two (1 + 1) / 4, then (2 + 1) / 5 and (2 + 1) / 6.
    rate = np.array([[2 / 3, 2 / 3, 1, 1], [1, 1, 2 / 4, 1], [3 / 5, 3 / 5, 1, 1], [1, 1, 3 / 6, 1]])
    np.testing.assert_allclose(decision.weight, np.where(decision.invited, ALPHA / rate, 0), rtol=1e-6)


@pytest.mark.parametrize("separation", [0, 1, 3])
def test_everybody_waits(separation):
    invited = np.asarray(run(Separated(separation=separation), Markov(0.7, 0.3, clients=4).sample(1, 200)).invited)
    for k in range(4):
        gaps = np.diff(np.flatnonzero(invited[:, k]))
        assert gaps.min() == separation + 1


def test_always_there_without_a_pause_is_fedavg_to_the_bit():
    everybody = np.ones((20, 4))
    decision, plain = run(Separated(prior=3.0), everybody), run(Everyone("fixed"), everybody)
    jax.tree.map(np.testing.assert_array_equal, decision, plain)


@pytest.mark.parametrize(("clients", "separation"), [(None, 0), (None, 2), (2, 1)])
def test_in_the_long_run_it_is_unbiased_under_unequal_availability(clients, separation):
    trace = Markov([0.9, 0.7, 0.3, 0.2], [0.0, 0.5, 0.0, 0.6]).sample(0, 20_000)
    weight = np.asarray(run(Separated(clients, separation), trace).weight, np.float64)
    # The mean of q over a long time is α times (rounds taken part / T) / r̂, whose r̂ are running means: what is left is
    # the early rounds, about log(T)/T, and the drift of r̂, about the relative error 1/√(T r) of a rate: below 3 %.
    np.testing.assert_allclose(weight.mean(axis=0), ALPHA, rtol=0.03)


def test_a_sample_is_no_larger_than_asked():
    invited = np.asarray(run(Separated(2, 1), np.ones((50, 4))).invited)
    assert (invited.sum(axis=1) == 2).all()
    assert (Separated(2).capacity(5), Separated(2).capacity(1), Separated().capacity(5)) == (2, 1, 5)


@pytest.mark.parametrize("bad", [{"clients": 0}, {"separation": -1}, {"prior": -0.5}])
def test_errors_name_the_bad_field(bad):
    (name,) = bad
    with pytest.raises(InvalidInput, match=rf"^participation\.{name} = "):
        Separated(**bad)
