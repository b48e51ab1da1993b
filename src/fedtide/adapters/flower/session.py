"""The rounds of a run over Flower: queries, training, checks, the ledger and the checkpoint."""

import logging
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import jax
import numpy as np

from fedtide.adapters.coordinator import Coordinator, Invitations, Update, sends_rows
from fedtide.adapters.flower import checks
from fedtide.adapters.flower.exchange import Request, RequestOutcome
from fedtide.adapters.flower.late import LateUpdates
from fedtide.adapters.flower.messages import Kind, Order, Reply, packed
from fedtide.adapters.flower.roster import Nodes
from fedtide.adapters.flower.settings import Settings, check_late, one_phase
from fedtide.adapters.flower.state import ServerState
from fedtide.adapters.ledger import ClientInRound, Enrolled, Ledger
from fedtide.adapters.rounds import Round
from fedtide.simulation.trees import named

log = logging.getLogger("fedtide")

_SLICE = 5.0  # seconds between two polls for late replies while the server waits for the next round

T = TypeVar("T")
Evaluate = Callable[[list[np.ndarray], Round], Mapping[str, float]]


@dataclass
class OpenRound:
    """A round's entry in the ledger, while the round is running."""

    round: int
    began: float
    lines: list[ClientInRound]  # by client
    connected: dict[int, int]  # their nodes, by client
    deadline: float = 0.0
    unlisted: list[str] = field(default_factory=list)

    def update(self, k: int, **values: Any) -> None:
        """Changes the entry of client k."""
        self.lines[k] = self.lines[k]._replace(**values)


@dataclass(eq=False)
class Session:
    """The rounds of one run."""

    settings: Settings
    coordinator: Coordinator
    roster: list[Enrolled]
    shapes: tuple[tuple[int, ...], ...]  # of the model's arrays
    nodes: Nodes
    state: ServerState
    ledger: Ledger
    evaluate: Evaluate | None = None

    def __post_init__(self) -> None:
        self.exchange, self.method, exchanged = self.nodes.exchange, self.coordinator.method, self.coordinator.shapes
        self.one_phase = one_phase(self.settings, self.method, self.coordinator.clients)
        check_late(self.settings, self.method, bool(jax.tree.leaves(exchanged.row)))
        self.clients, self.done = self.state.load(self.coordinator)
        change = self.method.solver.sends == "change"
        self._expected = checks.ExpectedReply(self.shapes, exchanged, sends_rows(self.method), change)
        self._late = LateUpdates(self.settings.checks, self._expected, self.roster)

    def round(self, t: int) -> OpenRound:
        """Runs round t (from 0). The ledger is written before the checkpoint; if killed in between, t is repeated."""
        record, everyone = self._open(t), np.arange(len(self.roster))
        updates = self._train(record, record.connected) if self.one_phase else {}
        losses = {k: u.loss for k, u in updates.items()} if self.one_phase else self._query(record)
        opening = self.coordinator.begin(t, np.isin(everyone, list(losses)))
        choice = self.coordinator.decide(opening, losses)
        if not self.one_phase:
            updates = self._train(record, {k: n for k, n in record.connected.items() if choice.invited[k]})
        self._finish(record, choice, updates, self._late.take(updates))
        self._write(record)
        self.state.save(self.coordinator, self.clients, t + 1)
        self.done = t + 1
        every = self.settings.evaluate_every
        if every and ((t + 1) % every == 0 or t + 1 == self.settings.rounds):
            self._write(record, self._evaluated(t, record.connected))
        self._rest(record)
        return record

    def _open(self, t: int) -> OpenRound:
        """Starts a round with the connected clients; without `round_seconds`, waits until there are some."""
        numbers = {entry.client: entry.number for entry in self.roster}
        while True:
            connected = self.nodes.identify()
            self._collect()
            asked = {numbers[client]: node for client, node in connected.items() if client in numbers}
            if asked or self.settings.round_seconds > 0:
                break
            self.exchange.sleep(max(self.settings.poll_seconds, 0.01))
        unlisted = sorted(client for client in connected if client not in numbers)
        for client in unlisted:
            log.warning("client %s is refused: it is not on the roster of run %s", client, self.settings.run)
        record = OpenRound(t, time.time(), self._lines(), asked, unlisted=unlisted)
        for client, why in self.nodes.rejected().items():
            if client in numbers and numbers[client] not in asked:
                record.update(numbers[client], reason=f"refused:{why}")
        return record

    def _lines(self) -> list[ClientInRound]:
        return [ClientInRound(entry.client, False, "not-listed") for entry in self.roster]

    def _query(self, record: OpenRound) -> dict[int, float]:
        """Available clients, with their losses at the current model if the policy needs them."""
        needed = self.method.participation.needs_losses is not None
        read = lambda reply, k: checks.finite(reply, "loss") if needed else 0.0  # noqa: E731
        losses = self._ask(record, "loss" if needed else "here", record.connected, needed, read)
        for k, loss in losses.items():
            record.update(k, here=True, reason=None, loss=loss if needed else None)
        return losses

    def _train(self, record: OpenRound, asked: Mapping[int, int]) -> dict[int, Update]:
        """The valid updates of the clients that sent one in time."""
        w, limits = self.coordinator.model, self.settings.checks
        if self.settings.late == "use":
            self._late.expect(record.round, w)
        read = lambda reply, k: checks.update_of(reply, w, self._expected, self.roster[k].examples, limits)  # noqa: E731
        updates = self._ask(record, "train", asked, True, read)
        for k, update in updates.items():
            queried, norm = record.lines[k].loss, float(np.linalg.norm(update.delta))
            record.update(k, here=True, reason=None, loss=update.loss if queried is None else queried, update_norm=norm)
        for k, reason in checks.outliers(updates, limits.times_median, self._expected.change).items():
            del updates[k]
            self._refuse(record, k, reason)
        return updates

    def _ask(
        self, record: OpenRound, kind: Kind, asked: Mapping[int, int], model: bool, read: Callable[[Reply, int], T]
    ) -> dict[int, T]:
        """What `read` returns for the replies that arrive in time. For other clients, the record gets the reason."""
        seconds = self.exchange.deadlines.seconds(kind)
        record.deadline = max(record.deadline, seconds)
        w = self.coordinator.served if kind == "evaluate" else self.coordinator.model
        common = Order(kind, record.round, self.state.series, clients=len(self.roster))
        if model:
            common = common._replace(arrays=packed(self.arrays(w)))
        if kind == "train":
            common = common._replace(shared=named(self.coordinator.shared))
        requests = [self._request(common, k, node) for k, node in sorted(asked.items())]
        results = {}
        for outcome in self.exchange.send(requests, seconds):
            k = outcome.request.order.number
            if outcome.latency is not None:
                record.update(k, latency=outcome.latency)
            if outcome.message is None:
                record.update(k, reason=outcome.reason)
                log.info("round %d, client %s: %s", record.round + 1, self.roster[k].client, outcome.reason)
                continue
            try:
                with checks.guarded():
                    results[k] = read(self._opened(outcome), k)
            except checks.Refused as error:
                self._refuse(record, k, str(error))
        self.exchange.deadlines.warn(kind)
        return results

    def _opened(self, outcome: RequestOutcome) -> Reply:
        assert outcome.message is not None
        order = outcome.request.order
        limit = checks.most_bytes(self.settings.checks, self._expected, self.coordinator.start.nbytes)
        try:
            return checks.opened(outcome.message, order, limit)
        except checks.LostMemory:
            if self.settings.lost_memory == "restart":
                self.clients.acknowledged.pop(order.number, None)
                self.clients.owed.pop(order.number, None)
            raise

    def _request(self, common: Order, k: int, node: int) -> Request:
        order = common._replace(nonce=secrets.token_hex(8), client=self.roster[k].client, number=k)
        if order.kind == "train":
            acknowledged = self.clients.acknowledged.get(k, -1)
            owed = self.clients.owed.get(k, {}) if acknowledged >= 0 else self._first(k)
            order = order._replace(acknowledged=acknowledged, owed=owed)
        return Request(node, order)

    def _first(self, k: int) -> dict[str, np.ndarray]:
        """The nonzero leaves of a client's first row."""
        row = named(self.coordinator.first_row(k)) if jax.tree.leaves(self.coordinator.shapes.row) else {}
        return {name: leaf for name, leaf in row.items() if np.any(leaf)}

    def _finish(
        self, record: OpenRound, choice: Invitations, updates: dict[int, Update], late: dict[int, Update]
    ) -> None:
        before = self.coordinator.carry
        closing = self.coordinator.finish(choice, updates, late)
        if not checks.sound(before, self.coordinator.carry):
            self.coordinator.carry = before
            for k in (k for k in updates if choice.invited[k]):
                record.update(k, reason="refused:the server's state would not be finite")
            log.warning("round %d: no update is used: the server's state would not be finite", record.round + 1)
            closing = self.coordinator.finish(choice, {})
            if not checks.sound(before, self.coordinator.carry):
                self.coordinator.carry = before
        for k in range(len(self.roster)):
            weight = float(choice.weight[k]) if choice.invited[k] else None
            record.update(k, included=bool(closing.included[k]), weight=weight)
            if closing.included[k]:
                self.clients.acknowledged[k] = record.round
                self.clients.owed.pop(k, None)
        self.clients.owed.update(closing.owed)
        available, used = sum(line.here for line in record.lines), int(closing.included.sum())
        log.info("round %d: %d of %d clients available, %d used", record.round + 1, available, len(self.roster), used)

    def _collect(self) -> None:
        """Processes late replies: identifies nodes, and keeps updates that can be used."""
        for outcome in self.exchange.late_outcomes():
            order = outcome.request.order
            if order.kind == "hello":
                self.nodes.introduce(outcome)
            elif outcome.message is not None:
                log.info("client %s answered '%s' of round %d late", order.client, order.kind, order.round + 1)
                self._late.keep(outcome, self._opened, self.clients.acknowledged.get(order.number, -1))
        self._late.drop_before(self.done)

    def _refuse(self, record: OpenRound, k: int, why: str) -> None:
        # In one phase, a client without a valid reply is unavailable for the method.
        record.update(k, reason=f"refused:{why}", here=record.lines[k].here and not self.one_phase)
        log.warning("round %d, client %s: refused: %s", record.round + 1, self.roster[k].client, why)

    def _evaluated(self, t: int, asked: Mapping[int, int]) -> dict[str, float]:
        """Metrics of the new model, from clients and from the server's own function."""
        record = OpenRound(t, time.time(), self._lines(), dict(asked))
        metrics = summary(self._ask(record, "evaluate", asked, True, lambda reply, k: reply.numbers))
        if self.evaluate is not None:
            round = Round(self.method, t, shapes=self.shapes)
            own = self.evaluate(self.arrays(self.coordinator.served), round)
            metrics |= {f"server_{name}": float(value) for name, value in own.items()}
        words = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        log.info("round %d: %s", t + 1, words or "no metrics")
        return metrics

    def _write(self, record: OpenRound, metrics: Mapping[str, float] | None = None) -> None:
        times = record.began, time.time(), record.deadline or None
        rows = record.lines + [ClientInRound(client, False, "refused:not on the roster") for client in record.unlisted]
        self.ledger.write_round(self.settings.run, record.round, *times, rows, dict(metrics or {}))

    def _rest(self, record: OpenRound) -> None:
        """Waits for the end of the round, unless it is the last, and times late replies meanwhile."""
        if record.round + 1 >= self.settings.rounds:
            return
        clock, seconds = self.exchange.clock, self.settings.round_seconds
        # A clock that was set back does not prolong the round.
        end = clock() + min(seconds - (time.time() - record.began), seconds)
        while (left := end - clock()) > 0:
            self.exchange.sleep(min(left, _SLICE))
            self._collect()

    def arrays(self, w: np.ndarray) -> list[np.ndarray]:
        """The vector [d] as the model's arrays."""
        return Round(self.method, shapes=self.shapes).split(w)


def summary(replies: Mapping[int, Mapping[str, float]]) -> dict[str, float]:
    """Means over clients weighted by their number of examples, and the mean accuracy of the worst tenth.

    >>> summary({0: {"examples": 10, "accuracy": 0.5}, 1: {"examples": 30, "accuracy": 0.9}})
    {'accuracy': 0.8, 'worst_decile': 0.5, 'evaluated': 2.0}
    """
    metrics: dict[str, float] = {}
    for name in ("loss", "accuracy"):
        pairs = [(_number(r, name), _number(r, "examples")) for r in replies.values()]
        kept = [(value, size) for value, size in pairs if value is not None and size is not None and size > 0]
        if kept:
            values, sizes = np.array(kept).T
            metrics[name] = float(values @ sizes / sizes.sum())
            if name == "accuracy":
                metrics["worst_decile"] = float(np.sort(values)[: -(-len(values) // 10)].mean())
    return metrics | {"evaluated": float(len(replies))} if metrics else {}


def _number(reply: Mapping[str, float], name: str) -> float | None:
    value = reply.get(name)
    return float(value) if isinstance(value, int | float) and np.isfinite(value) else None
