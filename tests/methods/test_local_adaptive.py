"""Local adaptive optimisers: where averaging with and without the correction comes to rest."""

import jax
import numpy as np
import pytest

from fedtide import methods as m
from fedtide.problems.quadratic import random_quadratic
from fedtide.work import Steps, StepsPerClient

N = 4
WORK = StepsPerClient(np.array([1, 2, 3, 4]), batch=1)
TRACE = np.ones((6, N), bool)


@pytest.fixture(scope="module")
def problem():
    with jax.enable_x64(True):
        return random_quadratic(N, 3, importance=[0.4, 0.3, 0.2, 0.1], seed=1)


def test_without_adaptivity_the_correction_is_fednova(problem, play):
    """ε → ∞ at a rate ε times larger makes all preconditioners the identity."""
    settings = {"epsilon": 1e12, "b1": 0.0, "work": WORK}
    corrected = play(problem, m.local_adaptive(1e11, **settings), TRACE).w
    np.testing.assert_allclose(corrected, play(problem, m.fednova(0.1, work=WORK), TRACE).w, rtol=1e-9)
    plain = play(problem, m.local_adaptive(1e11, correct=False, **settings), TRACE).w
    np.testing.assert_allclose(plain, play(problem, m.fedavg(0.1, work=WORK), TRACE).w, rtol=1e-9)
    assert np.abs(corrected - plain).max() > 1e-3


def test_averaged_moments_are_everybody_s_mean(problem, play):
    """The second moment that all share after a round is the weighted mean of what each would keep for itself."""
    settings = {"b1": 0.5, "b2": 0.8, "correct": False, "work": Steps(3, batch=1)}
    own = play(problem, m.local_adaptive(state="persistent", **settings), TRACE[:1]).solver.client
    shared = play(problem, m.local_adaptive(state="averaged", **settings), TRACE[:1]).solver.shared
    for mine, everybodys in zip(own, shared, strict=True):
        np.testing.assert_allclose(everybodys[0], problem.importance @ mine[0], rtol=1e-12)
