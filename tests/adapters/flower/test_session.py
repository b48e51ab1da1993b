"""Rounds over a grid in one process: the simulator's numbers, faults, lateness, and going on after a crash."""

import numpy as np
import pytest

import fedtide
from fedtide import methods
from fedtide.availability import Always, Trace
from fedtide.work import Steps

WORK = Steps(count=3, batch=4)


def with_size_importance(problem):
    from dataclasses import replace

    sizes = np.asarray(problem.sizes)
    return replace(problem, importance=sizes / sizes.sum())


@pytest.mark.parametrize("name", ["fedavg", "ca_fed", "scaffold", "fed_cvar_avg", "fedawe", "fednova"])
def test_the_simulators_parameters(name, blobs, federation):
    arguments = {"rate": 0.02}
    method = getattr(methods, name)(**arguments, work=WORK)
    result = fedtide.simulate(blobs, Always(12), {name: method}, rounds=3, evaluate_every=3)
    made = federation(method__name=name, method__rate=0.02, importance=_importance(blobs))
    session = made.serve()
    np.testing.assert_allclose(session.coordinator.served, result.models[name][0], atol=1e-6, rtol=1e-6)
    assert {"train"} <= set(made.nodes[0].kinds)
    assert ("query.loss" in made.nodes[0].kinds) == (name == "ca_fed")


def _importance(problem):
    alpha = np.asarray(problem.importance)
    return "uniform" if np.allclose(alpha, alpha[0]) else "size"


@pytest.mark.parametrize("name", ["ca_fed", "scaffold", "fedawe"])
def test_recorded_presence_gives_the_simulators_decisions(name, blobs, federation, ledger_of):
    """The ledger's presence, played in the simulator, gives the weights that the server used."""
    rounds = 8
    presence = np.random.default_rng(5).random((rounds, 12)) < np.linspace(0.3, 0.95, 12)
    kappa = {"method__kappa_squared": 0.05} if name == "ca_fed" else {}
    made = federation(method__name=name, importance=_importance(blobs), rounds=rounds, round_seconds=1.0, **kappa)
    turn = {"t": -1}

    def listed():
        turn["t"] += 1
        for node, here in zip(made.nodes, presence[min(turn["t"] - 1, rounds - 1)] if turn["t"] else [True] * 12):
            node.here = bool(here)
        return list(made.grid.nodes)

    made.grid.get_node_ids = listed  # the first look is the enrolment, then one a round
    session = made.serve()
    _, here, rows = ledger_of(made)
    np.testing.assert_array_equal(here, presence)
    arguments = {"kappa_squared": 0.05} if name == "ca_fed" else {}
    method = getattr(methods, name)(**arguments, work=WORK)
    result = fedtide.simulate(blobs, Trace(here), {name: method}, rounds=rounds, evaluate_every=rounds)
    _, invited = result.attendance(name)
    included = np.array([[rows[t, str(k)].included for k in range(12)] for t in range(rounds)])
    np.testing.assert_array_equal(included, invited[0])
    np.testing.assert_allclose(session.coordinator.served, result.models[name][0], atol=1e-6, rtol=1e-5)
