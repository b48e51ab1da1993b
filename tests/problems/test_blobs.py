"""The toys of the CVaR paper, as published."""

import jax
import numpy as np
import pytest

from fedtide.errors import InvalidInput
from fedtide.problems import blobs, softmax_regression


@pytest.mark.parametrize(
    ("case", "published", "train", "test"),
    [
        ("three_users", False, [[800, 0, 0], [0, 800, 0], [0, 0, 800]], [200, 200, 200]),
        ("four_classes", False, [[900, 0, 0, 0], [0, 900, 0, 0], [0, 0, 900, 900]], [100, 100, 200]),
        ("four_classes", True, [[900, 0, 0, 0], [0, 900, 0, 0], [0, 0, 1800, 900]], [100, 100, 200]),
    ],
)
def test_who_has_what(case, published, train, test):
    problem = blobs(case, published=published)
    np.testing.assert_array_equal(problem.label_counts, train)
    np.testing.assert_array_equal(problem.test_sizes, test)


def test_thirty_users():
    problem = blobs("thirty_users")
    counts = problem.label_counts
    np.testing.assert_array_equal(problem.sizes, [66] * 24 + [133] * 6)
    assert (counts[:24, 2] == 0).all()
    assert (counts[24:, :2] == 0).all()
    assert (counts[:24, :2] > 0).all()
    assert np.sum(problem.test_sizes) == 600


@pytest.mark.parametrize(
    ("case", "centres"),
    [
        ("three_users", [(1, 1), (2, 3), (2.3, 1.5)]),
        ("four_classes", [(1, 1), (2, 3), (3, 1.5), (2, 0.5)]),
        ("thirty_users", [(1, 1), (2, 3), (2.3, 1.5)]),
    ],
)
def test_points_lie_around_the_centres(case, centres):
    # 800 to 900 points of a class: a mean has standard error 0.0036, a standard deviation 0.0025; bands of 5 of them.
    problem = blobs(case, seed=2)
    x, y = np.asarray(problem.x), np.asarray(problem.y)
    for label, centre in enumerate(centres):
        np.testing.assert_allclose(x[y == label].mean(axis=0), centre, atol=0.018)
        np.testing.assert_allclose(x[y == label].std(axis=0), 0.1, atol=0.0125)


def test_the_published_network_starts_at_zero_weights_and_bounds_its_losses():
    ours, theirs = blobs(), blobs(published=True)
    key = jax.random.key(0)
    start, zeros = ours.init(key), theirs.init(key)
    for layer, bound in (("hidden", 2**-0.5), ("out", 1 / 8)):
        assert start[layer]["weight"].any()
        assert not zeros[layer]["weight"].any()
        np.testing.assert_array_equal(start[layer]["bias"], zeros[layer]["bias"])
        assert 0 < np.abs(start[layer]["bias"]).max() <= bound
        assert np.abs(start[layer]["weight"]).max() <= bound
    # A softmax before the cross-entropy of C = 3: losses in [log(1 + 2/e), log(1 + 2/e) + 1], whatever the parameters.
    large = jax.tree.map(lambda p: 100 * (p + 1), zeros)
    losses = np.asarray(jax.jit(lambda p, w: p.losses(w, np.arange(2400)))(theirs, large))
    low = np.log(1 + 2 / np.e)
    assert low - 1e-6 < losses.min() < low + 0.01
    assert low + 0.99 < losses.max() < low + 1 + 1e-6


def test_another_model_and_another_seed():
    problem = blobs(model=softmax_regression, seed=1, points=50)
    assert problem.model == softmax_regression((2,), 3)
    assert not np.array_equal(problem.x, blobs(seed=2, points=50).x)
    np.testing.assert_array_equal(problem.x, blobs(seed=1, points=50).x)


@pytest.mark.parametrize(
    ("bad", "line"),
    [
        ({"case": "two_users"}, "case = 'two_users': must be one of four_classes, thirty_users, three_users"),
        ({"points": 5}, "points = 5: must be a whole number, 10 or more"),
        ({"seed": -1}, "seed = -1: must be 0 or more"),
    ],
)
def test_errors_name_the_bad_argument(bad, line):
    with pytest.raises(InvalidInput) as caught:
        blobs(**bad)
    assert str(caught.value).startswith(line)
    with pytest.raises(InvalidInput, match=r"^model = .*: must be left out where published = True, which has its own"):
        blobs(published=True, model=softmax_regression)
