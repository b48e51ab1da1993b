"""The exact equalities between methods, in double precision with full gradients; one test a family.

On quadratics every gradient is the full one. Equal means to 1e-12 of the model after eight rounds.
"""

import jax
import numpy as np
import pytest

import fedtide
from fedtide import methods as m
from fedtide.availability import Always, Bernoulli
from fedtide.estimators import Oracle
from fedtide.participation import Everyone
from fedtide.problems.quadratic import random_quadratic
from fedtide.work import Steps

CLIENTS, ROUNDS = 6, 8
WORK = Steps(count=3, batch=1)
COMMON = {"rate": 0.1, "work": WORK}


@pytest.fixture(scope="module")
def problem():
    with jax.enable_x64(True):
        return random_quadratic(clients=CLIENTS, dimension=3, seed=2)


def models(problem, methods, availability=None, rounds=ROUNDS):
    """The last models of all methods, {label: [seeds, d]}, in double precision."""
    with jax.enable_x64(True):
        process = availability or Always(CLIENTS)
        found = fedtide.simulate(problem, process, methods, rounds=rounds, seeds=2, evaluate_every=rounds)
    assert all(model.dtype == np.float64 for model in found.models.values())
    return found.models


def assert_all_equal(found):
    labels = list(found)
    for label in labels[1:]:
        np.testing.assert_allclose(found[label], found[labels[0]], rtol=1e-12, atol=1e-13, err_msg=label)


def test_with_everybody_there_these_are_fedavg(problem):
    """Line 1: full participation."""
    everybody = {"clients": CLIENTS, **COMMON}
    found = models(
        problem,
        {
            "fedavg": m.fedavg(**COMMON),
            "fedvarp": m.fedvarp(**everybody),
            "cluster_fedvarp": m.cluster_fedvarp(**everybody, clusters=2, assignment=np.arange(CLIENTS) % 2),
            "mifa": m.mifa(**COMMON),
            "mifa, without waiting": m.mifa(**COMMON, wait=False),
            "fedlaavg": m.fedlaavg(**everybody),
            "fedstale 0": m.fedstale(**COMMON, trust=0.0, estimator=Oracle()),
            "fedstale ½": m.fedstale(**COMMON, trust=0.5, estimator=Oracle()),
            "fedau": m.fedau(**COMMON),
            "fedawe": m.fedawe(**COMMON),
            "fedpbc": m.fedpbc(**COMMON),
            "stochastic approximation": m.stochastic_approximation(**COMMON, power=0.0),
            "fednova": m.fednova(**COMMON),
            "cyclic": m.cyclic_participation(**COMMON, groups=1, clients=CLIENTS),
            "gfedavg": m.generalised_fedavg(**COMMON, factor=1.0),
        },
    )
    assert_all_equal(found)
    assert np.linalg.norm(found["fedavg"]) > 0.1  # it did move


def test_memory_that_is_refreshed_first_is_mifa(problem):
    """Line 2: FedVARP with y updated before use = MIFA; N clusters = FedVARP; one cluster = FedAvg."""
    flaky = Bernoulli([0.9, 0.5, 0.8, 0.3, 0.6, 0.7])
    sample = {"clients": 2, **COMMON}
    own = np.arange(CLIENTS)
    found = models(
        problem,
        {
            "mifa": m.mifa(**COMMON, wait=False),
            "fedvarp": fedtide.compose(m.fedvarp(**sample), participation=Everyone("fixed")),
        },
        flaky,
    )
    assert_all_equal(found)
    assert_all_equal(
        models(
            problem,
            {"a": m.fedvarp(**sample), "b": m.cluster_fedvarp(**sample, clusters=CLIENTS, assignment=own)},
            flaky,
        )
    )
    one = {"a": m.fedavg(**sample), "b": m.cluster_fedvarp(**sample, clusters=1, assignment=0 * own)}
    assert_all_equal(models(problem, one))


def test_nothing_added_is_fedavg(problem):
    """Line 3: FedExP of one client; FedProx with μ = 0; the first round of SCAFFOLD, FedVARP and FedSGD of one step."""
    flaky = Bernoulli([0.9, 0.5, 0.8, 0.3, 0.6, 0.7])
    plain = {"fedavg": m.fedavg(**COMMON)}
    assert_all_equal(models(problem, plain | {"fedprox": m.fedprox(**COMMON, mu=0.0)}, flaky))
    one = {"clients": 1, **COMMON}
    assert_all_equal(models(problem, {"fedavg": m.fedavg(**one), "fedexp": m.fedexp(**one, average=False)}, flaky))
    first = plain | {"scaffold": m.scaffold(**COMMON), "amplified": m.amplified_scaffold(**COMMON, factor=1.0)}
    assert_all_equal(models(problem, first, rounds=1))
    step = {"rate": 0.1, "work": Steps(count=1, batch=1)}
    assert_all_equal(models(problem, {"fedavg": m.fedavg(**step), "fedsgd": m.fedsgd(rate=0.1)}))
    sample = {"clients": 2, **COMMON}
    assert_all_equal(models(problem, {"fedavg": m.fedavg(**sample), "fedvarp": m.fedvarp(**sample)}, flaky, rounds=1))


def test_tail_risk_without_a_tail_is_fedavg(problem):
    """Line 4: γ = 1, and level 1 from t = 0 with losses that are not negative."""
    lottery = fedtide.availability.RandomAccess(np.array([0.3, 0.25, 0.2, 0.1, 0.1, 0.05]))
    found = models(
        problem,
        {
            "fedavg": m.fedavg(**COMMON),
            "γ = 1": m.fed_cvar_avg(**COMMON, level=0.3, mix=1.0),
            "level 1": m.fed_cvar_avg(**COMMON, level=1.0, mix=0.3),
        },
        lottery,
    )
    assert_all_equal(found)


def test_ca_fed_without_exclusions_is_unbiased(problem):
    """Line 5: κ̄² = ∞; and with everybody there it is FedAvg."""
    flaky = Bernoulli([0.9, 0.5, 0.8, 0.3, 0.6, 0.7])
    oracle = {"estimator": Oracle(), **COMMON}
    both = {"ca_fed": m.ca_fed(**oracle, kappa_squared=np.inf), "unbiased": m.unbiased(**oracle)}
    assert_all_equal(models(problem, both, flaky))
    assert_all_equal(models(problem, both | {"fedavg": m.fedavg(**COMMON)}))


def test_all_as_candidates_are_the_largest_losses(problem):
    """Line 6: d = K is deterministic. (That d = m samples uniformly is tested with the policy.)"""
    with jax.enable_x64(True):
        found = fedtide.simulate(
            problem, Always(CLIENTS), m.pow_d(**COMMON, clients=2, candidates=CLIENTS), rounds=3, seeds=3,
            evaluate_every=1,
        )  # fmt: skip
        invited = found.clients["invited"].to_numpy().reshape(3, 3, CLIENTS)
        # The first round is decided at the initial model, the same for all seeds of a quadratic.
        losses = np.asarray(problem.evaluate(problem.init(jax.random.key(0))).train_loss)
    np.testing.assert_array_equal(np.flatnonzero(invited[0, 0]), np.sort(np.argsort(-losses)[:2]))
    np.testing.assert_array_equal(invited, np.broadcast_to(invited[0], invited.shape))


def test_one_local_step_of_focus_is_mifa(problem):
    """Line 7: FOCUS with τ = 1 keeps Σ α (last gradient of each) and so is MIFA without waiting."""
    flaky = Bernoulli([0.9, 0.5, 0.8, 0.3, 0.6, 0.7])
    step = {"rate": 0.1, "work": Steps(count=1, batch=1)}
    assert_all_equal(models(problem, {"focus": m.focus(**step), "mifa": m.mifa(**step, wait=False)}, flaky))


def test_fully_trusted_stale_updates_are_fedvarp_where_cohorts_have_their_mean_size(problem):
    """Line 7: FedStale(β = 1) = FedVARP when |S| = π N: weights α/π and 1/|S| agree."""
    groups = fedtide.availability.Cyclic(groups=2, clients=CLIENTS)  # half of the clients, every round
    half = fedtide.estimators.Bayesian(on=1e18, off=1e18)
    stale = m.fedstale(**COMMON, trust=1.0, estimator=half)
    assert_all_equal(models(problem, {"fedvarp": m.fedvarp(**COMMON, clients=3), "fedstale": stale}, groups))
