"""FedAWE and FedPBC: clients with models of their own."""

import jax
import numpy as np
import pytest

from fedtide import methods as m
from fedtide.problems.quadratic import random_quadratic
from fedtide.work import Steps

N, RATE = 4, 0.1
ONE = Steps(1, batch=1)
TRACE = np.random.default_rng(5).uniform(size=(12, N)) < 0.5
TRACE[2] = False
TRACE[:5, 3] = False  # somebody who is first seen late


@pytest.fixture(scope="module")
def problem():
    with jax.enable_x64(True):
        return random_quadratic(N, 3, importance=[0.4, 0.3, 0.2, 0.1], seed=1)


def changes(problem, x):
    return RATE * np.einsum("kij,kj->ki", problem.hessians, x - problem.centres)


@pytest.mark.parametrize("method", [m.fedawe, m.fedpbc])
def test_always_on_it_is_fedavg(problem, play, method):
    trace, work = np.ones((8, N), bool), Steps(3, batch=1)
    models = [play(problem, build(RATE, work=work), trace).w for build in (m.fedavg, method)]
    np.testing.assert_allclose(*models, atol=1e-13)


def test_fedawe_by_hand(problem, play):
    states = play(problem, m.fedawe(RATE, amplification=0.8, work=ONE), TRACE)
    x, last, w = np.tile(problem.start, (N, 1)), np.full(N, -1), problem.start
    for t, there in enumerate(TRACE):
        sent = x - 0.8 * (t - last)[:, None] * changes(problem, x)
        if there.any():
            w = problem.importance[there] @ sent[there] / problem.importance[there].sum()
        x[there], last[there] = w, t
        np.testing.assert_allclose(states.w[t], w, atol=1e-12)
        np.testing.assert_allclose(states.solver.client.model[t], x, atol=1e-12)
        np.testing.assert_array_equal(states.solver.client.last[t], last)


def test_fedpbc_by_hand(problem, play):
    states = play(problem, m.fedpbc(RATE, work=ONE), TRACE)
    x, w = np.tile(problem.start, (N, 1)), problem.start
    for t, there in enumerate(TRACE):
        x = x - changes(problem, x)  # all train
        if there.any():
            w = problem.importance[there] @ x[there] / problem.importance[there].sum()
        x[there] = w
        np.testing.assert_allclose(states.w[t], w, atol=1e-12)
        np.testing.assert_allclose(states.solver.client.model[t], x, atol=1e-12)
