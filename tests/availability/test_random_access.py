import itertools

import numpy as np
import pytest

from fedtide.availability import RandomAccess
from fedtide.availability.random_access import exponential
from fedtide.errors import InvalidInput
from fedtide.streams import Purpose, Stream

P = np.array([0.5, 0.3, 0.1, 0.1])


def enumerated(p: np.ndarray, users: int) -> np.ndarray:
    """Inclusion probabilities by summing over every order in which users can be drawn."""
    included = np.zeros(len(p))
    for order in itertools.permutations(np.flatnonzero(p), users):
        left, chance = 1.0, 1.0
        for k in order:
            chance *= p[k] / left
            left -= p[k]
        included[list(order)] += chance
    return included


@pytest.mark.parametrize("users", [1, 2, 3, 4])
def test_availability_is_exact(users: int):
    np.testing.assert_allclose(RandomAccess(P, users).availability, enumerated(P, users), atol=1e-9)


@pytest.mark.parametrize("p", [[0.9, 0.0999, 0.0001], [0.0, 0.2, 0.3, 0.5], [0.25] * 4])
def test_availability_of_extreme_probabilities(p):
    np.testing.assert_allclose(RandomAccess(p, 2).availability, enumerated(np.array(p), 2), atol=1e-9)


def test_equal_chances_of_many():
    np.testing.assert_allclose(RandomAccess(1 / 300, users=40, clients=300).availability, 40 / 300, atol=1e-9)


def test_what_is_too_long_to_compute_is_unknown():
    p = np.arange(1.0, 5001)
    assert RandomAccess(p / p.sum(), users=500).availability is None


@pytest.mark.parametrize("users", [1, 3])
def test_exactly_that_many_get_through(users: int):
    trace = RandomAccess([0.0, 0.2, 0.3, 0.5], users).sample(0, 500)
    assert (trace.sum(1) == users).all()
    assert not trace[:, 0].any()


def test_a_race_among_many_has_no_ties():
    # Numbers on a grid of 2⁻²⁴ would tie among the first thousand of a million, and index would decide instead of p.
    arrivals = np.sort(np.asarray(exponential(Stream(0, Purpose.AVAILABILITY, 1), 2**20)))[:1000]
    assert arrivals[0] > 0
    assert (np.diff(arrivals) > 0).sum() >= 998
    # The j-th arrival of n is Gamma(j)/n: the thousandth within 5.5 standard errors (4e-8).
    assert abs(arrivals[-1] * 2**20 - 1000) < 5.5 * 1000**0.5


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: RandomAccess([0.5, 0.4]), "values that sum to 1, not 0.9"),
        (lambda: RandomAccess([1.5, -0.5]), r"probabilities\[0\] = 1.5"),
        (lambda: RandomAccess([0.5, 0.5], users=3), "users = 3: must be in 1 … 2"),
        (lambda: RandomAccess([1.0, 0.0], users=2), "users = 2: must be in 1 … 1"),
        (lambda: RandomAccess([0.5, 0.5], users=0), "users = 0"),
    ],
)
def test_bad_channels(build, message: str):
    with pytest.raises(InvalidInput, match=message):
        build()
