from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from fedtide import problems
from fedtide.errors import InvalidInput
from fedtide.theory import QuadraticFamily, SoftmaxFamily


@pytest.fixture(scope="module")
def softmax():
    random = np.random.default_rng(0)
    x, y = random.normal(size=(240, 4)), random.integers(0, 3, 240)
    y = np.where(x[:, 0] > 0.3, 2, y)
    return SoftmaxFamily(x, y, np.array([60, 100, 80]), 0.05, 3)


P = np.array([0.2, 0.5, 0.3])


def numerical(f, w, h=1e-6):
    return np.array([(f(w + h * e) - f(w - h * e)) / (2 * h) for e in np.eye(len(w))])


def families(softmax, quadratics):
    return [softmax, quadratics(3, 5, seed=1)]


def test_derivatives_are_those_of_the_values(softmax, quadratics):
    for family in families(softmax, quadratics):
        random = np.random.default_rng(1)
        w, v = random.normal(size=family.dimension), random.normal(size=(3, family.dimension))
        np.testing.assert_allclose(family.gradients(w), numerical(family.values, w).T, atol=1e-7)
        np.testing.assert_allclose(family.gradient(w, P), P @ family.gradients(w), atol=1e-12)
        np.testing.assert_allclose(family.hessian(w, P), numerical(partial(family.gradient, p=P), w), atol=1e-7)
        each = [family.hessian(w, one) @ u for one, u in zip(np.eye(3), v, strict=True)]
        np.testing.assert_allclose(family.products(w, v), each, atol=1e-12)


def test_minimisers_have_no_gradient(softmax, quadratics):
    for family in families(softmax, quadratics):
        for p in (P, np.eye(3)[0]):
            assert np.linalg.norm(family.gradient(family.minimise(p), p)) < 1e-10


@pytest.mark.parametrize("ridge", [1e-6, 1e-2, 100.0])
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_the_gradient_vanishes_whatever_the_condition(softmax, ridge, scale):
    family = SoftmaxFamily(scale * softmax.x, softmax.y, softmax.sizes, ridge, 3)
    assert np.linalg.norm(family.gradient(family.minimise(P), P)) < 1e-13


def test_client_minima(softmax):
    alone = [softmax.values(softmax.minimise(one))[k] for k, one in enumerate(np.eye(3))]
    np.testing.assert_allclose(softmax.client_minima, alone, atol=1e-10)


def test_softmax_agrees_with_scikit_learn():
    random = np.random.default_rng(3)
    x, y = random.normal(size=(200, 5)), random.integers(0, 4, 200)
    family = SoftmaxFamily(x, y, np.array([200]), 0.1, 4)
    ours = family.minimise(np.ones(1)).reshape(4, 6)
    # A column of ones instead of its intercept, which scikit-learn does not regularise; C = 1/(n r).
    known = LogisticRegression(C=1 / (200 * 0.1), fit_intercept=False, tol=1e-12, max_iter=10_000)
    known.fit(np.hstack([x, np.ones((200, 1))]), y)
    np.testing.assert_allclose(ours, known.coef_, atol=1e-5)


def test_sample_covariance(softmax):
    w = np.random.default_rng(2).normal(size=softmax.dimension)
    singles = SoftmaxFamily(softmax.x, softmax.y, np.ones(240, int), softmax.ridge, 3).gradients(w)
    parts = np.split(singles, [60, 160])
    wanted = sum(weight * np.cov(part.T, bias=True) for weight, part in zip(P, parts, strict=True))
    np.testing.assert_allclose(softmax.sample_covariance(w, P), wanted, atol=1e-10)


def test_local_steps_of_quadratics(quadratics):
    family = quadratics(3, 4, seed=2)
    moved = family.after_local_steps(0.3, 5)
    w = np.random.default_rng(0).normal(size=4)
    local = np.tile(w, (3, 1))
    for _ in range(5):
        local = local - 0.3 * np.einsum("kij,kj->ki", family.hessians, local - family.centres)
    np.testing.assert_allclose(0.3 * 5 * moved.gradients(w), w - local, atol=1e-12)


def test_the_library_s_problems_agree():
    problem = problems.random_quadratic(4, 3, seed=5)
    family = QuadraticFamily(problem.hessians, problem.centres)
    p = np.array([0.1, 0.2, 0.3, 0.4])
    np.testing.assert_allclose(family.minimise(p), problem.optimum(p), atol=1e-12)
    digits = problems.digits(clients=4, seed=1)
    family = SoftmaxFamily(digits.x, digits.y, digits.sizes, digits.ridge, 10)
    known = digits.optimum(p)
    theirs = np.hstack([known["weight"], known["bias"][:, None]]).ravel()
    np.testing.assert_allclose(family.minimise(p), theirs, atol=1e-7)


@pytest.mark.parametrize(
    ("build", "word"),
    [
        (lambda: QuadraticFamily([1.0, -1.0], [[0.0], [1.0]]), "positive definite"),
        (lambda: QuadraticFamily([1.0], [[0.0], [1.0]]), "shape of hessians"),
        (lambda: SoftmaxFamily(np.ones((3, 2)), [0, 1, 2], [3], 0.1, 2), "classes 0 … 1"),
        (lambda: SoftmaxFamily(np.ones((3, 2)), [0, 1, 1], [2], 0.1, 2), "3 samples"),
        (lambda: SoftmaxFamily(np.ones((3, 2)), [0, 1, 1], [3], 0.0, 2), "ridge"),
    ],
)
def test_bad_input(build, word):
    with pytest.raises(InvalidInput, match=word):
        build()
