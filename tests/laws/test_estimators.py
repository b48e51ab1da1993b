"""Laws of every estimator. A new estimator is one line in `parts`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from laws.parts import ESTIMATORS

from fedtide import estimators
from fedtide.availability import Markov
from fedtide.types import Estimate, Population

CHAINS = Markov([0.05, 0.1, 0.3, 0.5, 0.5, 0.9, 0.95], [0.9, 0.0, 0.5, -0.8, 0.8, 0.0, 0.9])
TRACE = CHAINS.sample(0, 300)

ESTIMATING = {name: estimator for name, estimator in ESTIMATORS.items() if estimator.knows}
every = pytest.mark.parametrize("estimator", ESTIMATING.values(), ids=list(ESTIMATING))


def population(order=slice(None)) -> Population:
    clients = CHAINS.clients
    pi, lam = jnp.asarray(CHAINS.availability)[order], jnp.asarray(CHAINS.correlation)[order]
    return Population(jnp.full(clients, 1 / clients), jnp.ones(clients), pi, lam)


def beliefs(estimator, population: Population, trace: np.ndarray) -> Estimate:
    """What it believes after each round [T, N]."""

    def one(state, available):
        estimate, state = estimator.update(state, available)
        return state, estimate

    return jax.jit(lambda trace: jax.lax.scan(one, estimator.init(population), trace)[1])(jnp.asarray(trace))


@every
def test_in_range(estimator):
    always = np.zeros_like(TRACE)
    always[:, :3] = True
    for trace in (TRACE, always):
        believed = beliefs(estimator, population(), trace)
        assert believed.availability.shape == believed.correlation.shape == TRACE.shape
        assert ((believed.availability > 0) & (believed.availability <= 1)).all()  # 1: a mean gap of one round
        inside = (believed.correlation > -1) & (believed.correlation < 1)
        assert (inside if "correlation" in estimator.knows else jnp.isnan(believed.correlation)).all()


@every
def test_renumbering_the_clients_renumbers_the_beliefs(estimator):
    order = np.random.default_rng(0).permutation(CHAINS.clients)
    believed = beliefs(estimator, population(), TRACE)
    renumbered = beliefs(estimator, population(order), TRACE[:, order])
    np.testing.assert_array_equal(renumbered.availability, believed.availability[:, order])
    np.testing.assert_array_equal(renumbered.correlation, believed.correlation[:, order])


@every
def test_the_future_does_not_matter(estimator):
    whole, part = beliefs(estimator, population(), TRACE), beliefs(estimator, population(), TRACE[:20])
    np.testing.assert_array_equal(whole.availability[:20], part.availability)
    np.testing.assert_array_equal(whole.correlation[:20], part.correlation)


def test_blind_says_that_it_does_not_know():
    found, _ = estimators.Blind().update((), jnp.ones(3, bool))
    assert np.isnan(found.availability).all()
    assert np.isnan(found.correlation).all()
