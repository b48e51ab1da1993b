"""Where methods end on quadratics: predicted exactly, not "the loss went down".

One full-batch step a round and independent rounds make E[w] obey a linear recursion whose fixed point is the optimum of
Σ p_k F_k, p_k ∝ E[q_k 1{k there}]. The mean over seeds of the last iterate must lie within five standard errors of it
in every coordinate (under normality a chance of 6e-7 each; 3 coordinates, 5 cases).
"""

import itertools

import numpy as np
import pytest

import fedtide
from fedtide.availability import Always, Bernoulli
from fedtide.estimators import Oracle
from fedtide.participation import Everyone
from fedtide.problems.quadratic import random_quadratic
from fedtide.work import Steps

PI = np.array([0.9, 0.9, 0.1, 0.1])
ONE_STEP = Steps(count=1, batch=1)


@pytest.fixture(scope="module")
def problem():
    return random_quadratic(clients=4, dimension=3, seed=1)


def adafed_importance(alpha: np.ndarray, pi: np.ndarray) -> np.ndarray:
    """E[q_k 1{k there}] of AdaFed by enumeration of all availability sets."""
    total = np.zeros(len(pi))
    for here in itertools.product([False, True], repeat=len(pi)):
        here = np.array(here)
        if here.any():
            weight = np.where(here, alpha / pi, 0)
            total += np.where(here, pi, 1 - pi).prod() * weight / weight.sum()
    return total / total.sum()


def last_models(problem, method, rounds=1500, seeds=400):
    found = fedtide.simulate(
        problem, Bernoulli(PI), {"m": method}, rounds=rounds, seeds=seeds, evaluate_every=50, record_clients=False
    )
    return found.models["m"]


def assert_mean_is(models: np.ndarray, target: np.ndarray, slack: float = 1e-6):
    error = models.mean(axis=0) - target
    assert (np.abs(error) <= 5 * models.std(axis=0, ddof=1) / np.sqrt(len(models)) + slack).all(), error


def excludes(models: np.ndarray, target: np.ndarray):
    error = np.abs(models.mean(axis=0) - target)
    return (error > 10 * models.std(axis=0, ddof=1) / np.sqrt(len(models)) + 1e-6).any()


def test_fixed_weights_end_at_the_biased_optimum(problem):
    method = fedtide.compose(fedtide.methods.fedavg(rate=0.05, work=ONE_STEP), participation=Everyone(weights="fixed"))
    models = last_models(problem, method)
    biased = PI * problem.importance / (PI * problem.importance).sum()
    assert_mean_is(models, problem.optimum(biased))
    assert excludes(models, problem.optimum())


def test_unbiased_ends_at_the_optimum(problem):
    models = last_models(problem, fedtide.methods.unbiased(rate=0.05, work=ONE_STEP, estimator=Oracle()))
    assert_mean_is(models, problem.optimum())


def test_adafed_ends_at_neither(problem):
    models = last_models(problem, fedtide.methods.adafed(rate=0.05, work=ONE_STEP, estimator=Oracle()))
    assert_mean_is(models, problem.optimum(adafed_importance(problem.importance, PI)))
    assert excludes(models, problem.optimum())
    assert excludes(models, problem.optimum(PI / PI.sum()))


def test_most_available_ends_at_the_optimum_of_the_kept(problem):
    method = fedtide.methods.most_available(rate=0.05, fraction=0.5, work=ONE_STEP, estimator=Oracle())
    assert_mean_is(last_models(problem, method), problem.optimum(np.array([0.5, 0.5, 0, 0])))


def test_f3ast_ends_near_the_optimum(problem):
    """Near, since its rates are the long-run selection rates only as β → 0: r of a selected client is β too large."""
    method = fedtide.methods.f3ast(rate=0.05, clients=4, smoothing=0.004, work=ONE_STEP)
    models = last_models(problem, method, rounds=2500, seeds=400)
    biased = problem.optimum(PI / PI.sum())
    assert_mean_is(models, problem.optimum(), slack=0.04 * np.linalg.norm(biased - problem.optimum()))
    assert excludes(models, biased)


@pytest.mark.parametrize("name", ["unbiased", "ca_fed", "adafed"])
def test_with_everybody_there_all_are_fedavg(blobs, name):
    """π = 1: equal to the bit."""
    options = {"estimator": Oracle()} | ({"kappa_squared": np.inf} if name == "ca_fed" else {})
    methods = {"a": fedtide.methods.fedavg(), "b": fedtide.methods.CATALOGUE[name].build(**options)}
    found = fedtide.simulate(blobs, Always(12), methods, rounds=6, seeds=2, evaluate_every=6)
    np.testing.assert_array_equal(found.models["a"], found.models["b"])


def test_infinite_price_of_bias_is_unbiased(blobs, chains):
    """κ̄² → ∞ never excludes: equal to the bit, with known and with estimated availability."""
    for estimator in (Oracle(), fedtide.estimators.Bayesian()):
        methods = {
            "a": fedtide.methods.unbiased(estimator=estimator),
            "b": fedtide.methods.ca_fed(kappa_squared=np.inf, estimator=estimator),
        }
        found = fedtide.simulate(blobs, chains, methods, rounds=6, seeds=2, evaluate_every=6)
        np.testing.assert_array_equal(found.models["a"], found.models["b"])


def test_no_price_of_bias_excludes(blobs, chains):
    method = fedtide.methods.ca_fed(kappa_squared=0.0)
    found = fedtide.simulate(blobs, chains, method, rounds=6, seeds=1, evaluate_every=6)
    rounds = found.rounds.filter(found.rounds["round"] > 0)
    assert (rounds["invited"] < rounds["available"]).any()
