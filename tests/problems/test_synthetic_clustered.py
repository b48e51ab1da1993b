"""The clustered generator follows its stated law, and addresses its randomness by client."""

import numpy as np
import pytest

from fedtide.errors import InvalidInput
from fedtide.problems import synthetic_clustered


def test_sizes_as_published():
    problem = synthetic_clustered()
    assert np.asarray(problem.sizes).tolist() == [50] * 24
    assert np.asarray(problem.test_sizes).tolist() == [150] * 24
    assert problem.x.shape == (1200, 10)


@pytest.mark.parametrize("heterogeneity", [0.0, 0.2, 1.0])
def test_every_second_client_turns_that_share_of_its_labels(heterogeneity):
    # θ is long enough that labels have signs: P(y = 1 | x) = σ(x·θ) is fitted by its own logistic regression; for the
    # odd clients the same rule must agree with 1 − h of what it agrees with for the even ones, plus h of the rest.
    # 20,000 samples a cluster: standard errors below 0.4 %, bands of 5 of them.
    problem = synthetic_clustered(2, heterogeneity, seed=1, inputs=3, samples=20_000, test_samples=0)
    x, y = np.asarray(problem.x).reshape(2, -1, 3), np.asarray(problem.y).reshape(2, -1)
    theta = np.linalg.lstsq(x[0], y[0] - 0.5, rcond=None)[0]  # its direction, as inputs are Gaussian
    even, odd = ((x[k] @ theta > 0) == y[k] for k in range(2))
    assert even.mean() > 0.6
    expected = (1 - heterogeneity) * even.mean() + heterogeneity * (1 - even.mean())
    assert abs(odd.mean() - expected) < 0.02


def test_labels_follow_the_logistic_law():
    from sklearn.linear_model import LogisticRegression

    problem = synthetic_clustered(2, seed=4, inputs=3, samples=20_000, test_samples=0)
    theta = np.random.default_rng([4, 0]).standard_normal(3)
    fit = LogisticRegression(C=1e6, fit_intercept=False).fit(problem.x[:20_000], problem.y[:20_000])
    np.testing.assert_allclose(fit.coef_[0], theta, atol=0.12)  # standard errors below 0.025


def test_a_client_depends_on_seed_and_number_only():
    few, many = synthetic_clustered(2), synthetic_clustered(4)
    np.testing.assert_array_equal(few.x, many.x[:100])
    np.testing.assert_array_equal(few.test_y, many.test_y[:300])
    assert not np.array_equal(synthetic_clustered(2, seed=1).x, few.x)


@pytest.mark.parametrize(
    "bad",
    [{"clients": 0}, {"heterogeneity": 1.5}, {"seed": -1}, {"inputs": 0}, {"samples": 0}, {"test_samples": -1}],
)
def test_errors_name_the_bad_argument(bad):
    (name,) = bad
    with pytest.raises(InvalidInput, match=f"^{name} = "):
        synthetic_clustered(**bad)
