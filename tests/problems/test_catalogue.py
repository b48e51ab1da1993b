"""Every problem of the catalogue keeps the contract of a problem. A new one is one line in the catalogue."""

import subprocess
import sys

import jax
import numpy as np
import pytest

from fedtide import problems
from fedtide.errors import InvalidInput

SMALL = {
    "quadratic": {"clients": 4},
    "synthetic_leaf": {"clients": 4, "largest": 60, "inputs": 6, "classes": 3},
    "synthetic_clustered": {"clients": 4},
    "digits": {"clients": 4, "ridge": 0.1},
    "images": {"clients": 4, "ridge": 0.1},
    "blobs": {"ridge": 0.1, "model": problems.softmax_regression, "points": 50},
}
"""Arguments that make a problem quick enough for a test, and convex."""

evaluate = jax.jit(lambda problem, w: problem.evaluate(w))


@pytest.fixture(scope="module", params=sorted(problems.CATALOGUE))
def problem(request):
    return problems.find(request.param).build(**SMALL[request.param])


def test_importance_and_sizes(problem):
    sizes, alpha = np.asarray(problem.sizes), np.asarray(problem.importance)
    assert sizes.shape == alpha.shape
    assert (sizes >= 1).all()
    assert alpha.sum() == pytest.approx(1)


def test_mean_sample_loss_plus_penalty_is_the_training_loss(problem):
    params = jax.tree.map(lambda p: np.asarray(p) + 0.1, problem.init(jax.random.key(0)))
    sizes = np.asarray(problem.sizes)
    losses = jax.jit(lambda p, w, s: p.losses(w, s) + p.penalty(w))(problem, params, np.arange(sizes.sum()))
    means = [mine.mean() for mine in np.split(np.asarray(losses), np.cumsum(sizes)[:-1])]
    np.testing.assert_allclose(means, evaluate(problem, params).train_loss, rtol=1e-5)


def test_optima(problem):
    """At w* the objective has no slope, and no client is better off there than at its own optimum."""
    own, w = problem.client_optima(), problem.optimum()
    with jax.enable_x64(True):
        alpha = np.asarray(problem.importance)

        def objective(w):
            losses = problem.evaluate(w).train_loss
            return (alpha * losses).sum(), losses

        gradient, losses = jax.jit(jax.grad(objective, has_aux=True))(w)
        assert all(np.abs(g).max() < 1e-9 for g in jax.tree.leaves(gradient))
        assert own.shape == alpha.shape
        assert (own <= np.asarray(losses) + 1e-9).all()


def test_summaries_are_one_line():
    for entry in problems.CATALOGUE.values():
        assert 20 < len(entry.summary) < 121
        assert "\n" not in entry.summary


def test_an_unknown_name_says_what_was_meant():
    with pytest.raises(InvalidInput) as caught:
        problems.find("digit")
    known = "one of blobs, digits, images, quadratic, synthetic_clustered, synthetic_leaf (did you mean 'digits'?)"
    assert str(caught.value) == f"problem = 'digit': must be {known}"


def test_importing_problems_imports_nothing_heavy():
    heavy = "scipy", "sklearn", "polars", "pydantic", "matplotlib"
    code = f"import sys, fedtide.problems; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
