"""SCAFFOLD: its control variates, and where it comes to rest."""

import jax
import numpy as np
import pytest

from fedtide import methods as m
from fedtide.methods import compose
from fedtide.problems.quadratic import random_quadratic
from fedtide.solvers import ControlVariate, Momentum, Proximal
from fedtide.work import Steps, StepsPerClient

N = 4
WORK = Steps(count=3, batch=1)
EVERYBODY = np.ones((1, N), bool)
FLAKY = np.random.default_rng(1).uniform(size=(12, N)) < 0.5
FLAKY[3] = False  # and one empty round


@pytest.fixture(scope="module")
def problem():
    with jax.enable_x64(True):
        return random_quadratic(N, 3, importance=[0.4, 0.3, 0.2, 0.1], seed=1)


def gradients(problem, w):
    return np.einsum("kij,kj->ki", problem.hessians, w - problem.centres)


def test_the_first_round_is_fedavg_s(problem, play):
    first = [play(problem, method(0.1, work=WORK), FLAKY[:1]).w[-1] for method in (m.scaffold, m.fedavg)]
    assert FLAKY[0].any()
    np.testing.assert_allclose(*first, rtol=1e-13)


@pytest.mark.parametrize("inner", [None, Momentum(0.1, work=WORK), Proximal(0.1, mu=0.3, work=WORK, decay=0.5)])
def test_c_is_always_the_mean_of_the_c_k(problem, play, inner):
    method = m.scaffold(0.1, work=WORK)
    method = method if inner is None else compose(method, solver=ControlVariate(inner))
    solver = play(problem, method, FLAKY).solver
    mean = np.einsum("k,tki->ti", problem.importance, solver.client.control)
    np.testing.assert_allclose(solver.shared.control, mean, atol=1e-14)
    assert np.abs(mean[-1]).max() > 0.01


def test_who_is_absent_keeps_its_c_k_and_who_is_there_has_its_gradient(problem, play):
    """With one local step c_k is the gradient at the model of the round."""
    states = play(problem, m.scaffold(0.1, work=Steps(1, batch=1)), FLAKY)
    models = np.concatenate([problem.start[None], states.w[:-1]])
    expected = np.zeros((N, 3))
    for w, there, found in zip(models, FLAKY, states.solver.client.control, strict=True):
        expected[there] = gradients(problem, w)[there]
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_with_one_step_and_everybody_there_it_is_gradient_descent(problem, play):
    states = play(problem, m.scaffold(0.1, work=Steps(1, batch=1)), np.repeat(EVERYBODY, 6, axis=0))
    w = problem.start
    for found in states.w:
        w = w - 0.1 * problem.importance @ gradients(problem, w)
        np.testing.assert_allclose(found, w, atol=1e-13)


def test_it_comes_to_rest_at_the_optimum_and_fedavg_does_not(problem, play):
    trace = np.repeat(EVERYBODY, 500, axis=0)
    scaffold, fedavg = (play(problem, method(0.5, work=WORK), trace).w[-1] for method in (m.scaffold, m.fedavg))
    np.testing.assert_allclose(scaffold, problem.optimum(), atol=1e-8)
    assert np.linalg.norm(fedavg - problem.optimum()) > 0.01


def test_momentum_does_not_move_where_it_comes_to_rest(problem, play):
    """The exact ‖a‖₁ makes c_k a mean gradient for momentum, too."""
    trace = np.repeat(EVERYBODY, 500, axis=0)
    method = compose(m.scaffold(), solver=ControlVariate(Momentum(0.3, decay=0.5, work=WORK)))
    np.testing.assert_allclose(play(problem, method, trace).w[-1], problem.optimum(), atol=1e-8)


def test_without_steps_a_client_keeps_its_c_k(problem, play):
    work = StepsPerClient(np.array([2, 0, 1, 3]), batch=1)
    control = play(problem, m.scaffold(0.1, work=work), np.repeat(EVERYBODY, 3, axis=0)).solver.client.control
    assert (control[:, 1] == 0).all()
    assert (np.abs(control[:, [0, 2, 3]]).max(axis=-1) > 0).all()


def test_it_comes_to_rest_at_the_optimum_however_rarely_some_are_there(problem, play):
    """g_k = c_k and c = 0 there, whoever takes part: the bias of unequal availability is transient."""
    clients = len(problem.importance)
    trace = np.random.default_rng(5).random((1500, clients)) < np.linspace(0.2, 0.9, clients)
    last = play(problem, m.scaffold(0.1, work=Steps(3, batch=1)), trace).w[-1]
    np.testing.assert_allclose(last, problem.optimum(), atol=1e-6)
