"""Replies that come in slowly, without end or malformed, over Flower's own grid: they cost nobody but their sender."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from flwr.common.serde import message_to_proto
from flwr.proto.message_pb2 import ConfirmMessageReceivedResponse, PullObjectResponse
from flwr.proto.runtime_pb2 import PullAppMessagesResponse
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.superlink.grid import HttpGrid

from fedtide.adapters.flower import Answer, client

PATIENCE = 5  # times that an object that is not there may be asked for at one moment
START = [np.zeros((2, 2), np.float32), np.zeros(2, np.float32)]


class Link:
    """What the grid's client asks of SuperLink: a reply can be taken, once, when it is announced; its objects when they
    are there. `seconds(node, i)`: how long after the announcement its i-th object arrives; None: never."""

    def __init__(self, grid):
        self.grid, self.seconds = grid, lambda node, i: 0.0
        self.objects, self.taken, self.confirmed, self.asked = {}, {}, [], {}
        self.cost, self.lock = lambda: 0.0, threading.Lock()  # seconds of a request for an object

    def PullMessages(self, request):
        answer = PullAppMessagesResponse()
        assert not set(request.message_ids) & self.taken.keys(), "a reply can be taken once"
        for message in self.grid.pull_messages(request.message_ids):
            node = message.metadata.src_node_id
            contents = {key: found.deflate() for key, found in get_all_nested_objects(message).items()}
            for i, (key, content) in enumerate(self.spoiled(node, contents).items()):
                after = self.seconds(node, i)
                self.objects[key] = content, np.inf if after is None else self.grid.now + after
            message.metadata.__dict__["_message_id"] = message.object_id
            self.taken[message.metadata.reply_to_message_id] = message.object_id
            answer.messages_list.append(message_to_proto(message))
            answer.message_object_trees.append(get_object_tree(message))
        return answer

    def spoiled(self, node, contents):
        return contents

    def PullObject(self, request):
        with self.lock:
            self.grid.now += self.cost()
            return self._object(request)

    def _object(self, request):
        if request.object_id not in self.objects:
            return PullObjectResponse(object_found=False, object_available=False)
        content, when = self.objects[request.object_id]
        there = when <= self.grid.now
        if not there:
            moment = request.object_id, self.grid.now
            self.asked[moment] = self.asked.get(moment, 0) + 1
            assert self.asked[moment] < PATIENCE, "the server waits for one node"
        return PullObjectResponse(object_found=True, object_available=there, object_content=content if there else b"")

    def ConfirmMessageReceived(self, request):
        self.confirmed.append(request.message_object_id)
        return ConfirmMessageReceivedResponse()


class Real(HttpGrid):
    """Flower's grid, whose requests end in `Link`; what it sends goes to the nodes of the grid without processes."""

    def __init__(self, grid):
        super().__init__(token="token")
        self.inner, self._client, self._run = grid, Link(grid), SimpleNamespace(run_id=1)
        self.push_messages, self.get_nodes = grid.push_messages, grid.get_nodes

    @property
    def run(self):
        return self._run


def train(arrays, round):
    return Answer([a + 1 for a in arrays], 10, 2, 1.0)


@pytest.fixture
def real(federation):
    """A federation of five over Flower's grid: .link, and .serve()."""
    from fedtide.adapters.flower.servers import serve

    def make(**settings):
        made = federation(client(train, examples=10), 5, START, **{"rounds": 4, "deadline.most": 30.0, **settings})
        grid = Real(made.grid)
        made.link = grid._client
        made.serve = lambda: serve(grid, made.config, START, clock=made.grid.clock, sleep=made.grid.sleep)
        return made

    return make


def test_flowers_client_has_what_is_used_of_it():
    """Another version of Flower may not."""
    grid = HttpGrid("127.0.0.1:1", insecure=True, token="token")
    assert isinstance(grid._runtime_client, RuntimeHttpClient)
    for name in ("PullMessages", "PullObject", "ConfirmMessageReceived"):
        assert callable(getattr(grid._runtime_client, name))
    assert grid.node.node_id


def test_all_replies_arrive_whole_and_are_confirmed(real, ledger_of):
    made = real()
    session = made.serve()
    assert ledger_of(made)[1].all()
    assert sorted(made.link.confirmed) == sorted(made.link.taken.values())
    np.testing.assert_allclose(session.coordinator.served, 4.0)


def on_train(node, made):
    return made.nodes[node - 1000].kinds[-1] == "train"


@pytest.mark.parametrize("pace", [100.0, None])
def test_a_reply_that_comes_in_slowly_delays_nobody(real, ledger_of, pace):
    """One object every 100 s, or none after the first: the round ends at its deadline, with all others."""
    made = real(rounds=3)
    made.link.seconds = lambda node, i: i and pace and pace * i if node == 1002 and on_train(node, made) else 0.0
    made.serve()
    rows = ledger_of(made)[2]
    for t in range(3):
        assert rows[t, "2"].reason == "no-reply"
        assert all(rows[t, str(k)].included for k in (0, 1, 3, 4))
    assert made.grid.now < 200  # three deadlines


def test_a_slow_reply_is_timed_and_used_when_it_is_whole(real, ledger_of):
    made = real(rounds=6)
    made.link.seconds = lambda node, i: 4.0 * i if node == 1002 and len(made.nodes[2].kinds) == 2 else 0.0
    made.config["round-seconds"] = 10.0
    made.serve()
    rows = ledger_of(made)[2]
    assert rows[0, "2"].reason == "no-reply"
    assert rows[5, "2"].included
    assert set(made.link.taken.values()) == set(made.link.confirmed)


def test_countless_objects_do_not_stop_the_server(real, ledger_of):
    """Each takes 0.1 s; one client's reply has 2000 of them."""
    made = real(rounds=2)
    made.link.cost = lambda: 0.1

    def many(message, reply):
        if message.metadata.message_type == "train":
            content = RecordDict(dict(reply.content))
            content["message"] = ArrayRecord({str(i): Array(np.full(1, i, np.float32)) for i in range(2000)})
            reply.content = content
        return reply

    made.nodes[3].fault = many
    made.serve()
    rows = ledger_of(made)[2]
    for t in range(2):
        assert rows[t, "3"].reason == "no-reply"
        assert all(rows[t, str(k)].included for k in (0, 1, 2, 4))
    assert made.grid.now < 150  # twice a deadline of 30 s, in each round, and some seconds


def test_objects_that_vanish_and_replies_that_cannot_be_read_are_written_down(real, ledger_of):
    made = real(rounds=2)

    def spoiled(node, contents):
        if not on_train(node, made) or node not in (1001, 1003):
            return contents
        keys = list(contents)
        if node == 1001:  # Flower forgets the objects of a sender that has stopped
            return {key: contents[key] for key in keys[:-1]}
        other = ConfigRecord({"a": 1}).deflate()
        return dict.fromkeys(keys, other)

    made.link.spoiled = spoiled
    made.serve()
    rows = ledger_of(made)[2]
    for t in range(2):
        assert rows[t, "1"].reason == "no-reply:the reply is incomplete"
        assert rows[t, "3"].reason.startswith("refused:")
        assert all(rows[t, str(k)].included for k in (0, 2, 4))


def training(made):
    return made.nodes[0].kinds[-1] == "train"


def test_replies_count_that_the_server_is_too_slow_to_fetch(real, ledger_of):
    """They are there after 1 s; to fetch all of them takes three times the deadline."""
    made = real(rounds=2, **{"deadline.start": 3.0})
    made.link.cost = lambda: 0.2 if training(made) else 0.0
    made.serve()
    assert made.grid.now > 3 * 3.0
    assert all(row.included for row in ledger_of(made)[2].values())


def test_a_server_that_catches_up_waits_for_no_client(real, ledger_of):
    """One reply lacks an object, another one is announced after the deadline: neither prolongs the round."""
    made = real(rounds=1, **{"deadline.start": 3.0})
    made.link.cost = lambda: 0.2 if training(made) else 0.0
    made.link.seconds = lambda node, i: None if node == 1002 and i == 0 and training(made) else 0.0
    made.nodes[4].delay = lambda message: 5.5 if message.metadata.message_type == "train" else 1.0
    made.serve()
    rows = ledger_of(made)[2]
    assert 6.5 < made.grid.now < 12.0
    assert {k: rows[0, str(k)].reason for k in range(5)} == {0: None, 1: None, 2: "no-reply", 3: None, 4: "no-reply"}


def test_replies_that_were_begun_are_finished_first(real, ledger_of):
    """Also where there is no time for all of them."""
    made = real(rounds=1, **{"deadline.start": 3.0, "deadline.most": 4.0})
    made.link.cost = lambda: 0.25 if training(made) else 0.0
    made.serve()
    included = sum(row.included for row in ledger_of(made)[2].values())
    assert 1 < included < 5


def test_objects_are_fetched_several_at_a_time(real, ledger_of):
    made = real(rounds=1)
    fetch, together, calls = made.link.PullObject, threading.Barrier(2, timeout=30), iter(range(10**6))

    def meeting(request):
        if next(calls) < 2:
            together.wait()
        return fetch(request)

    made.link.PullObject = meeting
    made.serve()
    assert ledger_of(made)[1].all()
