"""The generator follows its stated law, and addresses its randomness by client."""

import numpy as np
import pytest

from fedtide.errors import InvalidInput
from fedtide.problems import synthetic_leaf


def test_sizes_are_a_shifted_lognormal_and_split_nine_to_one():
    problem = synthetic_leaf(clients=400, inputs=1, classes=2)
    sizes = np.asarray(problem.sizes) + np.asarray(problem.test_sizes)
    assert sizes.min() >= 50
    np.testing.assert_array_equal(problem.sizes, (0.9 * sizes).astype(int))
    # log of the excess over 50 (rounded down: add ½) ~ N(4, 2²): its mean has standard error 0.1, its standard
    # deviation 0.07. Bands of 0.45 and 0.3 are over 4 of them (error rate below 1e-4).
    logs = np.log(sizes - 50 + 0.5)
    assert abs(logs.mean() - 4) < 0.45
    assert abs(logs.std() - 2) < 0.3


def test_inputs_have_variance_j_to_the_minus_1_2_around_a_clients_own_mean():
    problem = synthetic_leaf(clients=30, seed=5, largest=3000)
    x, sizes = np.asarray(problem.x, np.float64), np.asarray(problem.sizes)
    means = np.array([mine.mean(axis=0) for mine in np.split(x, np.cumsum(sizes)[:-1])])
    within = x - np.repeat(means, sizes, axis=0)
    variance = (within**2).sum(axis=0) / (len(x) - 30)
    # About 8,000 samples: a variance has a relative standard error of √(2/8000) = 1.6 %; the band is 6 of them.
    assert len(x) > 6000
    np.testing.assert_allclose(variance, np.arange(1.0, 61) ** -1.2, rtol=0.1)


@pytest.mark.parametrize(("delta", "expected"), [(0.0, 1.0), (3.0, 3.0)])
def test_delta_spreads_the_clients_input_means(delta, expected):
    # A client's mean input has entries ~ N(B_k, 1): the mean over 60 entries has standard deviation
    # √(δ² + 1/60 + small) over clients; times √60 where δ = 0. 200 clients: relative standard error 5 %, the band is
    # 4 of them.
    problem = synthetic_leaf(delta=delta, clients=200, largest=60)
    means = np.array([m.mean() for m in np.split(np.asarray(problem.x), np.cumsum(np.asarray(problem.sizes))[:-1])])
    scale = np.sqrt(60) if delta == 0 else 1.0
    assert means.std() * scale == pytest.approx(expected, rel=0.2)


def test_labels_are_those_of_a_linear_model():
    # With many samples of a client, softmax regression fits its training labels almost perfectly.
    from sklearn.linear_model import LogisticRegression

    problem = synthetic_leaf(clients=1, seed=3, largest=400, inputs=5, classes=3)
    x, y = np.asarray(problem.x), np.asarray(problem.y)
    assert len(np.unique(y)) > 1
    assert LogisticRegression(C=1e6, max_iter=5000).fit(x, y).score(x, y) > 0.97


def test_gamma_moves_weights_and_bias_together_so_labels_do_not_see_it():
    # u_k is the mean of every entry of W_k and b_k: it adds the same number to every logit.
    still, moved = (synthetic_leaf(gamma=gamma, clients=3, largest=200) for gamma in (0.0, 50.0))
    np.testing.assert_array_equal(still.x, moved.x)
    assert (np.asarray(still.y) == np.asarray(moved.y)).mean() > 0.999  # rounding at 50 · Σx may turn a label


def test_with_iid_and_delta_0_every_client_has_the_same_distribution():
    from sklearn.linear_model import LogisticRegression

    problem = synthetic_leaf(delta=0.0, clients=6, iid=True, largest=2000, inputs=4, classes=3)
    x, y = np.asarray(problem.x), np.asarray(problem.y)
    cuts = np.cumsum(np.asarray(problem.sizes))[:-1]
    inputs, labels = np.split(x, cuts), np.split(y, cuts)
    # One linear model labels all clients: fitted on one alone, it labels the others.
    model = LogisticRegression(C=1e6, max_iter=5000).fit(inputs[0], labels[0])
    assert all(model.score(x, y) > 0.85 for x, y in zip(inputs, labels, strict=True))
    # Means of clients differ by sampling alone: at most 4.5 standard errors in 24 comparisons (error rate 2e-4).
    for mine in inputs:
        assert (np.abs(mine.mean(axis=0)) * np.sqrt(len(mine)) < 4.5 * np.arange(1.0, 5) ** -0.6).all()


def test_iid_inputs_are_those_of_the_other_data_moved_to_one_mean():
    apart, iid = (synthetic_leaf(delta=2.0, clients=3, largest=100, iid=iid) for iid in (False, True))
    moved = np.asarray(apart.x, np.float64) - np.asarray(iid.x, np.float64)
    for mine in np.split(moved, np.cumsum(np.asarray(apart.sizes))[:-1]):
        np.testing.assert_allclose(mine, np.tile(mine[:1], (len(mine), 1)), atol=1e-5)


def test_a_client_depends_on_seed_and_number_only():
    few, many = synthetic_leaf(clients=2, largest=100), synthetic_leaf(clients=4, largest=100)
    count = int(np.sum(few.sizes))
    np.testing.assert_array_equal(few.x, many.x[:count])
    np.testing.assert_array_equal(few.y, many.y[:count])
    capped = synthetic_leaf(clients=2, largest=50)
    np.testing.assert_array_equal(capped.x[:45], few.x[:45])
    assert not np.array_equal(synthetic_leaf(clients=2, largest=100, seed=1).x[:45], few.x[:45])


def test_importance_by_size():
    problem = synthetic_leaf(clients=5, importance="size", largest=300)
    np.testing.assert_allclose(problem.importance, problem.sizes / np.sum(problem.sizes))


@pytest.mark.parametrize(
    "bad",
    [
        {"gamma": -1.0},
        {"delta": np.nan},
        {"clients": 0},
        {"seed": -1},
        {"inputs": 0},
        {"classes": 1},
        {"largest": 1},
        {"iid": 1},
    ],
)
def test_errors_name_the_bad_argument(bad):
    (name,) = bad
    with pytest.raises(InvalidInput, match=f"^{name} = "):
        synthetic_leaf(**bad)
