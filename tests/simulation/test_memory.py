"""Memory: estimated before the run, refused with the figure."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedtide
from fedtide.problems.classification import classification
from fedtide.problems.models import Model, softmax_regression
from fedtide.simulation import memory
from fedtide.simulation.setup import Setup


def setup_for(blobs, chains, method):
    options = {"evaluate_every": 2, "history": 0, "record_clients": False, "chunk": None}
    return Setup(blobs, chains, {"m": method}, rounds=2, seeds=3, **options)


def test_sizes_and_peaks_of_known_programs():
    assert memory.size_of({"a": np.zeros((3, 4), np.float32), "b": np.zeros(2, np.int8)}) == 50
    # x + 1 and its double live together for a moment, then their sum.
    assert memory.peak(jax.make_jaxpr(lambda x: (x + 1) * 2.0)(jnp.zeros(100)).jaxpr) == 800
    assert memory.peak(jax.make_jaxpr(lambda x: ((x + 1) * (x + 2)).sum())(jnp.zeros(100)).jaxpr) == 1200


def test_the_state_is_counted_exactly(blobs, chains):
    """FedAvg carries the model alone; persistent momentum adds a row for each client."""
    plain = fedtide.methods.fedavg()
    rows = fedtide.compose(plain, solver=fedtide.solvers.Momentum(persistent=True))

    def state(method):
        return setup_for(blobs, chains, method).memory(method, chunk=None).state

    assert state(rows) - state(plain) == 3 * 12 * 9 * 4


def test_what_cannot_fit_is_refused_with_its_figure(monkeypatch):
    wide = Model(lambda key: jnp.zeros(1_000_000), lambda params, x: x * params[:2])
    data = [(np.zeros((1, 2), np.float32), np.zeros(1, int))] * 1_000
    problem = classification(wide, data)
    method = fedtide.compose(fedtide.methods.fedavg(clients=1), solver=fedtide.solvers.Momentum(persistent=True))
    monkeypatch.setattr(memory, "device_memory", lambda: 10**9)
    figure = r"keeps 4 GB for rows of 1,000,000 parameters for each of 1,000 clients"
    with pytest.raises(fedtide.FedtideError, match=figure):
        fedtide.simulate(problem, fedtide.availability.Always(1_000), method, rounds=1)


def test_a_row_for_each_client_is_refused_with_its_figure_and_a_way_out(monkeypatch):
    """10,000 clients × 1,000,000 parameters are 40 GB; clusters need a row each."""
    wide = Model(lambda key: jnp.zeros(1_000_000), lambda params, x: x * params[:2])
    problem = classification(wide, [(np.zeros((1, 2), np.float32), np.zeros(1, int))] * 10_000)
    monkeypatch.setattr(memory, "device_memory", lambda: 25 * 10**9)
    line = (
        "this method keeps 40 GB for rows of 1,000,000 parameters for each of 10,000 clients; "
        "cluster_fedvarp keeps one row per cluster instead"
    )
    with pytest.raises(fedtide.FedtideError, match=line):
        fedtide.simulate(problem, fedtide.availability.Always(10_000), fedtide.methods.fedvarp(clients=2), rounds=1)
    lighter = fedtide.methods.cluster_fedvarp(clients=2, clusters=10)
    options = {"evaluate_every": 1, "history": 0, "record_clients": False, "chunk": None}
    setup = Setup(problem, fedtide.availability.Always(10_000), {"m": lighter}, rounds=1, seeds=1, **options)
    assert setup.fitting("m", lighter, None).state < 60e6  # (10 + 2) · 4 MB and some numbers for each client


def test_clients_are_chunked_when_memory_is_short(blobs, chains, monkeypatch):
    method = fedtide.methods.fedavg()
    setup = setup_for(blobs, chains, method)
    assert setup.choose_chunk(method) is None
    monkeypatch.setattr(memory, "device_memory", lambda: 20_000)
    chunk = setup.choose_chunk(method)
    assert chunk is not None
    assert 1 <= chunk < 12


def test_softmax_regression_has_its_parameters():
    assert softmax_regression(60, 10).init(None)["weight"].size == 600  # pyright: ignore


@pytest.mark.parametrize(
    ("seeds", "advice"),
    [(1, r"use fewer clients per round, a smaller batch or a smaller chunk$"), (2, "run fewer seeds")],
)
def test_advice_is_what_can_be_done(seeds, advice, monkeypatch):
    """A single seed cannot be fewer."""
    problem = classification(softmax_regression(2, 2), [(np.zeros((1, 2), np.float32), np.zeros(1, int))] * 100)
    monkeypatch.setattr(memory, "device_memory", lambda: 1000)
    with pytest.raises(fedtide.FedtideError, match=advice):
        fedtide.simulate(problem, fedtide.availability.Always(100), fedtide.methods.fedavg(), rounds=1, seeds=seeds)
