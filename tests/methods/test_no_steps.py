"""Clients that take no step: nothing moves, nothing that was remembered is lost."""

import numpy as np
import pytest

import fedtide
from fedtide import methods as m
from fedtide.problems.quadratic import random_quadratic
from fedtide.work import FullBatch, Steps, StepsPerClient

CLIENTS = 4


@pytest.fixture(scope="module")
def problem():
    return random_quadratic(clients=CLIENTS, dimension=3, seed=3)


@pytest.mark.parametrize("work", [Steps(0), FullBatch(0)])
def test_no_work_is_no_change(problem, work):
    found = fedtide.simulate(problem, fedtide.availability.Always(CLIENTS), m.fedavg(work=work), rounds=2)
    np.testing.assert_array_equal(found.models["FedAvg"][0], problem.start)


def test_a_client_without_steps_is_as_good_as_absent(problem, play):
    """Its remembered update stays: the others' rounds are those of a run in which it is away."""

    def mifa(counts):
        return m.mifa(rate=0.1, work=StepsPerClient(np.array(counts), batch=1))

    trace = np.ones((3, CLIENTS), bool)
    without = trace & (np.arange(CLIENTS) != 3)
    rests, away = play(problem, mifa([1, 1, 1, 0]), trace), play(problem, mifa([1, 1, 1, 1]), without)
    np.testing.assert_allclose(rests.w, away.w, rtol=1e-12)
