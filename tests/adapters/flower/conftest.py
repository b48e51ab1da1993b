"""A federation in one process: Flower's apps and messages over a grid that has its own clock."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs pip install 'fedtide[flower]'")

from flwr.app import Context, Error, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.supercore.task_identity import TaskIdentity


class Node:
    """One SuperNode: `delay` seconds for an answer, and what a fault makes of the answer: (message, reply) -> reply."""

    def __init__(self, app, config, delay=1.0, fault=None):
        self.app, self.config, self.delay, self.fault = app, config, delay, fault
        self.here = True  # answers
        self.key = b""  # its public key, as Flower has it
        self.kinds = []  # what it was asked


class Grid:
    """Flower's grid without processes. Time passes when somebody sleeps."""

    def __init__(self, run_config):
        self.now, self.nodes, self.run_config = 0.0, {}, run_config
        self._ids, self._replies, self.pulled = itertools.count(1), {}, 0

    def add(self, node, number=None):
        number = number or 1000 + len(self.nodes)
        self.nodes[number] = node
        return number

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds

    def get_node_ids(self):
        return list(self.nodes)

    def get_nodes(self):
        return [SimpleNamespace(node_id=number, public_key=node.key) for number, node in self.nodes.items()]

    def push_messages(self, messages):
        ids = []
        for message in messages:
            key = f"m{next(self._ids)}"
            message.metadata.__dict__["_message_id"] = key
            ids.append(key)
            node = self.nodes.get(message.metadata.dst_node_id)
            if node is None or not node.here:
                continue
            node.kinds.append(message.metadata.message_type)
            reply = self._answer(node, message)
            if reply is not None:
                delay = node.delay(message) if callable(node.delay) else node.delay
                self._replies[key] = self.now + delay, reply
        return ids

    def _answer(self, node, message):
        context = Context(1, message.metadata.dst_node_id, node.config, RecordDict(), self.run_config)
        try:
            reply = node.app(message, context)
            return reply if node.fault is None else node.fault(message, reply)
        except Exception as error:
            return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, f"{type(error)}:<'{error}'>"), reply_to=message)

    def pull_messages(self, message_ids):
        ready = [key for key in message_ids if key in self._replies and self._replies[key][0] <= self.now]
        return [self._replies.pop(key)[1] for key in ready]


@pytest.fixture(autouse=True)
def identity(monkeypatch):
    """Messages can be made only within a Flower task."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.fixture
def federation(tmp_path, blobs):
    """Makes a federation of the twelve clients of `blobs` with these settings: .grid, .nodes, .serve()."""
    from fedtide.adapters.flower.clients import client_of
    from fedtide.adapters.flower.servers import serve
    from fedtide.adapters.problem import initial_model

    def make(app=None, count=12, initial=None, **settings):
        plain = {
            "state": str(tmp_path / "server"),
            "rounds": 3,
            "clients": ",".join(map(str, range(count))),
            "importance": "size",
            "method.name": "fedavg",
            "local.steps": 3,
            "local.batch": 4,
            "deadline.least": 2.0,
            "deadline.start": 20.0,
        }
        config = {**plain, **{key.replace("__", "."): value for key, value in settings.items()}}
        grid = Grid(config)
        app = app or client_of(blobs)
        nodes = [Node(app, {"partition-id": k, "state": str(tmp_path / "clients")}) for k in range(count)]
        for node in nodes:
            grid.add(node)

        def run(evaluate=None):
            start = [initial_model(blobs)] if initial is None else initial
            return serve(grid, config, start, evaluate, clock=grid.clock, sleep=grid.sleep)

        return SimpleNamespace(grid=grid, nodes=nodes, serve=run, config=config, Node=Node)

    return make


@pytest.fixture
def ledger_of():
    """(rounds, presence [T, N], rows by (round, client)) of a federation's ledger."""
    from sqlalchemy import text

    from fedtide.adapters.ledger import Ledger

    def read(federation, run="run"):
        with Ledger(f"{federation.config['state']}/ledger.db") as ledger:
            rounds, _, here = ledger.presence(run)
            with ledger.database.reading() as connection:
                found = connection.execute(text("select * from presence where run = :run"), {"run": run})
                rows = {(row.round, row.client): row for row in found}
        return np.asarray(rounds), here, rows

    return read
