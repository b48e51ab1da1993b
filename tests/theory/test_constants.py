import numpy as np
import pytest

from fedtide.errors import InvalidInput
from fedtide.theory import SoftmaxFamily, quadratic_constants, softmax_constants

RADIUS = 2.0


def points(dimension, count=300, seed=0):
    """Models in the ball, many of them on its edge."""
    random = np.random.default_rng(seed)
    w = random.normal(size=(count, dimension))
    lengths = RADIUS * np.where(np.arange(count) % 2, 1.0, random.random(count))
    return w / np.linalg.norm(w, axis=1, keepdims=True) * lengths[:, None]


def check(family, constants, biased):
    at_biased = family.values(biased)
    for w in points(family.dimension):
        gradients = family.gradients(w)
        assert np.linalg.norm(gradients, axis=1).max() <= constants.slope * (1 + 1e-12)
        assert np.abs(family.values(w) - at_biased).max() <= constants.height * (1 + 1e-12)
        eigenvalues = [np.linalg.eigvalsh(family.hessian(w, one)) for one in np.eye(family.clients)]
        assert np.max(eigenvalues) <= constants.smoothness * (1 + 1e-9)
        assert np.min(eigenvalues) >= constants.convexity * (1 - 1e-9)


def test_quadratics(quadratics):
    family = quadratics(3, 3, seed=4)
    biased = family.minimise(np.array([0.6, 0.3, 0.1]))
    constants = quadratic_constants(family, RADIUS, biased, noise=[0.1, 0.2, 0.3], rate=0.1, local_steps=4)
    check(family, constants, biased)
    assert constants.condition == constants.smoothness / constants.convexity
    assert constants.diameter == 2 * RADIUS


def test_gradients_stay_below_g_at_local_iterates(quadratics):
    """E‖g‖² ≤ G² where noise has carried local iterates out of the ball; the margin is far above Monte Carlo error."""
    family = quadratics(2, 3, seed=4)
    sigma, rate, steps = 3.0, 0.8, 6
    constants = quadratic_constants(family, RADIUS, np.zeros(3), sigma**2, rate, steps)
    random = np.random.default_rng(0)
    for w in points(3, count=6):
        local = np.tile(w, (2000, 2, 1))
        for _ in range(steps):
            noise = sigma / np.sqrt(3) * random.standard_normal(local.shape)
            g = np.einsum("kij,rkj->rki", family.hessians, local - family.centres) + noise
            assert (g**2).sum(2).mean(0).max() <= constants.gradient**2
            local = local - rate * g


def test_softmax():
    random = np.random.default_rng(0)
    x, y = random.normal(size=(60, 3)), random.integers(0, 3, 60)
    family = SoftmaxFamily(x, y, np.array([20, 40]), 0.1, 3)
    biased = family.minimise(np.array([0.5, 0.5]))
    assert np.linalg.norm(biased) < RADIUS
    constants = softmax_constants(family, RADIUS, batch=5)
    check(family, constants, biased)
    assert constants.convexity == 0.1
    for w in points(family.dimension, count=50):
        noise = [np.trace(family.sample_covariance(w, one)) / 5 for one in np.eye(2)]
        assert (noise <= constants.noise).all()
    assert (softmax_constants(family, RADIUS).noise == 0).all()


def test_bad_input(quadratics):
    family = quadratics(2, 2, seed=0)
    with pytest.raises(InvalidInput, match="radius"):
        quadratic_constants(family, -1.0, np.zeros(2))
    with pytest.raises(InvalidInput, match="at most 2/L"):
        quadratic_constants(family, 1.0, np.zeros(2), rate=50.0, local_steps=2)
