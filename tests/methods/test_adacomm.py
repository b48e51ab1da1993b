"""AdaComm: the number of local steps over the rounds."""

import jax
import numpy as np

from fedtide import methods as m
from fedtide.problems.quadratic import quadratic, random_quadratic
from fedtide.work import Steps

EVERYBODY = np.ones((12, 4), bool)


def test_a_constant_loss_halves_the_steps_each_interval(play):
    """At the rate 0 nothing is learnt: 7, 4, 2, 1, and 1 for ever."""
    with jax.enable_x64(True):
        problem = random_quadratic(4, 3, seed=1)
    method = m.adacomm(rate=0.0, every=2, work=Steps(7, batch=1))
    trace = EVERYBODY.copy()
    trace[4] = False  # an empty round counts for nothing
    steps = play(problem, method, trace).solver.shared.steps
    assert steps.tolist() == [7, 4, 4, 2, 2, 2, 1, 1, 1, 1, 1, 1]


def test_the_steps_follow_the_root_of_the_loss(play):
    """One curvature and one optimum: all losses are ½ ‖w − c‖² and shrink by (1 − η)² a step."""
    with jax.enable_x64(True):
        problem = quadratic(np.ones(4), np.full((4, 3), 2.0))
    rate, most = 0.02, 7
    shared = play(problem, m.adacomm(rate, every=1, work=Steps(most, batch=1)), EVERYBODY).solver.shared
    away, steps, first, expected = 12.0**0.5, most, None, []
    for _ in EVERYBODY:
        loss = np.mean([0.5 * (away * (1 - rate) ** j) ** 2 for j in range(steps)])
        first = loss if first is None else first
        away *= (1 - rate) ** steps
        wanted = int(np.ceil((loss / first) ** 0.5 * most))
        steps = max(1, wanted if wanted < steps else -(-steps // 2))
        expected.append(steps)
    assert shared.steps.tolist() == expected
    np.testing.assert_allclose(shared.first, first, rtol=1e-12)
    assert (np.diff(shared.steps) <= 0).all()
