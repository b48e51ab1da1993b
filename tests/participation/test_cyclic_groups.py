"""Groups in turn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtide.availability import Cyclic
from fedtide.errors import InvalidInput
from fedtide.participation import CyclicGroups, Everyone, UniformSample
from fedtide.streams import Purpose, Stream
from fedtide.types import Estimate, Observation, Population

ALPHA = jnp.arange(1.0, 8) / 28


@jax.jit
def decide(policy, rounds, available=np.ones(7)):
    nothing, population = jnp.zeros(7), Population(ALPHA, jnp.ones(7))

    def one(t):
        stream = Stream(3, Purpose.PARTICIPATION, t)
        here = jnp.asarray(available, bool)
        seen = Observation(here, Estimate(nothing, nothing), nothing, nothing > 0, t, stream, population)
        return policy.decide(policy.init(population), seen)[0]

    return jax.vmap(one)(rounds)


def test_groups_are_those_of_cyclic_availability():
    invited = decide(CyclicGroups(3), np.arange(9)).invited
    np.testing.assert_array_equal(invited, Cyclic(3, clients=7).sample(0, 9))


def test_weights_and_absence():
    decision = decide(CyclicGroups(2, weights="ratio"), np.arange(2), np.array([1, 0, 1, 1, 0, 1, 0]))
    np.testing.assert_array_equal(decision.invited, [[1, 0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 1, 0]])
    np.testing.assert_allclose(decision.weight, [[1 / 8, 0, 3 / 8, 4 / 8, 0, 0, 0], [0, 0, 0, 0, 0, 1, 0]], rtol=1e-6)


def test_one_group_is_everyone_and_a_uniform_sample_to_the_bit():
    rounds = np.arange(30)
    for cyclic, plain in (
        (CyclicGroups(1, weights="ratio"), Everyone()),
        (CyclicGroups(1, 3), UniformSample(3)),
    ):
        jax.tree.map(np.testing.assert_array_equal, decide(cyclic, rounds), decide(plain, rounds))


def test_a_sample_of_the_group():
    decision = decide(CyclicGroups(2, 2), 2 * np.arange(1500))
    invited = np.asarray(decision.invited)
    assert (invited.sum(axis=1) == 2).all()
    # A share of ½ in 1,500 draws has a standard error of .013; the band is 5 of them (4 clients: error rate 2e-6).
    np.testing.assert_allclose(invited.mean(axis=0), [0.5] * 4 + [0] * 3, atol=0.065)
    assert (CyclicGroups(2, 2).capacity(5), CyclicGroups(2, 2).capacity(1), CyclicGroups(2).capacity(5)) == (2, 1, 5)


def test_errors_name_the_bad_field():
    for bad in ({"groups": 0}, {"clients": 0}, {"weights": "even"}):
        (name,) = bad
        with pytest.raises(InvalidInput, match=rf"^participation\.{name} = "):
            CyclicGroups(**bad)
    with pytest.raises(InvalidInput, match=r"^participation\.groups = 8: must be at most 7, the number of clients$"):
        CyclicGroups(8).init(Population(ALPHA, jnp.ones(7)))
