"""What bad, late, lost and repeated answers do to a round: nothing that was not decided."""

import re

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Error, Message, RecordDict
from flwr.common.constant import ErrorCode

from fedtide.adapters.flower import Answer, client

CLIENTS, SIZE = 5, 6
TARGETS = np.random.default_rng(0).normal(size=(CLIENTS, SIZE)).astype(np.float32)
START = [np.zeros((2, 2), np.float32), np.zeros(2, np.float32)]


def train(arrays, round):
    """Two steps of gradient descent on ½‖w − a_k‖²."""
    w, target = round.joined(arrays), TARGETS[round.node["partition-id"]]
    losses = []
    for step in range(2):
        losses.append(0.5 * float(((w - target) ** 2).sum()))
        correction = round.joined(round.correction)
        w = w - round.rate(step) * (w - target + correction)
    return Answer(round.split(w), 10, 2, float(np.mean(losses)))


def evaluate(arrays, round):
    distance = float(((round.joined(arrays) - TARGETS[round.node["partition-id"]]) ** 2).sum())
    return {"loss": 0.5 * distance, "accuracy": 1 / (1 + distance)}


@pytest.fixture
def toy(federation):
    def make(**settings):
        return federation(client(train, evaluate, examples=10), CLIENTS, START, **{"rounds": 3, **settings})

    return make


def on_train(change):
    """A fault that changes replies to train messages only."""
    return lambda message, reply: change(message, reply) if message.metadata.message_type == "train" else reply


def with_model(reply, arrays):
    content = RecordDict(dict(reply.content))
    content["model"] = ArrayRecord({str(i): Array(a) for i, a in enumerate(arrays)})
    reply.content = content
    return reply


def with_number(name, value):
    def change(message, reply):
        reply.content["numbers"][name] = value
        return reply

    return on_train(change)


def model_fault(make):
    return on_train(
        lambda message, reply: with_model(reply, make([a.numpy() for a in reply.content["model"].values()]))
    )


def said(**changes):
    def change(message, reply):
        for name, value in changes.items():
            reply.content["reply"][name] = value
        return reply

    return on_train(change)


def without(record):
    def change(message, reply):
        reply.content = RecordDict({n: r for n, r in reply.content.items() if n != record})
        return reply

    return on_train(change)


def raising(message, reply):
    if message.metadata.message_type == "train":
        raise RuntimeError("out of memory")
    return reply


BAD = {
    "nan": (model_fault(lambda a: [a[0] * np.float32(np.nan), a[1]]), "refused:parameters that are not finite"),
    "shape": (model_fault(lambda a: [a[0].ravel(), a[1]]), r"refused:array 0 is float32\(4,\)"),
    "dtype": (model_fault(lambda a: [a[0].astype(np.float64), a[1]]), r"refused:array 0 is float64"),
    "count": (model_fault(lambda a: a[:1]), "refused:1 arrays where 2"),
    "norm": (model_fault(lambda a: [a[0] + np.float32(1e6), a[1]]), "refused:a norm of .* where the median is"),
    "bytes": (model_fault(lambda a: [np.zeros(600_000, np.float32), a[1]]), "refused:2,400,.* bytes where at most"),
    "examples": (with_number("examples", 1000), "refused:1000 examples, enrolled with 10"),
    "negative steps": (with_number("steps", -1), "refused:steps = -1"),
    "steps of a kind": (with_number("steps", 2.5), "refused:steps = 2.5"),
    "loss": (with_number("loss", float("inf")), "refused:a loss of inf"),
    "rate": (with_number("rate", 1e-9), "refused:a rate of 1e-09"),
    "another client": (said(client="0"), "refused:answers as client '0'"),
    "replayed round": (said(round=77), "refused:a replayed answer"),
    "replayed nonce": (said(nonce="00"), "refused:a replayed answer"),
    "no reply record": (without("reply"), "refused:malformed"),
    "no numbers": (without("numbers"), "refused:steps = None"),
    "no model": (without("model"), "refused:0 arrays"),
    "raises": (raising, "error:.*out of memory"),
}


@pytest.mark.parametrize("fault", BAD)
def test_a_bad_client_is_refused_and_the_round_goes_on(fault, toy, ledger_of):
    change, reason = BAD[fault]
    made = toy(rounds=2)
    made.nodes[3].fault = change
    session = made.serve()
    _, here, rows = ledger_of(made)
    for t in range(2):
        assert re.match(reason, rows[t, "3"].reason), rows[t, "3"].reason
        assert not rows[t, "3"].included
        assert [bool(rows[t, str(k)].included) for k in (0, 1, 2, 4)] == [True] * 4
    np.testing.assert_array_equal(here[:, 3], False)
    # The four others are a federation of their own: weights are of those who count.
    w = np.zeros(SIZE)
    for _ in range(2):
        w = w - np.mean([0.19 * (w - TARGETS[k]) for k in (0, 1, 2, 4)], axis=0)
    np.testing.assert_allclose(session.coordinator.served, w, atol=1e-6)


def test_a_code_of_flowers_is_a_reason(toy, ledger_of):
    made = toy(rounds=1)

    def gone(message, reply):
        return Message(Error(ErrorCode.NODE_UNAVAILABLE, "gone"), reply_to=message)

    made.nodes[1].fault = on_train(gone)
    made.serve()
    assert ledger_of(made)[2][0, "1"].reason == "no-reply:the node has gone"


def test_who_is_not_on_the_roster_is_refused(toy, ledger_of):
    made = toy(rounds=1, clients="0,1,2,4")
    made.serve()
    rows = ledger_of(made)[2]
    assert rows[0, "3"].reason == "refused:not on the roster"
    assert "train" not in made.nodes[3].kinds


def test_a_client_that_comes_back_as_another_node_is_the_same(toy, ledger_of):
    made = toy(rounds=2)
    made.nodes[2].here = False  # dead, still listed
    made.grid.add(made.Node(made.nodes[2].app, made.nodes[2].config))
    made.serve()
    assert ledger_of(made)[1].all()


def test_a_second_node_with_the_same_id_is_refused(toy, ledger_of, caplog):
    made = toy(rounds=2)
    double = made.Node(made.nodes[2].app, dict(made.nodes[2].config))
    made.grid.add(double)
    made.serve()
    assert ledger_of(made)[1].all()
    assert "train" not in double.kinds
    assert "client 2 is there already, as another node" in caplog.text


def test_nobody_answers_in_time(toy, ledger_of):
    made = toy(rounds=2)
    for node in made.nodes:
        node.delay = lambda message: 1.0 if message.metadata.message_type != "train" else 1000.0
    session = made.serve()
    np.testing.assert_array_equal(session.coordinator.served, np.zeros(SIZE))
    assert {row.reason for row in ledger_of(made)[2].values()} == {"no-reply"}


def test_deadlines_grow_with_slow_answers(toy, ledger_of, caplog):
    """Clients that need 30 s against a deadline of 20 are missed once, then waited for."""
    made = toy(rounds=4, round_seconds=40.0)
    slow = lambda message: 30.0 if message.metadata.message_type == "train" else 1.0  # noqa: E731
    for node in made.nodes[:2]:
        node.delay = slow
    made.serve()
    _, here, _ = ledger_of(made)
    np.testing.assert_array_equal(here[0], [False, False, True, True, True])
    assert here[2:].all()
    assert "slow clients are taken for absent ones" in caplog.text


def test_clipping_shortens_updates(toy):
    made = toy(rounds=1, checks__clip=0.01)
    session = made.serve()
    assert np.linalg.norm(session.coordinator.served) <= 0.01 * (1 + 1e-6)


def test_evaluation_goes_to_the_ledger(toy):
    from fedtide.adapters.ledger import Ledger

    made = toy(rounds=2, evaluate_every=2)
    made.serve(evaluate=lambda arrays, round: {"size": sum(a.size for a in arrays)})
    with Ledger(f"{made.config['state']}/ledger.db") as ledger:
        rounds = ledger.status("run").rounds
    assert rounds[0].metrics == {}
    assert set(rounds[1].metrics) == {"loss", "accuracy", "worst_decile", "evaluated", "server_size"}
    assert rounds[1].metrics["server_size"] == SIZE
    assert rounds[1].metrics["worst_decile"] <= rounds[1].metrics["accuracy"]
