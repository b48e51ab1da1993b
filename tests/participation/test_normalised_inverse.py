"""AdaFed's effective importance, by enumeration of who may be there."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtide.participation import NormalisedInverse
from fedtide.streams import Purpose, Stream
from fedtide.types import Estimate, Observation, Population


def effective_importance(alpha, pi):
    """E[q] / Σ E[q] over all sets of clients that may be there, each weighed with its probability."""
    clients = len(alpha)
    patterns = np.array(list(itertools.product([False, True], repeat=clients)))
    policy, none = NormalisedInverse(), jnp.zeros(clients)
    population = Population(jnp.asarray(alpha), np.ones(clients))

    def one(available):
        stream = Stream(0, Purpose.PARTICIPATION, 0)
        estimate, nobody = Estimate(jnp.asarray(pi), none), jnp.zeros_like(available)
        seen = Observation(available, estimate, none, nobody, 0, stream, population)
        return policy.decide((), seen)[0].weight

    weights = np.asarray(jax.jit(jax.vmap(one))(patterns), np.float64)
    mean = np.where(patterns, pi, 1 - pi).prod(axis=1) @ weights
    return mean / mean.sum()


def test_two_clients_get_exactly_their_availability():
    np.testing.assert_allclose(effective_importance(np.array([0.5, 0.5]), np.array([0.9, 0.1])), [0.9, 0.1], rtol=1e-6)


def test_five_frequent_and_five_rare_clients():
    found = effective_importance(np.full(10, 0.1), np.repeat([0.9, 0.1], 5))
    np.testing.assert_allclose(found, np.repeat([0.143, 0.057], 5), atol=5e-4)


@pytest.mark.parametrize("pi", [0.2, 1.0])
def test_equal_clients_of_equal_availability_are_weighed_alike(pi):
    np.testing.assert_allclose(effective_importance(np.full(4, 0.25), np.full(4, pi)), 0.25, rtol=1e-6)
