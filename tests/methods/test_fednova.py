"""Where FedNova ends with devices of different speed, and where FedAvg does: in closed form."""

import numpy as np
import pytest

import fedtide
from fedtide import methods as m
from fedtide.availability import Always
from fedtide.problems.quadratic import random_quadratic
from fedtide.solvers import ControlVariate, Proximal
from fedtide.work import StepsPerClient

STEPS = np.array([1, 1, 8, 8])


@pytest.fixture(scope="module")
def problem():
    return random_quadratic(clients=4, dimension=3, seed=1)


def rest(problem, rate, divisor):
    """The w with Σ α_k (I − (I − ηH_k)^τ_k) (w − c_k) / divisor_k = 0: full gradients move client k by that product."""
    shrink = [np.linalg.matrix_power(np.eye(3) - rate * h, n) for h, n in zip(problem.hessians, STEPS, strict=True)]
    pull = (np.eye(3) - np.array(shrink)) / divisor[:, None, None]
    return np.linalg.solve(pull.sum(axis=0), np.einsum("kij,kj->i", pull, problem.centres))


def test_it_ends_at_the_optimum_of_the_importance_and_fedavg_at_that_of_the_work(problem, float64):
    common = {"rate": 0.1, "work": StepsPerClient(STEPS, batch=1)}
    both = {"fedavg": m.fedavg(**common), "fednova": m.fednova(**common)}
    found = fedtide.simulate(problem, Always(4), both, rounds=600, evaluate_every=600, record_clients=False).models
    np.testing.assert_allclose(found["fedavg"][0], rest(problem, 0.1, np.ones(4)), atol=1e-10)
    np.testing.assert_allclose(found["fednova"][0], rest(problem, 0.1, STEPS), atol=1e-10)
    # As η → 0 these points are the optima: of α for FedNova, of α τ for FedAvg.
    np.testing.assert_allclose(rest(problem, 1e-6, STEPS), problem.optimum(), atol=1e-5)
    np.testing.assert_allclose(rest(problem, 1e-6, np.ones(4)), problem.optimum(STEPS / STEPS.sum()), atol=1e-5)


def test_the_solver_follows_from_the_numbers():
    plain, heavy = m.fednova(0.3).solver, m.fednova(0.3, momentum=0.5).solver
    held, both = m.fednova(0.3, mu=0.1).solver, m.fednova(0.3, momentum=0.5, mu=0.1).solver
    assert all(type(solver) is Proximal for solver in (plain, heavy, held, both))  # one program for all
    assert (plain.rate, plain.decay, plain.mu) == (0.3, 0.0, 0.0)
    assert (heavy.decay, held.decay, both.decay, both.mu) == (0.5, 0.0, 0.5, 0.1)
    reduced = m.fednova(0.3, momentum=0.5, variance_reduced=True).solver
    assert isinstance(reduced, ControlVariate)
    assert reduced.solver.decay == 0.5
