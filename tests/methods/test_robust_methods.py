"""Robust methods on quadratics with a known optimum: FedAvg without attackers, and their breakdown points."""

from dataclasses import replace

import numpy as np
import pytest

import fedtide
from fedtide import methods as m
from fedtide.availability import Always, Bernoulli
from fedtide.problems.quadratic import quadratic
from fedtide.solvers import Sgd, SignFlip
from fedtide.work import Steps

CLIENTS = 9
WORK = Steps(count=2, batch=1)
COMMON = {"rate": 0.1, "work": WORK}
OPTIMUM = np.array([1.0, -2.0, 0.5])


@pytest.fixture(scope="module")
def equal():
    """Clients with the same quadratic, and so the same updates."""
    return quadratic(np.ones(CLIENTS), np.tile(OPTIMUM, (CLIENTS, 1)))


def test_equal_updates_without_attackers_are_fedavg(equal):
    built = {
        "fedavg": m.fedavg(**COMMON),
        "median": m.coordinate_median(**COMMON),
        "trimmed": m.trimmed_mean(**COMMON),
        "rfa": m.rfa(**COMMON),
        "krum": m.krum(**COMMON),
        "multi-krum": m.krum(**COMMON, keep=4),
        "lowest loss": m.lowest_loss(**COMMON, clients=CLIENTS, candidates=CLIENTS),
    }
    flaky = Bernoulli([0.3, 0.5, 0.9] * 3)
    found = fedtide.simulate(equal, flaky, built, rounds=12, seeds=2, evaluate_every=12).models
    for name, model in found.items():
        np.testing.assert_allclose(model, found["fedavg"], rtol=1e-6, err_msg=name)
    assert np.linalg.norm(found["fedavg"][0]) > 1


# Each with the most attackers that it survives, and the fewest that it does not, of 9 clients.
BREAKDOWN = {
    "fedavg": (m.fedavg(**COMMON), 0, 1),
    "median": (m.coordinate_median(**COMMON), 4, 5),
    "trimmed": (m.trimmed_mean(trim=0.25, **COMMON), 2, 3),
    "rfa": (m.rfa(**COMMON), 4, 5),
    "krum": (m.krum(attackers=3, **COMMON), 3, 5),
    "multi-krum": (m.krum(attackers=3, keep=4, **COMMON), 3, 5),
}


@pytest.mark.parametrize("name", BREAKDOWN)
def test_they_reach_the_optimum_up_to_their_breakdown_point(equal, name):
    method, most, beyond = BREAKDOWN[name]
    runs = {str(count): replace(method, solver=SignFlip(Sgd(0.1, WORK), count, 9.0)) for count in (most, beyond)}
    found = fedtide.simulate(equal, Always(CLIENTS), runs, rounds=60, seeds=1, evaluate_every=60).models
    np.testing.assert_allclose(found[str(most)][0], OPTIMUM, rtol=1e-2)
    assert np.linalg.norm(found[str(beyond)][0] - OPTIMUM) > 5


def test_a_median_forgets_a_minority_that_inverse_weights_would_keep():
    """Four clients at 1 and five at 0: the optimum is 4/9, the median 0, however clients are weighted."""
    problem = quadratic(np.ones(9), np.repeat([0.0, 1.0], [5, 4])[:, None])
    built = {
        "fedavg": m.fedavg(**COMMON),
        "median": m.coordinate_median(**COMMON),
        "weighted": fedtide.compose(m.unbiased(**COMMON), aggregation=m.coordinate_median().aggregation),
        "trimmed": m.trimmed_mean(trim=0.25, **COMMON),
        "krum": m.krum(attackers=2, **COMMON),
    }
    found = fedtide.simulate(problem, Always(9), built, rounds=200, seeds=1, evaluate_every=200).models
    ends = {name: float(model[0, 0]) for name, model in found.items()}
    # Two of each end are trimmed: (2 · 1 + 3 · 0) / 5.
    expected = {"fedavg": 4 / 9, "median": 0, "weighted": 0, "trimmed": 2 / 5, "krum": 0}
    assert ends == pytest.approx(expected, abs=1e-3)
