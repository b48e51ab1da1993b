"""Servers that are killed and clients that lose their disk."""

import shutil

import numpy as np
import pytest

import fedtide
from fedtide import methods
from fedtide.adapters.flower import state
from fedtide.availability import Always
from fedtide.work import Steps

ROUNDS = 4


class Killed(BaseException):
    """Ends a server as a signal would: nothing catches it."""


@pytest.fixture
def simulated(blobs):
    method = methods.scaffold(rate=0.02, work=Steps(count=3, batch=4))
    return fedtide.simulate(blobs, Always(12), {"m": method}, rounds=ROUNDS, evaluate_every=ROUNDS).models["m"][0]


@pytest.fixture
def scaffold(federation, blobs):
    alpha = np.asarray(blobs.importance)
    importance = "uniform" if np.allclose(alpha, alpha[0]) else "size"
    return federation(method__name="scaffold", method__rate=0.02, importance=importance, rounds=ROUNDS)


@pytest.mark.parametrize("where", ["before the checkpoint", "after it", "disk full"])
def test_a_killed_server_goes_on_as_if_nothing_had_happened(where, scaffold, simulated, ledger_of, monkeypatch):
    save, calls = state.ServerState.save, []

    def dying(self, *arguments):
        calls.append(arguments[-1])
        if len(calls) == 3:
            if where == "after it":
                save(self, *arguments)
            raise OSError(28, "No space left on device") if where == "disk full" else Killed()
        save(self, *arguments)

    monkeypatch.setattr(state.ServerState, "save", dying)
    with pytest.raises((Killed, OSError)):
        scaffold.serve()
    session = scaffold.serve()
    assert calls == ([1, 2, 3, 4] if where == "after it" else [1, 2, 3, 3, 4])
    np.testing.assert_allclose(session.coordinator.served, simulated, atol=1e-6, rtol=1e-6)
    rounds, here, _ = ledger_of(scaffold)
    np.testing.assert_array_equal(rounds, range(ROUNDS))
    assert here.all()


def test_a_client_without_its_memory_is_refused(scaffold, ledger_of, tmp_path):
    def lose(message, reply):
        if message.metadata.message_type == "train" and message.content["order"]["round"] == 1:
            shutil.rmtree(tmp_path / "clients" / "run" / "3")
        return reply

    scaffold.nodes[3].fault = lose
    scaffold.serve()
    rows = ledger_of(scaffold)[2]
    assert rows[1, "3"].included
    assert rows[2, "3"].reason.startswith("refused:memory lost")
    assert rows[3, "3"].reason.startswith("refused:memory lost")


def test_a_client_without_its_memory_may_start_anew(scaffold, ledger_of, tmp_path):
    def lose(message, reply):
        if message.metadata.message_type == "train" and message.content["order"]["round"] == 1:
            shutil.rmtree(tmp_path / "clients" / "run" / "3")
        return reply

    scaffold.nodes[3].fault = lose
    scaffold.config["lost-memory"] = "restart"
    scaffold.serve()
    rows = ledger_of(scaffold)[2]
    assert [bool(rows[t, "3"].included) for t in range(ROUNDS)] == [True, True, False, True]


def test_an_update_that_did_not_count_leaves_no_trace_at_the_client(scaffold, simulated, blobs, ledger_of):
    """A client whose answer of round 1 is lost on the way trains in round 2 from its row of round 0."""
    lost = {}

    def drop(message, reply):
        if message.metadata.message_type == "train" and message.content["order"]["round"] == 1 and not lost:
            lost["reply"] = True
            return None
        return reply

    scaffold.nodes[3].fault = drop
    session = scaffold.serve()
    presence = np.ones((ROUNDS, 12), bool)
    presence[1, 3] = False
    method = methods.scaffold(rate=0.02, work=Steps(count=3, batch=4))
    played = fedtide.availability.Trace(presence)
    result = fedtide.simulate(blobs, played, {"m": method}, rounds=ROUNDS, evaluate_every=ROUNDS)
    np.testing.assert_array_equal(ledger_of(scaffold)[1], presence)
    np.testing.assert_allclose(session.coordinator.served, result.models["m"][0], atol=1e-6, rtol=1e-6)
    assert np.abs(session.coordinator.served - simulated).max() > 1e-5


def test_another_method_does_not_go_on_from_the_checkpoint(scaffold):
    scaffold.serve()
    scaffold.config["method.rate"] = 0.5
    with pytest.raises(fedtide.FedtideError, match="belongs to another run"):
        scaffold.serve()


def test_late_updates_are_used_by_a_method_with_memory(federation):
    """Client 0 answers too late in the first round and is gone then: only its late update can be in the memory."""
    found = {}
    for late in ("drop", "use"):
        settings = {"method__name": "fedvarp", "method__rate": 0.02, "rounds": 2, "round_seconds": 60.0}
        made = federation(**settings, late=late, run=late)
        node = made.nodes[0]

        def slow(message, node=node):
            node.here = message.metadata.message_type != "train"
            return 1.0 if node.here else 30.0

        node.delay = slow
        session = made.serve()
        found[late] = np.asarray(session.coordinator.carry.aggregation.rows)[0]
    np.testing.assert_array_equal(found["drop"], 0)
    assert np.abs(found["use"]).max() > 1e-3


def test_late_updates_need_a_method_that_remembers(federation):
    with pytest.raises(fedtide.FedtideError, match="late = 'use'"):
        federation(late="use").serve()


def test_trains_absent_is_refused(federation):
    with pytest.raises(fedtide.FedtideError, match="FedPBC"):
        federation(method__name="fedpbc").serve()
