import numpy as np
import pytest

from fedtide.errors import InvalidInput
from fedtide.theory import clock, flow, schedule, step_conditions, tracking


def test_the_flow_of_a_quadratic_is_exponential(quadratics):
    family, p = quadratics(3, 3, seed=0), np.full(3, 1 / 3)
    hessian, best = family.hessian(np.zeros(3), p), family.minimise(p)
    times, start = np.array([0.0, 0.5, 2.0, 7.0]), np.ones(3)
    values, axes = np.linalg.eigh(hessian)
    exact = [best + axes @ (np.exp(-values * t) * (axes.T @ (start - best))) for t in times]
    np.testing.assert_allclose(flow(lambda w: family.gradient(w, p), start, times), exact, atol=1e-7)


def averaged(family, steps, period, sigma, seed=0):
    """Models after each step of L clients that average theirs every `period` steps (shown: the mean of the clients)."""
    random = np.random.default_rng(seed)
    local = np.tile(np.full(family.dimension, 2.0), (family.clients, 1))
    shown = [local.mean(0)]
    for n, a in enumerate(steps):
        gradient = np.einsum("kij,kj->ki", family.hessians, local - family.centres)
        local = local - a * (gradient + sigma * random.standard_normal(local.shape))
        if (n + 1) % period == 0:
            local = np.tile(local.mean(0), (family.clients, 1))
        shown.append(local.mean(0))
    return np.array(shown)


def test_iterates_follow_the_flow_as_steps_shrink(quadratics):
    """Decreasing steps: the tracking distance tends to 0. Constant steps: it levels off. (Fixed seed.)"""
    family, p = quadratics(4, 2, seed=1), np.full(4, 0.25)

    def gradient(w):
        return family.gradient(w, p)

    shrinking = 0.5 * np.arange(1, 40_001) ** -0.8
    found = tracking(gradient, averaged(family, shrinking, 5, sigma=0.5), shrinking, window=1.0)
    assert found.distance[-5:].mean() < 0.1 * found.distance[:3].mean()
    constant = np.full(2000, 0.1)
    level = tracking(gradient, averaged(family, constant, 5, sigma=0.5), constant, window=1.0)
    assert level.distance[-50:].mean() > 4 * found.distance[-5:].mean()


def test_without_noise_and_local_steps_the_distance_is_that_of_euler(quadratics):
    family, p = quadratics(4, 2, seed=1), np.full(4, 0.25)

    def measure(a):
        steps = np.full(int(4 / a), a)
        return tracking(lambda w: family.gradient(w, p), averaged(family, steps, 1, 0.0), steps)

    found = [measure(a) for a in (0.1, 0.05, 0.025)]
    first = [f.distance[0] for f in found]
    assert first[0] / first[1] == pytest.approx(2, rel=0.15)  # first order
    assert first[1] / first[2] == pytest.approx(2, rel=0.15)


def test_windows_cover_the_time():
    steps = np.full(10, 0.3)
    found = tracking(lambda w: w, np.ones((11, 1)), steps, window=1.0)
    np.testing.assert_allclose(found.time, [0.0, 0.9, 1.8, 2.7])
    np.testing.assert_allclose(clock(steps)[-1], 3.0)


def test_schedules():
    np.testing.assert_allclose(schedule("every_step", 0.1, 4), 0.1 / np.array([1, 2, 3, 4]))
    np.testing.assert_allclose(schedule("every_round", 0.1, 6, period=3), 0.1 / np.array([1, 1, 1, 2, 2, 2]))
    np.testing.assert_allclose(schedule("every_round", 0.1, 5, period=1), schedule("every_step", 0.1, 5))
    assert schedule("every_step", 0.1, 500)[-1] == pytest.approx(2e-4)
    assert schedule("every_round", 0.1, 500, period=5)[-1] == pytest.approx(1e-3)


def test_step_conditions():
    assert step_conditions(1.0) == (True, True, True, True)
    assert step_conditions(0.7) == (True, True, True, False)
    assert step_conditions(0.5) == (True, False, False, False)  # 1/√n
    assert step_conditions(1.2) == (False, True, False, False)


def test_bad_input():
    with pytest.raises(InvalidInput, match="kind"):
        schedule("sometimes", 0.1, 5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidInput, match="shape of iterates"):
        tracking(lambda w: w, np.ones((5, 1)), np.ones(5))
    with pytest.raises(InvalidInput, match="in order"):
        flow(lambda w: w, np.ones(1), [1.0, 0.0])
