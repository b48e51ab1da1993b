"""Fed-CVaR-Avg: its identities, and the cheap form."""

import jax
import numpy as np
import pytest

import fedtide
from fedtide import methods as m
from fedtide.availability import RandomAccess
from fedtide.problems.quadratic import random_quadratic
from fedtide.work import Steps

N = 4
WORK = Steps(count=3, batch=1)
TRACE = np.random.default_rng(0).uniform(size=(10, N)) < 0.5


@pytest.fixture(scope="module")
def problem():
    with jax.enable_x64(True):
        return random_quadratic(N, 3, importance=[0.4, 0.3, 0.2, 0.1], seed=1)


@pytest.mark.parametrize(("level", "mix"), [(0.1, 1.0), (1.0, 0.3)])
def test_without_a_tail_it_is_fedavg_and_t_stays(problem, play, level, mix):
    """γ = 1, and α = 1 from t⁰ = 0 with losses above 0."""
    plain = play(problem, m.fedavg(0.1, work=WORK), TRACE)
    found = play(problem, m.fed_cvar_avg(0.1, threshold_rate=0.5, level=level, mix=mix, work=WORK), TRACE)
    np.testing.assert_allclose(found.w, plain.w, rtol=1e-13)
    assert (found.solver.shared == 0).all()


def test_below_t_nothing_but_t_moves(problem, play):
    """γ = 0 and t⁰ above all losses: w stays, t falls by η_t a step."""
    method = m.fed_cvar_avg(0.1, threshold_rate=0.5, level=0.2, mix=0.0, start=100.0, work=WORK)
    states = play(problem, method, np.ones((4, N), bool))
    np.testing.assert_array_equal(states.w, np.tile(problem.start, (4, 1)))
    np.testing.assert_allclose(states.solver.shared, 100 - 1.5 * np.arange(1, 5), rtol=1e-13)


def test_t_is_that_of_the_one_who_gets_through(problem, play):
    """Two steps at w = 0 (η = 0): one user of loss f, t from 0; above t it grows by η_t (1 − γ)(1/α − 1)."""
    there = np.eye(N, dtype=bool)[[2]]
    states = play(problem, m.fed_cvar_avg(0.0, threshold_rate=0.1, level=0.25, mix=0.5, work=WORK), there)
    loss = 0.5 * problem.centres[2] @ problem.hessians[2] @ problem.centres[2]
    t = 0.0
    for _ in range(3):
        t = t - 0.1 * 0.5 * (1 - (loss > t) / 0.25)
    assert t > 0
    np.testing.assert_allclose(states.solver.shared, [t], rtol=1e-12)


def test_training_everyone_changes_no_bit(as_shipped):
    """One of twelve gets through: those who do not may train or not."""
    access = RandomAccess(np.arange(1, 13) / 78)
    settings = {"rate": 0.05, "threshold_rate": 0.02, "level": 0.3, "mix": 0.3}
    methods = {label: m.fed_cvar_avg(**settings, train_everyone=label) for label in (False, True)}
    problem = random_quadratic(12, 3, noise=1.0, seed=1)
    found = fedtide.simulate(
        problem, access, {str(k): v for k, v in methods.items()}, rounds=6, evaluate_every=6, record_clients=False
    )
    np.testing.assert_array_equal(found.models["False"], found.models["True"])
    assert found.models["False"].std() > 0
