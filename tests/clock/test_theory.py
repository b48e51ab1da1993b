"""A clock against closed forms: the slowest of many, lost work, participation by speed and its bias."""

import numpy as np
import pytest

import fedtide
from fedtide.availability import Always, Markov
from fedtide.clock import Buffer, Clock, Deadline, Devices, Exponential, Lognormal, WaitForAll
from fedtide.problems.quadratic import quadratic
from fedtide.work import Steps

ONE = Steps(1, batch=1)


def test_a_round_of_exponential_clients_takes_a_harmonic_number():
    """E[max of m exponentials] = H_m / rate; its variance is Σ 1/i² / rate²."""
    m, rounds, mean = 10, 800, 3.0
    clock = Clock(Devices(latency=mean, jitter=Exponential()), WaitForAll())
    problem = quadratic(np.ones(m), np.zeros((m, 1)))
    result = fedtide.simulate(problem, Always(m), fedtide.methods.fedavg(work=ONE), rounds=rounds, clock=clock)
    harmonic, spread = sum(1 / i for i in range(1, m + 1)), np.sqrt(sum(1 / i**2 for i in range(1, m + 1)))
    duration = result.rounds["seconds"][-1] / rounds
    assert abs(duration - mean * harmonic) < 4 * mean * spread / np.sqrt(rounds)


def test_lost_work_has_its_closed_form():
    """Tasks of exponential length from the beginning of a slot, clients that leave with probability p at its end.

    With x = P(a task outlasts a slot): P(not lost) = (1 − x) / (1 − x (1 − p)), E[work] = (1 − x) / (1 − x (1 − p)) ·
    mean, and E[lost work] = slot · p x / (1 − x (1 − p))².
    """
    clients, rounds, slot, mean, pi, lam = 50, 400, 2.0, 5.0, 0.6, 0.7
    clock = Clock(Devices(latency=mean, jitter=Exponential()), Deadline(25 * slot), slot)
    problem = quadratic(np.ones(clients), np.zeros((clients, 1)))
    process = Markov(pi, lam, clients=clients)
    result = fedtide.simulate(problem, process, fedtide.methods.fedavg(work=ONE), rounds=rounds, clock=clock)
    p, x = (1 - lam) * (1 - pi), np.exp(-slot / mean)
    total = result.rounds.select("starts", "lost", "late", "worked", "wasted").sum()
    tasks = total["starts"][0]
    survives = (1 - x) / (1 - x * (1 - p))
    assert total["late"][0] / tasks < 1e-3  # the deadline hardly matters
    assert abs(total["lost"][0] / tasks - (1 - survives)) < 4 * np.sqrt(survives * (1 - survives) / tasks)
    assert total["worked"][0] / tasks == pytest.approx(survives * mean, rel=0.05)
    assert total["wasted"][0] / tasks == pytest.approx(slot * p * x / (1 - x * (1 - p)) ** 2, rel=0.05)
    # The limit of short slots: the share of lost work is that of the two rates, ν / (μ + ν).
    rate = p / slot
    assert total["wasted"][0] / total["worked"][0] == pytest.approx(rate / (rate + 1 / mean), rel=0.2)


@pytest.fixture(scope="module")
def raced():
    """Four clients of speeds 1, 2, 4 and 8, always working: long runs of methods that do and do not correct for it."""
    speed, centres = np.array([1.0, 2.0, 4.0, 8.0]), np.array([[0.0], [1.0], [-1.0], [2.0]])
    problem = quadratic(np.ones(4), centres)
    clock = Clock(Devices(latency=1 / speed, jitter=Lognormal(0.3)), Buffer(1, concurrency=4))
    methods = {
        "fedbuff": fedtide.methods.fedbuff(0.02, staleness=fedtide.staleness.Constant(), work=ONE),
        "fedasync": fedtide.methods.fedasync(0.1, 0.1, mu=0.0, staleness=fedtide.staleness.Constant(), work=ONE),
        "unbiased": fedtide.methods.unbiased(0.02, work=ONE),
    }
    result = fedtide.simulate(
        problem, Always(4), methods, rounds=3000, seeds=2, evaluate_every=3000, clock=clock, record_clients=True
    )
    return speed, problem, result


def test_participation_is_proportional_to_speed(raced):
    speed, _, result = raced
    for label in ("fedbuff", "fedasync"):
        arrived = result.clients.filter(method=label)["arrived"].to_numpy().reshape(-1, 4).mean(axis=0)
        np.testing.assert_allclose(arrived, speed / speed.sum(), rtol=0.03)


def test_and_biases_the_optimum_unless_weights_correct_for_it(raced):
    speed, problem, result = raced
    fair, biased = problem.optimum().item(), problem.optimum(speed).item()
    assert abs(fair - biased) > 0.4
    for label, limit in (("fedbuff", biased), ("fedasync", biased), ("unbiased", fair)):
        assert result.models[label].mean() == pytest.approx(limit, abs=0.12), label
