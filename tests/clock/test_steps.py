"""Server steps with a clock: what a task costs, steps that never end, and replicas side by side."""

import jax
import numpy as np
import pytest

import fedtide
from fedtide.availability import Always, Bernoulli, Markov
from fedtide.clock import Buffer, Clock, Deadline, Devices, Lognormal, WaitForAll
from fedtide.problems.quadratic import quadratic, random_quadratic
from fedtide.simulation import events, times
from fedtide.simulation.setup import Setup
from fedtide.work import Steps


def test_fewer_steps_take_less_time():
    """AdaComm's number of steps falls as the loss does; the clock counts the steps that clients take."""
    problem = quadratic(np.ones(3), np.ones((3, 1)))
    method = fedtide.methods.adacomm(0.05, every=1, work=Steps(8, batch=1))
    clock = Clock(Devices(seconds_per_step=0.25), WaitForAll())
    result = fedtide.simulate(problem, Always(3), method, rounds=8, clock=clock)
    steps = np.diff(result.rounds["seconds"].to_numpy()) / 0.25
    assert steps[0] == 8
    assert (np.diff(steps) <= 0).all()
    assert steps[-1] < 4


@pytest.mark.parametrize(
    ("name", "down", "up"), [("fedavg", 1, 1), ("scaffold", 2, 2), ("fedvarp", 1, 1), ("fedbuff", 1, 1)]
)
def test_bytes_are_those_of_the_method(name, down, up):
    dimension, method = 7, fedtide.methods.find(name).build()
    problem, clock = random_quadratic(4, dimension, seed=0), Clock(Devices())
    setup = Setup(
        problem, Always(4), {"m": method}, rounds=1, seeds=1, evaluate_every=1, history=0, record_clients=None,
        chunk=None, clock=clock,
    )  # fmt: skip
    assert setup.message_sizes(method) == (4 * dimension * down, 4 * dimension * up)


def test_a_step_that_never_ends_is_an_error(monkeypatch):
    for module in (events, times):
        monkeypatch.setattr(module, "MOST_SLOTS", 40)
    problem, clock = random_quadratic(4, 2, seed=0), Clock(Devices(1.0), Buffer(1, concurrency=2))
    with pytest.raises(fedtide.FedtideError, match="m, seed 0, round 1: the server step did not end within 40 slots"):
        fedtide.simulate(problem, Bernoulli(0.0, clients=4), {"m": fedtide.methods.fedavg()}, rounds=2, clock=clock)


def test_a_deadline_of_several_slots_ends_with_a_slot():
    """Whatever rounding does: every round begins in a new slot, with that slot's availability."""
    problem, process = random_quadratic(6, 2, seed=0), Markov(0.5, 0.0, clients=6)
    clock = Clock(Devices(np.linspace(0.1, 0.7, 6), jitter=Lognormal()), Deadline(21.0), slot=7.0)
    result = fedtide.simulate(problem, process, fedtide.methods.fedavg(), rounds=60, clock=clock, record_clients=True)
    active, _ = result.attendance("FedAvg")
    np.testing.assert_array_equal(active[0], process.sample(0, 180)[::3])


def test_replicas_side_by_side(monkeypatch):
    """As on a GPU, where all replicas run at once."""
    problem, process = random_quadratic(6, 2, seed=0), Markov(0.6, 0.3, clients=6)
    clock = Clock(Devices(np.linspace(0.1, 0.7, 6), jitter=Lognormal()), Buffer(2, concurrency=4), slot=2.0)
    run = lambda: fedtide.simulate(  # noqa: E731
        problem, process, fedtide.methods.fedbuff(), rounds=30, seeds=3, clock=clock
    )
    in_turn = run()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    jax.clear_caches()
    at_once = run()
    np.testing.assert_allclose(at_once.models["FedBuff"], in_turn.models["FedBuff"], rtol=1e-5, atol=1e-6)
    for column in ("starts", "arrived", "lost"):
        assert at_once.rounds[column].equals(in_turn.rounds[column])
