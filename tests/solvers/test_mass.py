"""‖a‖₁ in closed form: what multiplies a mean gradient in a client's change."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtide.schedules import Geometric
from fedtide.solvers import Adaptive, Momentum, Proximal, Sgd
from fedtide.types import Task

TAU, RATE = 7, 0.1
GRADIENT = np.array([1.0, -2.0, 0.5])


def mass(solver, round_=0):
    with jax.enable_x64(True):
        task = Task(TAU, lambda w, step: (jnp.float64(1), jnp.asarray(GRADIENT)), round_)
        trained = solver.train(jnp.zeros(3), task, (), ())
        np.testing.assert_allclose(-trained.w, np.asarray(trained.mass) * GRADIENT, rtol=1e-12)
        return np.asarray(trained.mass)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_momentum(rho):
    expected = (TAU - rho * (1 - rho**TAU) / (1 - rho)) / (1 - rho)
    np.testing.assert_allclose(mass(Momentum(RATE, decay=rho)) / RATE, expected, rtol=1e-12)


@pytest.mark.parametrize("c", [0.03, 0.5])
def test_proximal(c):
    expected = (1 - (1 - c) ** TAU) / c
    np.testing.assert_allclose(mass(Proximal(RATE, mu=c / RATE)) / RATE, expected, rtol=1e-12)


def test_momentum_with_a_proximal_term():
    """21.62, where the authors of FedNova have 27.37."""
    found = mass(Proximal(RATE, mu=0.03 / RATE, decay=0.9)) / RATE
    assert float(found) == pytest.approx(21.62, abs=0.005)


def test_a_schedule_weighs_the_steps():
    solver = Sgd(RATE, schedule=Geometric(0.5, unit="steps"))
    np.testing.assert_allclose(mass(solver), RATE * (2 - 0.5 ** (TAU - 1)), rtol=1e-12)


@pytest.mark.parametrize("b1", [0.0, 0.9])
@pytest.mark.parametrize("algorithm", ["adam", "adagrad"])
def test_adaptive_steps_without_adaptivity_are_sgd_s(algorithm, b1):
    """A constant gradient's momentum is itself, and ε → ∞ makes the preconditioner the identity over ε."""
    found = mass(Adaptive(RATE * 1e12, algorithm, b1=b1, epsilon=1e12))
    np.testing.assert_allclose(found, np.full(3, float(mass(Sgd(RATE)))), rtol=1e-9)


def test_adam_s_mass_is_the_sum_of_its_preconditioners():
    """A constant gradient has v̂ = g²."""
    np.testing.assert_allclose(mass(Adaptive(RATE, epsilon=0.5)), TAU * RATE / (np.abs(GRADIENT) + 0.5), rtol=1e-12)


def test_adagrad_s_mass_falls_with_the_root_of_the_steps():
    expected = sum(RATE / (np.abs(GRADIENT) * np.sqrt(j) + 0.5) for j in range(1, TAU + 1))
    np.testing.assert_allclose(mass(Adaptive(RATE, "adagrad", epsilon=0.5)), expected, rtol=1e-12)
