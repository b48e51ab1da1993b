"""The average drift at optimum: numbers by hand, and where it vanishes."""

import numpy as np
import pytest

from fedtide.errors import FedtideError
from fedtide.theory import QuadraticFamily, SoftmaxFamily, average_drift

EVEN = [0.5, 0.5]


def test_two_clients_by_hand():
    # w* = 3/4; after two steps of 0.1 the clients are at 0.75 · 0.9² and 1 − 0.25 · 0.7², so Σ α Δ = 0.0075.
    assert average_drift(QuadraticFamily(np.array([1.0, 3.0]), np.array([[0.0], [1.0]])), EVEN, 0.1, 2) == (
        pytest.approx(0.0075 / 0.2, abs=1e-15)
    )


def test_it_is_the_gradient_after_local_steps():
    rng = np.random.default_rng(0)
    family = QuadraticFamily(rng.uniform(1, 5, 6), rng.normal(size=(6, 3)))
    alpha = rng.dirichlet(np.ones(6))
    after = family.after_local_steps(0.05, 7)
    wanted = np.linalg.norm(after.gradient(family.minimise(alpha), alpha))
    assert average_drift(family, alpha, 0.05, 7) == pytest.approx(wanted, rel=1e-12)
    assert wanted > 1e-3


def test_equal_hessians_and_single_steps_do_not_drift():
    rng = np.random.default_rng(1)
    centres = 100 * rng.normal(size=(5, 2))  # optima far apart: large gradients at w*
    alike = QuadraticFamily(np.full(5, 2.0), centres)
    assert average_drift(alike, np.full(5, 0.2), 0.1, 20) < 1e-12
    unlike = QuadraticFamily(np.arange(1.0, 6.0), centres)
    assert average_drift(unlike, np.full(5, 0.2), 0.1, 1) < 1e-12
    assert average_drift(unlike, np.full(5, 0.2), 0.1, 2) > 1


def test_softmax():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(30, 2)), rng.integers(0, 3, 30)
    family = SoftmaxFamily(x, y, np.array([10, 20]), ridge=0.1, classes=3)
    assert average_drift(family, EVEN, 0.5, 1) < 1e-7
    assert average_drift(family, EVEN, 0.5, 5) > 1e-4


@pytest.mark.parametrize(("rate", "steps", "line"), [(0.0, 1, "rate = 0.0"), (0.1, 0, "local_steps = 0")])
def test_bad_input_is_named(rate, steps, line):
    with pytest.raises(FedtideError, match=line):
        average_drift(QuadraticFamily(np.ones(2), np.zeros((2, 1))), EVEN, rate, steps)
