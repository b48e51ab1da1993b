"""What a clock may not change: exact equalities, to the bit on a CPU."""

import numpy as np
import pytest

import fedtide
from fedtide.availability import Always, Markov
from fedtide.availability.trace import trace
from fedtide.clock import Buffer, Clock, Deadline, Devices, Lognormal, WaitForAll, Window
from fedtide.methods import CATALOGUE
from fedtide.problems.quadratic import random_quadratic
from fedtide.work import Steps

pytestmark = pytest.mark.usefixtures("as_shipped")
CLIENTS, ROUNDS = 12, 20
INSTANT = Devices()
QUICK = ("fedavg", "scaffold", "ca_fed")
LABELLED = ("cluster_fedvarp", "fedgs")
# Its weights are computed in the loop over events, where multiplications and additions are fused differently.
ROUNDED = ("fedau",)


@pytest.fixture(scope="module")
def problem():
    return random_quadratic(CLIENTS, 3, seed=0, noise=0.5)


@pytest.fixture(scope="module")
def chains():
    """Now and then all are available, so that with and without a clock cohorts have the same capacity."""
    return Markov(np.repeat([0.97, 0.8], 6), np.tile([0.0, 0.6], 6))


def simulate(problem, process, method, clock=None, rounds=ROUNDS, seeds=2):
    return fedtide.simulate(
        problem, process, {"m": method}, rounds=rounds, seeds=seeds, evaluate_every=5, record_clients=True, clock=clock
    )


def assert_same(one, other, but=()):
    """The same models and records, to the bit; sums of weights may be ordered differently."""
    np.testing.assert_array_equal(one.models["m"], other.models["m"])
    for name in ("rounds", "clients"):
        a, b = getattr(one, name), getattr(other, name)
        columns = [c for c in a.columns if c in b.columns and (name, c) not in {("rounds", "weight"), *but}]
        for column in columns:
            assert a[column].equals(b[column]), (name, column)
    np.testing.assert_allclose(one.rounds["weight"], other.rounds["weight"], rtol=1e-5)


def fitting(name):
    method = CATALOGUE[name].build()
    return not method.solver.trains_absent


MARKED = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CATALOGUE if fitting(name)]


@pytest.mark.parametrize("name", MARKED)
def test_infinitely_fast_devices_are_rounds_without_a_clock(name, problem, blobs, chains):
    entry, problem = CATALOGUE[name], blobs if name in LABELLED else problem
    options = {"work": Steps(3, batch=1)} if "work" in entry.defaults else {}
    method = entry.build(**options)
    without = simulate(problem, chains, method)
    timed = simulate(problem, chains, method, Clock(INSTANT, WaitForAll(every=60.0), slot=60.0))
    assert without.rounds["available"].min() < CLIENTS
    seconds = timed.rounds.filter(seed=0)["seconds"].to_list()
    assert seconds == [60.0 * t for t in range(ROUNDS + 1)]
    if name in ROUNDED:
        np.testing.assert_allclose(timed.models["m"], without.models["m"], rtol=1e-4, atol=1e-6)
    else:
        assert_same(without, timed)


def test_on_data_with_the_shipped_program(blobs, chains):
    method = fedtide.methods.fedavg(work=Steps(4, batch=5))
    assert_same(
        simulate(blobs, chains, method),
        simulate(blobs, chains, method, Clock(INSTANT, Deadline(30.0), slot=30.0)),
    )


def test_history_precedes_the_first_slot(problem, chains):
    method, options = fedtide.methods.unbiased(work=Steps(3, batch=1)), {"rounds": ROUNDS, "seeds": 2, "history": 7}
    without = fedtide.simulate(problem, chains, {"m": method}, **options)
    timed = fedtide.simulate(problem, chains, {"m": method}, **options, clock=Clock(INSTANT, WaitForAll(every=60.0)))
    assert_same(without, timed)


def test_a_full_buffer_of_equal_devices_is_fedavg(problem):
    method = fedtide.methods.fedavg(work=Steps(3, batch=1))
    clock = Clock(Devices(seconds_per_step=1.5), Buffer(CLIENTS, concurrency=CLIENTS))
    timed = simulate(problem, Always(CLIENTS), method, clock)
    assert_same(simulate(problem, Always(CLIENTS), method), timed)
    assert timed.rounds.filter(seed=0)["seconds"].to_list() == [4.5 * t for t in range(ROUNDS + 1)]


def test_a_window_that_holds_everybody_is_a_synchronous_round(problem, chains):
    method = fedtide.methods.fedavg(work=Steps(3, batch=1))
    devices = Devices(np.linspace(0.1, 3, CLIENTS), jitter=Lognormal(0.1))
    timed = simulate(problem, chains, method, Clock(devices, Window(20.0), slot=20.0))
    assert_same(simulate(problem, chains, method), timed)
    assert timed.rounds.filter(seed=0)["seconds"].to_list() == [20.0 * t for t in range(ROUNDS + 1)]


def test_one_place_is_sequential_training(problem):
    """`Buffer(1, concurrency=1)`: each client trains from the model that the one before it left, as if only that client
    were available in the round."""
    method = fedtide.methods.fedavg(work=Steps(3, batch=1))
    devices = Devices(np.linspace(0.1, 3, CLIENTS), jitter=Lognormal(0.5))
    timed = simulate(problem, Always(CLIENTS), method, Clock(devices, Buffer(1, concurrency=1)), seeds=1)
    arrived = timed.clients["arrived"].to_numpy().reshape(ROUNDS, CLIENTS)
    assert (arrived.sum(axis=1) == 1).all()
    assert timed.clients["age"].max() == 0
    alone = simulate(problem, trace(matrix=arrived), method, seeds=1)
    np.testing.assert_array_equal(timed.models["m"], alone.models["m"])


def test_seeds_and_resumed_runs_are_the_same(problem, chains, tmp_path):
    """Replicas are a batch axis, and a resumed run is the uninterrupted one."""
    method = fedtide.methods.fedvarp(work=Steps(3, batch=1))
    clock = Clock(Devices(np.linspace(0.1, 3, CLIENTS), jitter=Lognormal()), Buffer(3, concurrency=6), slot=1.0)
    options = {"rounds": 120, "evaluate_every": 40, "clock": clock}
    whole = fedtide.simulate(problem, chains, {"m": method}, seeds=[3, 5], **options)
    alone = fedtide.simulate(problem, chains, {"m": method}, seeds=[5], **options)
    np.testing.assert_array_equal(whole.models["m"][1:], alone.models["m"])
    assert whole.rounds.filter(seed=5).equals(alone.rounds)

    def stop(label, done, total):
        if done >= 80:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fedtide.simulate(problem, chains, {"m": method}, seeds=[3, 5], **options, out=tmp_path / "run", progress=stop)
    other = Clock(clock.devices, Buffer(3, concurrency=6), slot=2.0)
    with pytest.raises(fedtide.FedtideError, match="another run"):
        fedtide.simulate(
            problem, chains, {"m": method}, seeds=[3, 5], **(options | {"clock": other}), out=tmp_path / "run",
            resume=True,
        )  # fmt: skip
    resumed = fedtide.simulate(
        problem, chains, {"m": method}, seeds=[3, 5], **options, out=tmp_path / "run", resume=True
    )
    np.testing.assert_array_equal(whole.models["m"], resumed.models["m"])
    assert whole.rounds.equals(resumed.rounds)
    assert whole.clients.equals(resumed.clients)
