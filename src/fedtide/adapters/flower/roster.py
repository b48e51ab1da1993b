"""Who the clients of a run are, and behind which nodes they stand at the moment."""

import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedtide.adapters.flower.checks import Expected, Refused, opened
from fedtide.adapters.flower.exchange import Exchange, Heard, Question
from fedtide.adapters.flower.identity import Identities
from fedtide.adapters.flower.messages import Order
from fedtide.adapters.flower.settings import Settings
from fedtide.adapters.ledger import Enrolled, Ledger, check_client
from fedtide.errors import FedtideError
from fedtide.problems.importance import target_importance

log = logging.getLogger("fedtide")

_HELLO_BYTES = 10_000
_PATIENCE = 6  # a node that does not say who it is, is asked again after 1, 2, 4 … 2⁶ rounds


class Nodes:
    """Which client each node is. A client that was started again has another node, and Flower lists the dead one for a
    minute: the new one is taken unless the old one still answers. Where keys are known, a node is the client whose key
    it has, or none."""

    def __init__(self, exchange: Exchange, identities: Identities | None = None):
        self.exchange, self.identities = exchange, identities
        self.clients: dict[int, str] = {}  # by node, in the order of their hellos
        self.examples: dict[str, int] = {}
        self._silent: dict[int, tuple[int, int]] = {}  # by node: (times asked, turn of the next question)
        self._claims: dict[int, tuple[str, int]] = {}  # by node: a client that another node was before
        self._posing: dict[int, tuple[str, str]] = {}  # by node: (the client that is to blame, why it is refused)
        self._turn = 0

    def refused(self) -> dict[str, str]:
        """By client: why a node with its key is refused, of those connected."""
        return dict(self._posing.values())

    def greet(self) -> dict[str, int]:
        """Asks nodes that were not seen before who they are: {client: its node}, of those connected."""
        listed = self.exchange.listed()
        self._turn += 1
        due = [n for n in sorted(listed - self.clients.keys()) if self._silent.get(n, (0, 0))[1] <= self._turn]
        for node in due:
            asked = min(self._silent.get(node, (0, 0))[0] + 1, _PATIENCE)
            self._silent[node] = asked, self._turn + 2**asked // 2
        for heard in self._hello(due):
            self.met(heard)
        self._settle_claims(listed)
        self._posing = {node: said for node, said in self._posing.items() if node in listed}
        return {client: node for node, client in self.clients.items() if node in listed}

    def met(self, heard: Heard) -> None:
        """Takes an answer to hello, in time or not."""
        node = heard.question.node
        if heard.message is None:
            log.warning("node %s does not say who it is: %s", node, heard.reason)
            return
        try:
            client, examples = _introduced(heard)
            self._check_key(node, client)
        except FedtideError as error:
            log.warning("node %s is refused: %s", node, error)
            return
        if client in self.clients.values():
            self._claims[node] = client, examples
        else:
            self._accept(node, client, examples)

    def _check_key(self, node: int, client: str) -> None:
        self._posing.pop(node, None)
        if self.identities is None:
            return
        key = self.exchange.keys().get(node, b"")
        try:
            self.identities.check(client, key)
        except Refused as error:
            self._posing[node] = self.identities.owner(key) or client, f"it {error}"
            raise

    def _settle_claims(self, listed: set[int]) -> None:
        """Where the node that was a client before still answers, another one that says it is the same is refused."""
        claims, self._claims = self._claims, {}
        before = {client: node for node, client in self.clients.items() if node in listed}
        contested = sorted({before[client] for client, _ in claims.values() if client in before})
        answered = {heard.question.node for heard in self._hello(contested) if heard.message is not None}
        refused = {node for node, (client, _) in claims.items() if before.get(client) in answered}
        for node, (client, examples) in claims.items():
            if node in refused:
                log.warning("node %s is refused: client %s is there already, as another node", node, client)
                self._silent[node] = _PATIENCE, self._turn + 2**_PATIENCE
            else:
                log.info("client %s is back as node %s", client, node)
                self._accept(node, client, examples)

    def _accept(self, node: int, client: str, examples: int) -> None:
        self.clients.pop(node, None)
        self.clients[node] = client
        self.examples[client] = examples

    def _hello(self, nodes: Sequence[int]) -> list[Heard]:
        questions = [Question(node, Order("hello", nonce=secrets.token_hex(8))) for node in nodes]
        return self.exchange.ask(questions, self.exchange.deadlines.seconds("hello"))


def _introduced(heard: Heard) -> tuple[str, int]:
    """(client, its samples) as an answer to hello says."""
    assert heard.message is not None
    expected = Expected("hello", 0, heard.question.order.nonce, "", 0, (), None, False)  # pyright: ignore
    reply = opened(heard.message, expected, _HELLO_BYTES)
    examples = reply.numbers.get("examples", 0)
    if not isinstance(examples, int) or not 0 <= examples < 2**31:
        raise Refused(f"{examples!r:.40} examples")
    return check_client(reply.client), examples


def enrol(settings: Settings, nodes: Nodes, ledger: Ledger) -> list[Enrolled]:
    """The run's roster: as the ledger has it, or made now: those listed, or whoever enrols in time."""
    if settings.run in [run.run for run in ledger.runs()]:
        return ledger.roster(settings.run)
    clock, sleep = nodes.exchange.clock, nodes.exchange.sleep
    listed, begun, told = settings.ids, clock(), -np.inf
    while True:
        found = set(nodes.greet())
        elapsed = clock() - begun
        if listed and found >= set(listed):
            break
        # Shares that follow sizes need the size of everybody listed; one that has said it may be away again.
        unknown = [client for client in listed if settings.importance == "size" and client not in nodes.examples]
        enough = not unknown if listed else len(found) >= settings.min_clients
        if elapsed >= settings.enrol_seconds and enough:
            break
        if elapsed - told >= 30:
            missing = ", ".join(client for client in listed if client not in found)
            waiting = f"; waiting for {missing:.200}" if missing else ""
            log.info("%d clients have enrolled so far%s", len(found), waiting)
            told = elapsed
        sleep(min(1.0, settings.poll_seconds))
    for client in sorted(found):
        ledger.seen(client, time.time())
    return _roster(settings, listed or sorted(found, key=_natural), nodes.examples)


def _roster(settings: Settings, ids: list[str], examples: Mapping[str, int]) -> list[Enrolled]:
    sizes = np.array([examples.get(client, 0) for client in ids])
    if settings.importance == "size" and not sizes.all():
        unknown = ", ".join(client for client, size in zip(ids, sizes, strict=True) if not size)
        raise FedtideError(f"importance = 'size': the samples of {unknown:.200} are not known; use 'uniform', or wait")
    alpha = target_importance(settings.importance, np.maximum(sizes, 1))
    entries = zip(ids, sizes.tolist(), alpha.tolist(), strict=True)
    return [Enrolled(client, number, size, share) for number, (client, size, share) in enumerate(entries)]


def _natural(client: str) -> tuple[Any, ...]:
    return (0, int(client), "") if client.isdecimal() else (1, 0, client)
