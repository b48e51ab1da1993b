"""Closed forms against numerical minimisation, and the gradient noise against its definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from fedtide.errors import InvalidInput
from fedtide.problems import Quadratic, quadratic, random_quadratic

WEIGHTS = [None, "uniform", np.array([1.0, 0.0, 5.0, 2.0])]


@pytest.fixture(scope="module")
def problem() -> Quadratic:
    return random_quadratic(4, 3, condition=20.0, noise=0.7, noise_samples=6, importance=np.array([4, 3, 2, 1]), seed=3)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_optimum_is_where_numerical_minimisation_ends(problem, weights):
    found = minimize(lambda w: problem.value(w, weights), np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(problem.optimum(weights), found.x, atol=1e-6)
    assert problem.value(problem.optimum(weights), weights) <= found.fun + 1e-12


def test_value_is_the_weighted_sum_of_what_evaluate_says(problem):
    w = np.array([0.3, -1.0, 2.0])
    by_client = problem.evaluate(jnp.asarray(w))
    p = np.array([0.1, 0.2, 0.3, 0.4])
    assert problem.value(w, p) == pytest.approx(float(p @ by_client.train_loss), rel=1e-6)
    assert problem.value(w) == pytest.approx(float(problem.importance @ by_client.train_loss), rel=1e-6)
    assert np.isnan(by_client.test_loss).all()
    assert np.isnan(by_client.test_accuracy).all()


def test_by_hand():
    # ½·1·(w − 0)² and ½·3·(w − 4)²: equal weights end at 12/4 = 3 with value ½(½·9 + ½·3·1) = 3.
    problem = quadratic([1.0, 3.0], [[0.0], [4.0]])
    assert problem.optimum().tolist() == [3.0]
    assert problem.value(problem.optimum()) == 3.0
    assert problem.optimum([3.0, 1.0]).tolist() == [2.0]
    assert problem.sizes.tolist() == [1, 1]


def test_client_optima_are_zero_and_reached_at_the_centres(problem):
    assert problem.client_optima().tolist() == [0.0] * 4
    losses = [problem.evaluate(jnp.asarray(c)).train_loss[k] for k, c in enumerate(problem.centres)]
    np.testing.assert_allclose(losses, 0.0, atol=1e-12)


def test_samples_average_to_the_client_loss_exactly_and_to_its_gradient(problem):
    w = jnp.array([0.3, -1.0, 2.0])
    samples = np.arange(24).reshape(4, 6)
    losses = np.array([problem.losses(w, s) for s in samples])
    np.testing.assert_allclose(losses.mean(axis=1), problem.evaluate(w).train_loss, rtol=1e-5)
    # The noise cancels in pairs, in float32 too.
    assert not (np.float32(problem.noise[:, ::2]) + np.float32(problem.noise[:, 1::2])).any()


@pytest.mark.parametrize("noise", [0.7, np.array([0.0, 0.5, 1.0, 3.0])])
def test_one_samples_gradient_has_exactly_the_requested_variance(noise):
    problem = random_quadratic(4, 3, seed=1)
    problem = quadratic(problem.hessians, problem.centres, noise=noise, noise_samples=10)
    gradients = jax.vmap(jax.grad(lambda w, i: problem.losses(w, i[None])[0]), in_axes=(None, 0))
    g = gradients(jnp.ones(3), jnp.arange(40)).reshape(4, 10, 3)
    exact = np.einsum("kij,kj->ki", problem.hessians, 1 - problem.centres)
    np.testing.assert_allclose(g.mean(axis=1), exact, atol=1e-5)
    variance = ((np.asarray(g) - exact[:, None]) ** 2).sum(axis=2).mean(axis=1)
    np.testing.assert_allclose(variance, np.broadcast_to(noise, 4) ** 2, rtol=1e-4, atol=1e-10)


def test_random_quadratic_has_the_stated_conditioning_and_is_addressed_by_client():
    large, small = random_quadratic(6, 5, condition=50.0, seed=2), random_quadratic(3, 5, condition=50.0, seed=2)
    eigenvalues = np.linalg.eigvalsh(large.hessians)
    np.testing.assert_allclose(eigenvalues[:, 0], 1 / 50, rtol=1e-9)
    np.testing.assert_allclose(eigenvalues[:, -1], 1, rtol=1e-9)
    np.testing.assert_array_equal(large.hessians[:3], small.hessians)
    np.testing.assert_array_equal(large.centres[:3], small.centres)
    assert not np.allclose(large.centres, random_quadratic(6, 5, seed=3).centres)
    assert 0.02 <= random_quadratic(1, 1, condition=50.0).hessians.item() <= 1


def test_the_initial_model_is_zero_or_given():
    assert quadratic([1.0], [[1.0, 2.0]]).init(jax.random.key(0)).tolist() == [0.0, 0.0]
    assert quadratic([1.0], [[1.0, 2.0]], start=[3.0, 4.0]).init(jax.random.key(0)).tolist() == [3.0, 4.0]


def test_importance_by_size_is_uniform_here():
    assert quadratic([1.0, 2.0], [[1.0], [2.0]], noise=1.0, importance="size").importance.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"hessians": [[[1.0, 2.0], [0.0, 1.0]]]}, "hessians = array([[[1., 2.], [0., 1.]]]): must be symmetric"),
        ({"hessians": [-1.0]}, "hessians[0] = np.float64(-1.0): must be positive definite"),
        ({"hessians": [1.0, 2.0]}, "shape of hessians = (2, 2, 2): must be (1,) or (1, 2, 2)"),
        ({"centres": [1.0]}, "shape of centres = (1,): must be (clients, dimension)"),
        ({"centres": [[np.nan, 1.0]]}, "centres = array([[nan, 1.]]): must be finite"),
        (
            {"centres": [[1.0], [1.0, 2.0]]},
            "centres = [[1.0], [1.0, 2.0]]: must be numbers, equally many per client",
        ),
        ({"noise": -1.0}, "noise = array(-1.): must be 0 or more"),
        ({"noise": [1.0, 1.0]}, "shape of noise = (2,): must be () or (1,)"),
        ({"noise_samples": 3}, "noise_samples = 3: must be even, 2 or more"),
        ({"start": [1.0]}, "shape of start = (1,): must be (2,)"),
        ({"importance": [0.0]}, "importance = array([0.]): must be ≥ 0, finite, not all 0"),
    ],
)
def test_errors_name_field_value_and_what_is_allowed(arguments, line):
    with pytest.raises(InvalidInput) as caught:
        quadratic(**{"hessians": [1.0], "centres": [[1.0, 2.0]], **arguments})
    assert str(caught.value) == line


@pytest.mark.parametrize("bad", [{"clients": 0}, {"dimension": 0}, {"condition": 0.5}, {"spread": -1.0}, {"seed": -1}])
def test_random_quadratic_names_the_bad_argument(bad):
    (name,) = bad
    with pytest.raises(InvalidInput, match=f"^{name} = "):
        random_quadratic(**bad)
