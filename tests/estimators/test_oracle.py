import jax.numpy as jnp
import numpy as np
import pytest

from fedtide.availability import Cyclic
from fedtide.errors import FedtideError
from fedtide.estimators import Oracle
from fedtide.types import Population


def test_knows_the_truth():
    people = Population(jnp.full(2, 0.5), jnp.ones(2), jnp.array([0.1, 0.9]), jnp.array([0.9, 0.0]))
    oracle = Oracle()
    state = oracle.init(people)
    for available in ([True, False], [False, False]):
        estimate, state = oracle.update(state, jnp.array(available))
        np.testing.assert_array_equal(estimate.availability, people.availability)
        np.testing.assert_array_equal(estimate.correlation, people.correlation)


def test_without_a_truth_it_says_so():
    cyclic = Cyclic([0, 1])
    people = Population(jnp.full(2, 0.5), jnp.ones(2), jnp.asarray(cyclic.availability), cyclic.correlation)
    with pytest.raises(FedtideError, match="no known stationary π and λ; use one such as Bayesian"):
        Oracle().init(people)
