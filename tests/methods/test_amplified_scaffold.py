"""Periods: amplified steps and control variates that change at their ends only."""

import jax
import numpy as np
import pytest

from fedtide import methods as m
from fedtide.problems.quadratic import random_quadratic
from fedtide.work import Steps

N, P = 4, 3
WORK = Steps(count=3, batch=1)
TRACE = np.random.default_rng(3).uniform(size=(12, N)) < 0.5
TRACE[5] = TRACE[6] = False  # empty rounds, at a period's end and at the next one's beginning


@pytest.fixture(scope="module")
def problem():
    with jax.enable_x64(True):
        return random_quadratic(N, 3, importance=[0.4, 0.3, 0.2, 0.1], seed=1)


def test_a_factor_of_one_is_fedavg_exactly(problem, play):
    models = [
        play(problem, method, TRACE).w
        for method in (m.fedavg(0.1, work=WORK), m.generalised_fedavg(0.1, period=P, factor=1.0, work=WORK))
    ]
    np.testing.assert_array_equal(*models)


def test_every_period_is_stretched(problem, play):
    """A period of the amplified run is FedAvg from where the last one ended, and then the long step."""
    amplified = play(problem, m.generalised_fedavg(0.1, period=P, factor=1.5, work=WORK), TRACE).w
    plain = play(problem, m.generalised_fedavg(0.1, period=P, factor=1.0, work=WORK), TRACE).w
    np.testing.assert_array_equal(amplified[: P - 1], plain[: P - 1])
    start = problem.start
    np.testing.assert_allclose(amplified[P - 1], start + 1.5 * (plain[P - 1] - start), atol=1e-14)
    # Round 5 is empty and ends a period: the step is taken all the same.
    start = amplified[P - 1]
    np.testing.assert_allclose(amplified[5], start + 1.5 * (amplified[4] - start), atol=1e-14)
    np.testing.assert_array_equal(amplified[6], amplified[5])


def test_periods_of_one_round_are_scaffold(problem, play):
    periodic = play(problem, m.amplified_scaffold(0.1, period=1, factor=1.0, work=WORK), TRACE)
    scaffold = play(problem, m.scaffold(0.1, work=WORK), TRACE)
    np.testing.assert_allclose(periodic.w, scaffold.w, atol=1e-13)
    mean = periodic.solver.client.own.mean  # what c_k will be when the client is there next
    np.testing.assert_allclose(mean, scaffold.solver.client.control, atol=1e-12)


def test_controls_change_at_period_ends_to_the_means_of_the_period(problem, play):
    """With one local step a round's gradient is that at the round's model."""
    states = play(problem, m.amplified_scaffold(0.1, period=P, factor=1.5, work=Steps(1, batch=1)), TRACE)
    models = np.concatenate([problem.start[None], states.w[:-1]])
    there = TRACE[..., None]
    g = np.einsum("kij,tkj->tki", problem.hessians, models[:, None] - problem.centres)
    c_k = np.zeros((N, 3))
    shared = states.solver.shared.own
    for first in range(0, len(TRACE), P):
        period = slice(first, first + P)
        for t in range(first, first + P):
            if TRACE[t].any():  # nobody looks at c in an empty round
                np.testing.assert_allclose(shared.control[t], problem.importance @ c_k, atol=1e-12)
                control = states.solver.client.own.control[t]
                np.testing.assert_allclose(control[TRACE[t]], c_k[TRACE[t]], atol=1e-12)
        count = there[period].sum(axis=0)
        c_k = np.where(count > 0, (g * there)[period].sum(axis=0) / np.maximum(count, 1), c_k)
    assert np.abs(c_k).max() > 0.1


def test_the_first_period_is_fedavg_s(problem, play):
    """All controls are 0 in it."""
    first = TRACE[: P - 1]
    methods = m.fedavg(0.1, work=WORK), m.amplified_scaffold(0.1, period=P, work=WORK)
    models = [play(problem, method, first).w for method in methods]
    np.testing.assert_allclose(*models, atol=1e-14)
