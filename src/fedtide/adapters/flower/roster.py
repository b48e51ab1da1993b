"""The clients of a run, and the nodes through which they are connected."""

import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from fedtide.adapters.flower.checks import Refused, opened
from fedtide.adapters.flower.exchange import Exchange, Request, RequestOutcome
from fedtide.adapters.flower.messages import Order
from fedtide.adapters.flower.settings import Settings
from fedtide.adapters.ledger import Enrolled, Ledger, check_client
from fedtide.errors import FedtideError
from fedtide.problems.importance import target_importance

log = logging.getLogger("fedtide")

_HELLO_BYTES = 10_000
_MOST_RETRIES = 6  # a node that does not identify itself is asked again after 1, 2, 4 … 2⁶ rounds


def read_identities(folder: str) -> dict[str, bytes] | None:
    """The clients' public keys by name, from a folder with a file NAME.pub for each; None if no folder is given.

    Flower's node authentication binds a node to its registered public key: the node signs every request. If the server
    knows the keys, they decide which client a node is.
    """
    if not folder:
        return None
    place = Path(folder).expanduser()
    keys = {unquote(path.stem): _read(path) for path in sorted(place.glob("*.pub"))}
    if not keys:
        raise FedtideError(f"keys = {folder!r}: must be a folder with the clients' public keys, NAME.pub")
    if len(set(keys.values())) < len(keys):
        raise FedtideError(f"keys = {folder!r}: two clients have the same key")
    return keys


def _read(path: Path) -> bytes:
    try:
        return _canonical(serialization.load_ssh_public_key(path.read_bytes()))
    except (ValueError, OSError, UnsupportedAlgorithm) as error:
        raise FedtideError(f"{path}: not a public key of SSH's format ({error})") from error


def _canonical(key: Any) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


class Nodes:
    """The client of each node. A restarted client has a new node, and Flower lists the old one for another minute, so
    the new node is accepted unless the old one still answers. With known keys, a node must have its client's key."""

    def __init__(self, exchange: Exchange, identities: Mapping[str, bytes] | None = None):
        self.exchange, self.identities = exchange, identities
        self.clients: dict[int, str] = {}  # by node, in the order of identification
        self.examples: dict[str, int] = {}
        self._unidentified: dict[int, tuple[int, int]] = {}  # by node: (times asked, turn of the next request)
        self._claims: dict[int, tuple[str, int]] = {}  # by node: a client that already has another node
        self._rejected: dict[int, tuple[str, str]] = {}  # by node: (the client whose key it has, the reason)
        self._turn = 0

    def rejected(self) -> dict[str, str]:
        """By client: the reason why a connected node with its key is rejected."""
        return dict(self._rejected.values())

    def identify(self) -> dict[str, int]:
        """Identifies new nodes; returns {client: its node} for all connected clients."""
        connected = self.exchange.connected()
        self._turn += 1
        due = [n for n in sorted(connected - self.clients.keys()) if self._unidentified.get(n, (0, 0))[1] <= self._turn]
        for node in due:
            asked = min(self._unidentified.get(node, (0, 0))[0] + 1, _MOST_RETRIES)
            self._unidentified[node] = asked, self._turn + 2**asked // 2
        for outcome in self._hello(due):
            self.introduce(outcome)
        self._settle_claims(connected)
        self._rejected = {node: why for node, why in self._rejected.items() if node in connected}
        return {client: node for node, client in self.clients.items() if node in connected}

    def introduce(self, outcome: RequestOutcome) -> None:
        """Processes the outcome of a hello request, in time or late."""
        node = outcome.request.node
        if outcome.message is None:
            log.warning("node %s does not identify itself: %s", node, outcome.reason)
            return
        try:
            client, examples = _identity(outcome)
            self._check_key(node, client)
        except FedtideError as error:
            log.warning("node %s is refused: %s", node, error)
            return
        if client in self.clients.values():
            self._claims[node] = client, examples
        else:
            self._accept(node, client, examples)

    def _check_key(self, node: int, client: str) -> None:
        """Raises `Refused` unless the node has the key of the client."""
        self._rejected.pop(node, None)
        if self.identities is None:
            return
        try:
            key = _canonical(serialization.load_pem_public_key(self.exchange.keys().get(node, b"")))
        except (ValueError, UnsupportedAlgorithm):
            key = b""
        if self.identities.get(client) == key:
            return
        owner = next((name for name, known in self.identities.items() if known == key), None)
        why = f"but its key is {'unknown' if owner is None else f'that of client {owner!r:.60}'}"
        if client not in self.identities:
            why = "which has no key"
        refused = Refused(f"claims to be client {client!r:.60}, {why}")
        self._rejected[node] = owner or client, f"it {refused}"
        raise refused

    def _settle_claims(self, connected: set[int]) -> None:
        """Accepts a client's new node, unless its old node still answers."""
        claims, self._claims = self._claims, {}
        before = {client: node for node, client in self.clients.items() if node in connected}
        contested = sorted({before[client] for client, _ in claims.values() if client in before})
        answered = {outcome.request.node for outcome in self._hello(contested) if outcome.message is not None}
        refused = {node for node, (client, _) in claims.items() if before.get(client) in answered}
        for node, (client, examples) in claims.items():
            if node in refused:
                log.warning("node %s is refused: client %s is already connected as another node", node, client)
                self._unidentified[node] = _MOST_RETRIES, self._turn + 2**_MOST_RETRIES
            else:
                log.info("client %s is back as node %s", client, node)
                self._accept(node, client, examples)

    def _accept(self, node: int, client: str, examples: int) -> None:
        self.clients.pop(node, None)
        self.clients[node] = client
        self.examples[client] = examples

    def _hello(self, nodes: Sequence[int]) -> list[RequestOutcome]:
        requests = [Request(node, Order("hello", nonce=secrets.token_hex(8))) for node in nodes]
        return self.exchange.send(requests, self.exchange.deadlines.seconds("hello"))


def _identity(outcome: RequestOutcome) -> tuple[str, int]:
    """(client, its number of examples) from the reply to a hello request."""
    assert outcome.message is not None
    reply = opened(outcome.message, outcome.request.order, _HELLO_BYTES)
    examples = reply.numbers.get("examples", 0)
    if not isinstance(examples, int) or not 0 <= examples < 2**31:
        raise Refused(f"{examples!r:.40} examples")
    return check_client(reply.client), examples


def enrol(settings: Settings, nodes: Nodes, ledger: Ledger) -> list[Enrolled]:
    """The run's roster: from the ledger, or a new one of the listed clients or of those that enrol in time."""
    if settings.run in [run.run for run in ledger.runs()]:
        return ledger.roster(settings.run)
    clock, sleep = nodes.exchange.clock, nodes.exchange.sleep
    listed, begun, logged = settings.ids, clock(), -np.inf
    while True:
        enrolled = set(nodes.identify())
        elapsed = clock() - begun
        if listed and enrolled >= set(listed):
            break
        # Importance by size needs the sizes of all listed clients, which need not be connected at the same time.
        unknown = [client for client in listed if settings.importance == "size" and client not in nodes.examples]
        enough = not unknown if listed else len(enrolled) >= settings.min_clients
        if elapsed >= settings.enrol_seconds and enough:
            break
        if elapsed - logged >= 30:
            missing = ", ".join(client for client in listed if client not in enrolled)
            waiting = f"; waiting for {missing:.200}" if missing else ""
            log.info("%d clients have enrolled so far%s", len(enrolled), waiting)
            logged = elapsed
        sleep(min(1.0, settings.poll_seconds))
    for client in sorted(enrolled):
        ledger.seen(client, time.time())
    return _roster(settings, listed or sorted(enrolled, key=_natural), nodes.examples)


def _roster(settings: Settings, ids: list[str], examples: Mapping[str, int]) -> list[Enrolled]:
    sizes = np.array([examples.get(client, 0) for client in ids])
    if settings.importance == "size" and not sizes.all():
        unknown = ", ".join(client for client, size in zip(ids, sizes, strict=True) if not size)
        raise FedtideError(f"importance = 'size': the sizes of {unknown:.200} are not known; use 'uniform', or wait")
    alpha = target_importance(settings.importance, np.maximum(sizes, 1))
    entries = zip(ids, sizes.tolist(), alpha.tolist(), strict=True)
    return [Enrolled(client, number, size, share) for number, (client, size, share) in enumerate(entries)]


def _natural(client: str) -> tuple[Any, ...]:
    return (0, int(client), "") if client.isdecimal() else (1, 0, client)
