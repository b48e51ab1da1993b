"""What bad, late, lost and repeated answers do to a round: nothing that was not decided."""

import io
import re

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Error, Message, RecordDict
from flwr.common.constant import ErrorCode

from fedtide.adapters import flower
from fedtide.adapters.flower import Answer, client, session

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


def archive(record):
    """NumPy's archive of several arrays in place of each array of a record."""

    def change(message, reply):
        file = io.BytesIO()
        np.savez(file, a=np.zeros(3, np.float32))
        packed = Array("float32", (3,), "numpy.ndarray", file.getvalue())
        reply.content[record] = ArrayRecord(dict.fromkeys(reply.content[record], packed))
        return reply

    return on_train(change)


def stepless(message, reply):
    reply.content["numbers"]["steps"] = 0
    return with_model(reply, [a.numpy() + np.float32(1e6) for a in reply.content["model"].values()])


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
    "another client": (said(client="0"), "refused:a reply of client '0'"),
    "replayed round": (said(round=77), "refused:a replayed answer"),
    "replayed nonce": (said(nonce="00"), "refused:a replayed answer"),
    "no reply record": (without("reply"), "refused:malformed"),
    "no numbers": (without("numbers"), "refused:steps = None"),
    "no model": (without("model"), "refused:0 arrays"),
    "raises": (raising, "error:.*out of memory"),
    "archive": (archive("model"), "refused:malformed .*not an array"),
    "archive of masses": (archive("mass"), "refused:malformed .*not an array"),
    "no step": (on_train(stepless), "refused:a change without a step"),
    "mass without a step": (with_number("steps", 0), "refused:a change without a step"),
    "loss in double precision": (with_number("loss", 1e300), r"refused:a loss of 1e\+300"),
    "long string": (said(more="x" * 2_000_000), "refused:2,00.* bytes where at most"),
    "long list": (with_number("more", [1.0] * 300_000), "refused:2,40.* bytes where at most"),
    "long refusal": (said(refusal="x\n" * 1000), "refused:(x ){199}x$"),
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


def test_an_error_in_a_check_is_a_reason(toy, ledger_of, monkeypatch):
    checked = session.checks.update_of

    def broken(reply, *arguments):
        if reply.client == "3":
            raise AttributeError("no shape")
        return checked(reply, *arguments)

    monkeypatch.setattr(session.checks, "update_of", broken)
    made = toy(rounds=1)
    made.serve()
    assert ledger_of(made)[2][0, "3"].reason == "refused:malformed (AttributeError: no shape)"


def expected_of(clients=CLIENTS, parameters=SIZE):
    from fedtide import methods
    from fedtide.adapters.coordinator import shapes
    from fedtide.adapters.flower.checks import ExpectedReply
    from fedtide.types import Population

    ones = np.ones(clients, np.float32)
    exchanged = shapes(methods.fedavg(), Population(ones / clients, ones), parameters)
    return ExpectedReply(((parameters,),), exchanged, False, True)


def test_a_change_that_overflows_is_refused():
    from fedtide.adapters.flower.checks import Refused, update_of
    from fedtide.adapters.flower.messages import Reply
    from fedtide.adapters.flower.settings import CheckSettings

    model = [np.full(SIZE, 3.4e38, np.float32)]
    with pytest.raises(Refused, match="a change that is not finite"):
        update_of(Reply("train", 0, "", "0", {}, model), -model[0] / 3, expected_of(), 10, CheckSettings())


def test_the_largest_reply_follows_the_models_precision(toy, monkeypatch):
    limit_of, seen = session.checks.most_bytes, set()

    def most_bytes(limits, expected, model):
        seen.add(model)
        return limit_of(limits, expected, model)

    monkeypatch.setattr(session.checks, "most_bytes", most_bytes)
    assert toy(rounds=1).serve().coordinator.start.nbytes in seen
    assert len(seen) == 1


def overflowing(message, reply):
    for name, value in (("before", -3e38), ("after", 3e38)):
        found = {n: np.full_like(a.numpy(), value) for n, a in reply.content[name].items()}
        reply.content[name] = ArrayRecord({n: Array(a) for n, a in found.items()})
    return reply


def test_rows_are_compared(toy, ledger_of):
    made = toy(rounds=2, method__name="scaffold")
    made.nodes[3].fault = on_train(overflowing)
    made.serve()
    rows = ledger_of(made)[2]
    for t in range(2):
        assert rows[t, "3"].reason.startswith("refused:a row norm of")
        assert all(rows[t, str(k)].included for k in (0, 1, 2, 4))


def test_messages_are_compared():
    from fedtide.adapters.coordinator import Update
    from fedtide.adapters.flower.checks import outliers

    honest = Update(np.ones(2), 1.0, 2, np.float32(0.2), 0.1, message=np.ones(2, np.float32))
    updates = dict.fromkeys(range(4), honest)
    assert not outliers(updates, 100.0)
    liar = honest._replace(message=np.full(2, 1e30, np.float32), steps=0)
    assert outliers({**updates, 3: liar}, 100.0)[3].startswith("a message norm of")


def test_a_round_that_would_break_the_servers_state_does_not_count(toy, ledger_of):
    made = toy(rounds=2, method__name="scaffold", checks__times_median=1e300)
    made.nodes[3].fault = on_train(
        lambda message, reply: overflowing(message, reply) if message.content["order"]["round"] == 0 else reply
    )
    served = made.serve().coordinator
    rows = ledger_of(made)[2]
    assert {rows[0, str(k)].reason for k in range(5)} == {"refused:the server's state would not be finite"}
    assert not any(rows[0, str(k)].included for k in range(5))
    assert all(rows[1, str(k)].included for k in range(5))
    np.testing.assert_allclose(served.served, 0.19 * TARGETS.mean(0), atol=1e-6)
    assert np.isfinite(served.shared.control).all()


def test_a_late_update_does_not_replace_a_newer_one(toy, caplog):
    """Client 0's answer of the first round comes after that of the second, which counted; then the client is away."""
    found = []
    for arrives in (True, False):
        made = toy(rounds=6, method__name="fedvarp", late="use", run=f"run-{arrives}")
        node = made.nodes[0]

        def slow(message, node=node):
            round = message.content["order"]["round"] if message.metadata.message_type == "train" else -1
            node.here = round != 1
            return 24.0 if round == 0 else 1.0

        def lost(message, reply):
            return None if message.content["order"]["round"] == 0 else reply

        node.delay, node.fault = slow, None if arrives else on_train(lost)
        with caplog.at_level("INFO", "fedtide"):
            found.append(np.asarray(made.serve().coordinator.carry.aggregation.rows)[0])
        assert "client 0 answered 'train' of round 1 late" in caplog.text
    np.testing.assert_array_equal(*found)
    assert np.abs(found[0]).max() > 1e-3


def test_a_late_update_is_compared_with_the_others(toy, caplog):
    made = toy(rounds=2, method__name="fedvarp", late="use", round_seconds=60.0)
    node = made.nodes[0]

    def slow(message):
        node.here = message.metadata.message_type != "train"
        return 1.0 if node.here else 30.0

    node.delay, node.fault = slow, BAD["norm"][0]
    session = made.serve()
    np.testing.assert_array_equal(np.asarray(session.coordinator.carry.aggregation.rows)[0], 0)
    assert "client 0: its late update is refused: a norm of" in caplog.text


def test_the_documented_names_are_there():
    names = re.findall(r"flower\.(\w+)\(", flower.__doc__)
    assert names
    assert set(names) <= set(flower.__all__)


def test_a_code_of_flowers_is_a_reason(toy, ledger_of):
    made = toy(rounds=1)

    def gone(message, reply):
        return Message(Error(ErrorCode.NODE_UNAVAILABLE, "gone"), reply_to=message)

    made.nodes[1].fault = on_train(gone)
    made.serve()
    assert ledger_of(made)[2][0, "1"].reason == "no-reply:the node has disconnected"


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
    assert "client 2 is already connected as another node" in caplog.text


def test_two_more_nodes_with_the_same_id_are_refused(toy, ledger_of):
    made = toy(rounds=2)
    doubles = [made.Node(made.nodes[2].app, dict(made.nodes[2].config)) for _ in range(2)]
    for double in doubles:
        made.grid.add(double)
    made.serve()
    assert ledger_of(made)[1].all()
    assert not any("train" in double.kinds for double in doubles)


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
    session = made.serve()
    _, here, _ = ledger_of(made)
    np.testing.assert_array_equal(here[0], [False, False, True, True, True])
    assert here[2:].all()
    late = [took for took, deadline in session.exchange.deadlines._observed["train"] if took > deadline]
    assert len(late) >= 2
    assert all(30 <= took <= 36 for took in late)  # as they came, not when the next round began
    assert "slow clients count as unavailable" in caplog.text


def test_late_answers_are_seen_in_long_rounds(toy, ledger_of):
    """Hourly rounds: the answer's time to live is long over when the next one begins."""
    made = toy(rounds=2, round_seconds=3600.0, deadline__most=100.0)
    made.nodes[0].delay = lambda message: 30.0 if message.metadata.message_type == "train" else 1.0
    made.serve()
    np.testing.assert_array_equal(ledger_of(made)[1][:, 0], [False, True])
    assert 3600 < made.grid.now < 3800  # no rest after the last round


def test_a_listed_client_that_is_away_is_waited_for(toy, ledger_of, caplog):
    made = toy(rounds=1, enrol_seconds=60.0)
    made.nodes[4].here = False
    sleep = made.grid.sleep

    def later(seconds):
        sleep(seconds)
        made.nodes[4].here |= made.grid.now > 500

    made.grid.sleep = later
    with caplog.at_level("INFO", "fedtide"):
        made.serve()
    assert made.grid.now > 500
    assert "4 clients have enrolled so far; waiting for 4" in caplog.text
    assert ledger_of(made)[1].all()


def test_a_run_is_finished_once_its_model_is_written(toy, monkeypatch):
    from fedtide.adapters.flower import servers
    from fedtide.adapters.ledger import Ledger

    def full(settings, session):
        raise OSError("disk full")

    def finished():
        with Ledger(f"{made.config['state']}/ledger.db") as ledger:
            return ledger.runs()[0].finished is not None

    made = toy(rounds=1)
    with monkeypatch.context() as patch:
        patch.setattr(servers, "save_model", full)
        with pytest.raises(OSError, match="disk full"):
            made.serve()
    assert not finished()
    made.serve()  # no round is left: the model is
    assert finished()
    assert (servers.settings_of(made.config).folder / "model.safetensors").exists()


def test_the_server_refuses_a_password_in_its_configuration(toy):
    from fedtide.errors import FedtideError

    made = toy(ledger="postgresql://me:hunter2@db/x")
    with pytest.raises(FedtideError, match="PGPASSFILE") as error:
        made.serve()
    assert "hunter2" not in str(error.value)
    assert not made.nodes[0].kinds


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
