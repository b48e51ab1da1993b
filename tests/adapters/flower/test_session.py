"""Rounds over a grid in one process: the simulator's numbers, faults, lateness, and going on after a crash."""

import numpy as np
import pytest

import fedtide
from fedtide import methods
from fedtide.availability import Always, Trace
from fedtide.schedules import PerClient
from fedtide.work import Steps

WORK = Steps(count=3, batch=4)


@pytest.mark.parametrize("name", ["ca_fed", "scaffold", "fed_cvar_avg"])
def test_the_simulators_parameters(name, blobs, federation):
    arguments = {"rate": 0.02}
    method = getattr(methods, name)(**arguments, work=WORK)
    result = fedtide.simulate(blobs, Always(12), {name: method}, rounds=3, evaluate_every=3)
    made = federation(method__name=name, method__rate=0.02, importance=_importance(blobs))
    session = made.serve()
    np.testing.assert_allclose(session.coordinator.served, result.models[name][0], atol=1e-6, rtol=1e-6)
    assert {"train"} <= set(made.nodes[0].kinds)
    assert ("query.loss" in made.nodes[0].kinds) == (name == "ca_fed")


def test_rates_that_differ_by_client(blobs, federation):
    """Clients know only their own size, and their number."""
    factors = np.linspace(0.2, 2, 12).round(2).tolist()
    method = methods.scaffold(rate=0.02, work=WORK, schedule=PerClient(factors))
    result = fedtide.simulate(blobs, Always(12), {"m": method}, rounds=3, evaluate_every=3)
    schedule = {"method__schedule__name": "per_client", "method__schedule__factors": str(factors)}
    made = federation(method__name="scaffold", method__rate=0.02, importance=_importance(blobs), **schedule)
    np.testing.assert_allclose(made.serve().coordinator.served, result.models["m"][0], atol=1e-6, rtol=1e-6)


def _importance(problem):
    alpha = np.asarray(problem.importance)
    return "uniform" if np.allclose(alpha, alpha[0]) else "size"


@pytest.mark.parametrize("name", ["ca_fed", "fedawe"])
def test_recorded_presence_gives_the_simulators_decisions(name, blobs, federation, ledger_of):
    """The ledger's presence, played in the simulator, gives the weights that the server used."""
    rounds = 8
    presence = np.random.default_rng(5).random((rounds, 12)) < np.linspace(0.3, 0.95, 12)
    kappa = {"method__kappa_squared": 0.05} if name == "ca_fed" else {}
    made = federation(method__name=name, importance=_importance(blobs), rounds=rounds, round_seconds=1.0, **kappa)
    turn = {"t": -1}

    def listed():
        turn["t"] += 1
        shown = presence[min(turn["t"] - 1, rounds - 1)] if turn["t"] else [True] * 12
        for node, here in zip(made.nodes, shown, strict=True):
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


def test_one_phase_and_two_give_the_same(federation, ledger_of):
    """Whoever answers is the active set, whether it is asked first or not."""
    found = {}
    for phases in ("auto", "two"):
        made = federation(phases=phases, run=phases, rounds=2)
        made.nodes[4].here = False
        made.config["importance"] = "uniform"
        made.config["enrol-seconds"] = 0.0
        found[phases] = made.serve().coordinator.served
        assert ("query.here" in made.nodes[0].kinds) == (phases == "two")
    np.testing.assert_array_equal(found["auto"], found["two"])


def test_losses_from_training_save_a_phase(federation):
    made = federation(method__name="ca_fed", losses="from-training")
    made.serve()
    assert "query.loss" not in made.nodes[0].kinds
    with pytest.raises(fedtide.FedtideError, match="phases = 'one'"):
        federation(method__name="ca_fed", phases="one", run="other").serve()


def test_the_ledger_teaches_the_estimator_of_the_next_run(federation):
    """A second run begins with the presence of the first."""
    made = federation(method__name="ca_fed", rounds=3)
    first = made.serve()
    made.config.update({"run": "second", "rounds": 1})
    second = made.serve()
    observed = lambda session: np.asarray(session.coordinator.carry.estimator[0]).max()  # noqa: E731
    assert observed(second) > observed(first)
