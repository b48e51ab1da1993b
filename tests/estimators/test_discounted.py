import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtide.availability import Bernoulli, Markov
from fedtide.errors import InvalidInput
from fedtide.estimators import Bayesian, Discounted
from fedtide.types import Estimate, Population


def beliefs(estimator, trace) -> Estimate:
    """What it believes after each round [T, N]."""
    trace = jnp.asarray(trace, bool)
    clients = trace.shape[1]
    state = estimator.init(Population(jnp.full(clients, 1 / clients), jnp.ones(clients)))
    return jax.lax.scan(lambda s, a: estimator.update(s, a)[::-1], state, trace)[1]


def test_hand_worked_posterior():
    # Half-life 1: on, off, off leave weights ¼, ½, 1. Transitions on → off (½) and off → off (1).
    believed = beliefs(Discounted(half_life=1.0), [[1], [0], [0]])
    np.testing.assert_allclose(believed.availability[-1], [(0.25 + 1) / (1.75 + 2)], rtol=1e-6)
    np.testing.assert_allclose(believed.correlation[-1], [1 / 2.5 + 2 / 3 - 1], rtol=1e-5)


def test_an_observation_halves_in_a_half_life():
    # After one round on and ten off the weight of the first is ½, of all together (1 − 2^−1.1) / (1 − 2^−0.1).
    believed = beliefs(Discounted(half_life=10.0, prior=2.0), [[1]] + [[0]] * 10)
    total = (1 - 0.5**1.1) / (1 - 0.5**0.1)
    np.testing.assert_allclose(believed.availability[-1], [(0.5 + 2) / (total + 4)], rtol=1e-5)


def test_without_forgetting_it_is_bayesian():
    trace = Markov([0.3, 0.7], [0.5, 0.0]).sample(0, 100)
    for forgets, keeps in zip(beliefs(Discounted(1e12), trace), beliefs(Bayesian(), trace), strict=True):
        np.testing.assert_allclose(forgets, keeps, rtol=1e-5, atol=1e-6)


def test_tracks_a_change():
    # 300 rounds with π = 0.9, then 300 with 0.1; about h/ln 2 = 29 rounds count, so the standard error is
    # √(π(1−π) ln 2/(2h)) = 0.04, the prior adds 0.03, and what remains of the past 2^−15.
    often, rarely = Bernoulli(0.9, clients=50).sample(0, 300), Bernoulli(0.1, clients=50).sample(1, 300)
    trace = np.concatenate([often, rarely])
    tracking = np.asarray(beliefs(Discounted(20.0), trace).availability)
    assert abs(tracking[299].mean() - 0.9) < 0.06
    assert abs(tracking[599].mean() - 0.1) < 0.06
    # Three half-lives after the change it is on the other side; all of history together never is.
    assert tracking[360].mean() < 0.3
    assert np.asarray(beliefs(Bayesian(), trace).availability)[599].mean() > 0.45


def test_tracks_a_change_of_persistence():
    runs = Markov(0.5, 0.9, clients=50).sample(0, 1000)
    noise = Bernoulli(0.5, clients=50).sample(1, 1000)
    believed = np.asarray(beliefs(Discounted(100.0), np.concatenate([runs, noise])).correlation)
    # About 144 rounds count, 72 of each row: a standard error of 0.06 for a client at λ = 0, 0.01 for the mean of 50.
    assert believed[999].mean() > 0.75
    assert abs(believed[1999].mean()) < 0.1


@pytest.mark.parametrize("arguments", [{"half_life": 0.0}, {"prior": -1.0}])
def test_bad_arguments(arguments):
    with pytest.raises(InvalidInput, match=r"estimator.(half_life|prior) = -?\d.0: must be a positive"):
        Discounted(**arguments)
