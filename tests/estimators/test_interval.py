"""FedAU's gaps: by hand, and where they converge."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtide.availability import Bernoulli, Markov
from fedtide.errors import InvalidInput
from fedtide.estimators import Interval
from fedtide.types import Population


def omega(estimator, trace) -> np.ndarray:
    """1/π̂ after each round [T, N]."""
    trace = jnp.asarray(trace, bool)
    clients = trace.shape[1]
    state = estimator.init(Population(jnp.full(clients, 1 / clients), jnp.ones(clients)))
    believed = jax.jit(lambda trace: jax.lax.scan(lambda s, a: estimator.update(s, a)[::-1], state, trace)[1])(trace)
    assert np.isnan(believed.correlation).all()
    return 1 / np.asarray(believed.availability)


def test_by_hand():
    # Gaps 2, 1 and 4, each counted from the round after it ends.
    found = omega(Interval(None), np.array([0, 1, 1, 0, 0, 0, 1, 0])[:, None])
    np.testing.assert_allclose(found[:, 0], [1, 1, 2, 1.5, 1.5, 1.5, 1.5, 7 / 3], rtol=1e-6)


def test_a_long_gap_is_closed():
    # Cutoff 3: gaps 1, 3 (closed), 2.
    found = omega(Interval(3), np.array([1, 0, 0, 0, 0, 1, 0])[:, None])
    np.testing.assert_allclose(found[:, 0], [1, 1, 1, 1, 2, 2, 2], rtol=1e-6)
    away = omega(Interval(3), np.zeros((50, 1)))
    assert away.max() == pytest.approx(3, rel=1e-6)


def test_a_cutoff_of_one_is_no_estimate_and_neither_are_those_always_there():
    trace = Bernoulli(0.3, clients=4).sample(0, 50)
    assert (omega(Interval(1), trace) == 1).all()
    assert (omega(Interval(50), np.ones((50, 2))) == 1).all()


@pytest.mark.parametrize("process", [Bernoulli([0.9, 0.5, 0.1]), Markov([0.9, 0.5, 0.2], [0.5, 0.8, 0.6])])
def test_the_mean_gap_is_the_inverse_of_availability(process):
    found = omega(Interval(None), process.sample(0, 40_000))[-1]
    # ω = T / (times there); times there has a variance of at most T π(1−π)(1+λ)/(1−λ), so 1/ω has a relative standard
    # error below √((1−π)/π · 9 / T) = .03 for the most persistent and .015 for the rarest: the band is over 4 of them.
    np.testing.assert_allclose(found, 1 / process.availability, rtol=0.07)


def test_a_cutoff_is_biased_towards_the_rare():
    trace = Bernoulli(0.1, clients=20).sample(0, 5000)
    assert omega(Interval(5), trace)[-1].mean() < 5 < omega(Interval(None), trace)[-1].mean()


def test_errors_name_the_bad_field():
    with pytest.raises(InvalidInput, match=r"^estimator\.cutoff = 0: must be a whole number, 1 or more$"):
        Interval(0)
    assert Interval(None).knows == ("availability",)
