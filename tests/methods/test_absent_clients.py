"""Where methods that make up for absent clients end on quadratics, under π = .9 and .1.

One full-batch step a round at a constant rate. Methods with a memory of updates end at the optimum exactly. Those that
weigh by inverse rates of participation have it as the mean of a cloud: over seeds the mean of the last models must lie
within five standard errors of it (under normality a chance of 6e-7 a coordinate; 3 coordinates, 3 cases), plus a slack
where rates are estimated.
"""

import numpy as np
import pytest

import fedtide
from fedtide import methods as m
from fedtide.availability import Bernoulli
from fedtide.estimators import Oracle
from fedtide.problems.quadratic import random_quadratic
from fedtide.work import Steps

PI = np.array([0.9, 0.9, 0.1, 0.1])
COMMON = {"rate": 0.05, "work": Steps(count=1, batch=1)}


@pytest.fixture(scope="module")
def problem():
    return random_quadratic(clients=4, dimension=3, seed=1)


def last_models(problem, method, rounds, seeds):
    found = fedtide.simulate(
        problem, Bernoulli(PI), {"m": method}, rounds=rounds, seeds=seeds, evaluate_every=50, record_clients=False
    )
    return found.models["m"]


@pytest.mark.parametrize(
    "method",
    [m.mifa(**COMMON), m.fedlaavg(**COMMON, clients=2), m.fedvarp(**COMMON, clients=2)],
    ids=["mifa", "fedlaavg", "fedvarp"],
)
def test_a_memory_ends_at_the_optimum_exactly(problem, float64, method):
    models = last_models(problem, method, rounds=1500, seeds=3)
    np.testing.assert_allclose(models, np.tile(problem.optimum(), (3, 1)), atol=1e-7)


@pytest.mark.parametrize(
    ("method", "slack"),
    [
        (m.fedstale(**COMMON, trust=0.5, estimator=Oracle()), 0.0),
        # 1/π̂ from T rounds is off by about 1 / (π T) of itself on average: 1 % at π = .1, so a few % of the bias.
        (m.fedau(**COMMON, cutoff=None), 0.03),
        (m.debiased_fedavg(**COMMON), 0.03),
    ],
    ids=["fedstale", "fedau", "debiased fedavg"],
)
def test_inverse_rates_end_in_a_cloud_around_the_optimum(problem, method, slack):
    models = last_models(problem, method, rounds=1500, seeds=300)
    optimum, biased = problem.optimum(), problem.optimum(PI / PI.sum())
    error, spread = models.mean(axis=0) - optimum, models.std(axis=0, ddof=1) / np.sqrt(len(models))
    assert (np.abs(error) <= 5 * spread + slack * np.linalg.norm(biased - optimum) + 1e-6).all()
    assert (np.abs(models.mean(axis=0) - biased) > 10 * spread).any()
    assert models.std(axis=0).mean() > 1e-3  # a cloud: not a point, as with a memory
