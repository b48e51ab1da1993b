"""FOCUS: the server's sum is everybody's latest gradient."""

import jax
import numpy as np
import pytest

from fedtide import methods as m
from fedtide.problems.quadratic import random_quadratic
from fedtide.schedules import Geometric
from fedtide.work import Steps

N, RATE = 4, 0.1
PI = np.array([0.9, 0.9, 0.1, 0.1])
TRACE = np.random.default_rng(0).uniform(size=(2500, N)) < PI


@pytest.fixture(scope="module")
def problem():
    with jax.enable_x64(True):
        return random_quadratic(N, 3, importance=[0.4, 0.3, 0.2, 0.1], seed=1)


def latest_gradients(problem, models, trace):
    """[T, N, d]: of each client at the model of the last round in which it was there, 0 before any."""
    latest, found = np.zeros((N, 3)), []
    for w, there in zip(models, trace, strict=True):
        latest = np.where(there[:, None], np.einsum("kij,kj->ki", problem.hessians, w - problem.centres), latest)
        found.append(latest)
    return np.array(found)


def test_with_one_step_the_server_s_sum_is_that_of_the_latest_gradients(problem, play):
    trace = TRACE[:20].copy()
    trace[4] = False
    states = play(problem, m.focus(RATE, work=Steps(1, batch=1)), trace)
    models = np.concatenate([problem.start[None], states.w[:-1]])
    expected = RATE * np.einsum("k,tki->ti", problem.importance, latest_gradients(problem, models, trace))
    np.testing.assert_allclose(states.aggregation, expected, atol=1e-13)
    np.testing.assert_allclose(states.w, models - states.aggregation, atol=1e-13)  # the empty round, too


def test_what_the_server_holds_is_what_the_clients_sent_last(problem, play):
    """With any number of steps and any schedule."""
    method = m.focus(RATE, work=Steps(3, batch=1), schedule=Geometric(0.9))
    states = play(problem, method, TRACE[:20])
    held = np.einsum("k,tki->ti", problem.importance, states.solver.client)
    np.testing.assert_allclose(states.aggregation, held, atol=1e-13)


def test_local_steps_follow_the_tracked_gradient(problem, play):
    """Two rounds of three steps by hand, one client there."""
    trace = np.zeros((2, N), bool)
    trace[:, 0] = True
    states = play(problem, m.focus(RATE, work=Steps(3, batch=1)), trace)
    gradient = lambda x: problem.hessians[0] @ (x - problem.centres[0])  # noqa: E731
    w, v, last = problem.start, 0.0, 0.0
    for found in states.w:
        y = gradient(w) - last
        x = w - RATE * y
        y = y + gradient(x) - gradient(w)
        y = y + gradient(x - RATE * y) - gradient(x)
        last = last + y
        v = v + problem.importance[0] * RATE * y
        w = w - v
        np.testing.assert_allclose(found, w, atol=1e-13)


def test_it_comes_to_rest_at_the_optimum_however_unequal_participation_is(problem, play):
    w = play(problem, m.focus(RATE, work=Steps(1, batch=1)), TRACE).w[-1]
    np.testing.assert_allclose(w, problem.optimum(), atol=1e-6)


def test_the_server_s_sum_does_not_drift_in_single_precision():
    """What a client remembers is what the server got, rounded as models are: far from 0 that matters.

    Centres at 100 make models of size 100, whose last bit is 1e-5: differences that were forgotten would add up.
    """
    import fedtide
    from fedtide.problems.quadratic import quadratic

    rng = np.random.default_rng(0)
    hessians = np.stack([np.diag(rng.uniform(0.5, 2, 3)) for _ in range(6)])
    problem = quadratic(hessians, 100 + rng.normal(size=(6, 3)))
    step = {"rate": 1e-3, "work": Steps(count=1, batch=1)}
    methods = {"focus": fedtide.methods.focus(**step), "mifa": fedtide.methods.mifa(**step)}
    fleet = fedtide.availability.Bernoulli(np.full(6, 0.5))
    found = fedtide.simulate(problem, fleet, methods, rounds=4000, seeds=1, evaluate_every=50, record_clients=False)
    far = np.linalg.norm(found.models["mifa"][0] - problem.optimum())
    assert np.linalg.norm(found.models["focus"][0] - found.models["mifa"][0]) < 0.02 * far + 1e-3
