"""FedAdagrad, FedAdam, FedYogi and FedAvgM against their equations; FedSGD, FedProx, stochastic approximation."""

import jax
import numpy as np
import pytest

from fedtide import methods as m
from fedtide.problems.quadratic import random_quadratic
from fedtide.work import Steps

N, ETA = 4, 0.1
WORK = Steps(count=1, batch=1)
TRACE = np.ones((5, N), bool)


@pytest.fixture(scope="module")
def problem():
    with jax.enable_x64(True):
        return random_quadratic(N, 3, importance=[0.4, 0.3, 0.2, 0.1], seed=1)


def direction(problem, w):
    """η Σ α_k ∇F_k: FedAvg's with one full step."""
    return ETA * problem.importance @ np.einsum("kij,kj->ki", problem.hessians, w - problem.centres)


def adagrad(v, s, t):
    u = s.get("u", 1e-6) + v**2
    s["u"] = u
    return v / np.sqrt(u + 1e-6)


def adam(v, s, t):
    s["m"], s["u"] = 0.9 * s.get("m", 0) + 0.1 * v, 0.99 * s.get("u", 0) + 0.01 * v**2
    return s["m"] / (1 - 0.9**t) / (np.sqrt(s["u"] / (1 - 0.99**t)) + 1e-3)


def yogi(v, s, t):
    u = s.get("u", 1e-6)
    s["m"], s["u"] = 0.9 * s.get("m", 1e-6) + 0.1 * v, u - 0.01 * np.sign(u - v**2) * v**2
    return s["m"] / (1 - 0.9**t) / (np.sqrt(s["u"] / (1 - 0.99**t)) + 1e-3)


def momentum(v, s, t):
    s["m"] = 0.9 * s.get("m", 0) + v
    return s["m"]


def published_adagrad(v, s, t):
    s["u"] = s.get("u", 1e-6) + v**2
    return v / (np.sqrt(s["u"]) + 1e-3)


def published_adam(v, s, t):
    s["m"], s["u"] = 0.9 * s.get("m", 0) + 0.1 * v, 0.99 * s.get("u", 1e-6) + 0.01 * v**2
    return s["m"] / (np.sqrt(s["u"]) + 1e-3)


def published_yogi(v, s, t):
    u = s.get("u", 1e-6)
    s["m"], s["u"] = 0.9 * s.get("m", 0) + 0.1 * v, u - 0.01 * np.sign(u - v**2) * v**2
    return s["m"] / (np.sqrt(s["u"]) + 1e-3)


@pytest.mark.parametrize(
    ("method", "rule"),
    [(m.fedadagrad, published_adagrad), (m.fedadam, published_adam), (m.fedyogi, published_yogi)],
)
def test_the_published_servers_follow_the_papers_equations(problem, play, method, rule):
    found = play(problem, method(ETA, 0.05, work=WORK, published=True), TRACE).w
    w, state = problem.start, {}
    for t, after in enumerate(found, start=1):
        w = w - 0.05 * rule(direction(problem, w), state, t)
        np.testing.assert_allclose(after, w, rtol=1e-9)


def test_a_published_server_without_a_gradient_stays():
    for method in (m.fedadagrad, m.fedadam, m.fedyogi):
        server, w = method(published=True).server, np.ones(1, np.float32)
        np.testing.assert_array_equal(server.step(server.init(w), w, np.zeros(1, np.float32))[0], w)


@pytest.mark.parametrize(
    ("method", "rule"), [(m.fedadagrad, adagrad), (m.fedadam, adam), (m.fedyogi, yogi), (m.fedavgm, momentum)]
)
def test_the_server_follows_its_equations(problem, play, method, rule):
    found = play(problem, method(ETA, 0.05, work=WORK), TRACE).w
    w, state = problem.start, {}
    for t, after in enumerate(found, start=1):
        w = w - 0.05 * rule(direction(problem, w), state, t)
        np.testing.assert_allclose(after, w, rtol=1e-9)


def test_yogi_moves_where_there_is_no_gradient():
    """By 9e-6 / (0.01 + 1e-3) of the server's rate in the first step, as m and u start at 1e-6."""
    server, none = m.fedyogi(server_rate=0.5).server, np.zeros(1, np.float32)
    w, _ = server.step(server.init(none), none, none)
    np.testing.assert_allclose(w, [-0.5 * 9e-6 / 0.011], rtol=1e-4)


def test_fedsgd_is_gradient_descent_and_so_is_fedprox_with_one_step(problem, play):
    w, expected = problem.start, []
    for _ in TRACE:
        w = w - direction(problem, w)
        expected.append(w)
    np.testing.assert_allclose(play(problem, m.fedsgd(ETA), TRACE).w, expected, rtol=1e-12)
    np.testing.assert_allclose(play(problem, m.fedprox(ETA, mu=0.7, work=WORK), TRACE).w, expected, rtol=1e-12)


def test_stochastic_approximation_is_descent_with_falling_rates(problem, play):
    """One step a round on quadratics of one sample is one epoch: a_n = 0.1/n and 0.1/(⌊n/2⌋ + 1), equal weights."""
    for every in (1, 2):
        found = play(problem, m.stochastic_approximation(ETA, every=every, work=Steps(1, batch=1)), TRACE).w
        w = problem.start
        for n, after in enumerate(found):
            gradient = np.einsum("kij,kj->ki", problem.hessians, w - problem.centres).mean(axis=0)
            w = w - ETA / (n // every + 1) * gradient
            np.testing.assert_allclose(after, w, rtol=1e-12)
