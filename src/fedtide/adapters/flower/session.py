"""A run's rounds over Flower: who is there, what they answer, what counts, what is written down."""

import logging
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedtide.adapters.coordinator import Choice, Coordinator, Update, sends_rows
from fedtide.adapters.flower.checks import (
    Expected,
    Refused,
    guarded,
    loss_of,
    most_bytes,
    opened,
    outliers,
    sound,
    update_of,
)
from fedtide.adapters.flower.evaluation import summary
from fedtide.adapters.flower.exchange import Exchange, Heard, Question
from fedtide.adapters.flower.late import LateUpdates
from fedtide.adapters.flower.memory import LOST
from fedtide.adapters.flower.messages import Kind, Order, Reply, packed
from fedtide.adapters.flower.roster import Nodes
from fedtide.adapters.flower.settings import Settings, check_late, one_phase
from fedtide.adapters.flower.sheet import Line, Sheet
from fedtide.adapters.flower.state import ServerState
from fedtide.adapters.ledger import Enrolled, Ledger
from fedtide.adapters.rounds import Round
from fedtide.adapters.trees import named

log = logging.getLogger("fedtide")

_SLICE = 5.0  # seconds between two looks for late answers while the server rests

Evaluate = Callable[[list[np.ndarray], Round], Mapping[str, float]]


class Session:
    """The rounds of one run."""

    def __init__(
        self,
        settings: Settings,
        coordinator: Coordinator,
        roster: list[Enrolled],
        shapes: tuple[tuple[int, ...], ...],
        exchange: Exchange,
        nodes: Nodes,
        state: ServerState,
        ledger: Ledger,
        evaluate: Evaluate | None = None,
    ):
        self.settings, self.coordinator, self.roster, self.shapes = settings, coordinator, roster, shapes
        self.exchange, self.nodes, self.state, self.ledger, self.evaluate = exchange, nodes, state, ledger, evaluate
        self.method = coordinator.method
        self.one_phase = one_phase(settings, self.method, coordinator.clients)
        check_late(settings, self.method, bool(named_shapes(coordinator.shapes.row)))
        self.clients, self.done = state.load(coordinator)
        self._rows = sends_rows(self.method)
        self._change = self.method.solver.sends == "change"
        self._late = LateUpdates(settings.checks, self._change)

    def round(self, t: int) -> Sheet:
        """Round t (from 0): its ledger entry first, then the checkpoint; killed in between, the round is repeated."""
        sheet = self._open(t)
        if self.one_phase:
            updates = self._train(sheet, sheet.asked)
            available = self._mask(updates)
            opening = self.coordinator.begin(t, available)
            choice = self.coordinator.decide(opening, {k: u.loss for k, u in updates.items()})
        else:
            losses = self._query(sheet)
            opening = self.coordinator.begin(t, self._mask(losses))
            choice = self.coordinator.decide(opening, losses)
            updates = self._train(sheet, {k: n for k, n in sheet.asked.items() if choice.invited[k]})
        self._finish(sheet, choice, updates, self._late.take(updates, lambda k: self.roster[k].client))
        self._write(sheet)
        self.state.save(self.coordinator, self.clients, t + 1)
        self.done = t + 1
        every = self.settings.evaluate_every
        if every and ((t + 1) % every == 0 or t + 1 == self.settings.rounds):
            self._write(sheet, self._evaluated(t, sheet.asked))
        self._rest(sheet)
        return sheet

    def _open(self, t: int) -> Sheet:
        """Whoever is connected at the beginning; a run without a clock of its own waits for somebody."""
        numbers = {entry.client: entry.number for entry in self.roster}
        while True:
            there = self.nodes.greet()
            self._collect()
            asked = {numbers[client]: node for client, node in there.items() if client in numbers}
            if asked or self.settings.round_seconds > 0:
                break
            self.exchange.sleep(max(self.settings.poll_seconds, 0.01))
        strangers = sorted(client for client in there if client not in numbers)
        for client in strangers:
            log.warning("client %s is refused: it is not on the roster of run %s", client, self.settings.run)
        lines = [Line() for _ in self.roster]
        for client, why in self.nodes.refused().items():
            if client in numbers and numbers[client] not in asked:
                lines[numbers[client]].reason = f"refused:{why}"
        return Sheet(t, time.time(), lines, asked, strangers=strangers)

    def _mask(self, answered: Mapping[int, Any]) -> np.ndarray:
        mask = np.zeros(len(self.roster), bool)
        mask[list(answered)] = True
        return mask

    def _query(self, sheet: Sheet) -> dict[int, float]:
        """Who is there, with their losses at the current model where the policy asks for them."""
        asks = self.method.participation.needs_losses is not None
        losses = {}
        for k, reply, _ in self._ask(sheet, "loss" if asks else "here", sheet.asked, asks):
            try:
                with guarded():
                    losses[k] = loss_of(reply) if asks else 0.0
            except Refused as error:
                self._refuse(sheet, k, str(error))
                continue
            line = sheet.lines[k]
            line.here, line.reason = True, None
            line.loss = losses[k] if asks else None
        return losses

    def _train(self, sheet: Sheet, asked: Mapping[int, int]) -> dict[int, Update]:
        """Updates that count, of those asked who sent one in time."""
        w, limits = self.coordinator.model, self.settings.checks
        if self.settings.late == "use":
            self._late.expect(sheet.round, w)
        updates: dict[int, Update] = {}
        for k, reply, expected in self._ask(sheet, "train", asked, True):
            try:
                with guarded():
                    updates[k] = update_of(reply, w, expected, limits)
            except Refused as error:
                self._refuse(sheet, k, str(error))
                continue
            line = sheet.lines[k]
            line.here, line.reason = True, None
            line.loss = updates[k].loss if line.loss is None else line.loss
            line.update_norm = float(np.linalg.norm(updates[k].delta))
        for k, reason in outliers(updates, limits.times_median, self._change).items():
            del updates[k]
            self._refuse(sheet, k, reason)
        return updates

    def _ask(
        self, sheet: Sheet, kind: Kind, asked: Mapping[int, int], model: bool
    ) -> list[tuple[int, Reply, Expected]]:
        """Readable replies in time; all else has its reason in the sheet."""
        seconds = self.exchange.deadlines.seconds(kind)
        sheet.deadline = max(sheet.deadline, seconds)
        w = self.coordinator.served if kind == "evaluate" else self.coordinator.model
        common = Order(kind, sheet.round, self.state.series, clients=len(self.roster))
        if model:
            common = common._replace(arrays=packed(self.arrays(w)))
        if kind == "train":
            common = common._replace(shared=named(self.coordinator.shared))
        questions = [self._question(common, k, node) for k, node in sorted(asked.items())]
        found = []
        for heard in self.exchange.ask(questions, seconds):
            expected: Expected = heard.question.about
            k = heard.question.order.number
            line = sheet.lines[k]
            line.latency = heard.latency if heard.latency is not None else line.latency
            if heard.message is None:
                line.reason = heard.reason
                log.info("round %d, client %s: %s", sheet.round + 1, expected.client, heard.reason)
                continue
            try:
                found.append((k, self._opened(heard), expected))
            except Refused as error:
                self._refuse(sheet, k, str(error))
        self.exchange.deadlines.warn(kind)
        return found

    def _opened(self, heard: Heard) -> Reply:
        expected: Expected = heard.question.about
        assert heard.message is not None
        limit = most_bytes(self.settings.checks, expected, self.coordinator.start.nbytes)
        try:
            return opened(heard.message, expected, limit)
        except Refused as error:
            if str(error).startswith(LOST) and self.settings.lost_memory == "restart":
                self.clients.acknowledged.pop(heard.question.order.number, None)
                self.clients.owed.pop(heard.question.order.number, None)
            raise

    def _question(self, common: Order, k: int, node: int) -> Question:
        entry, nonce = self.roster[k], secrets.token_hex(8)
        order = common._replace(nonce=nonce, client=entry.client, number=k)
        if order.kind == "train":
            acknowledged = self.clients.acknowledged.get(k, -1)
            owed = self.clients.owed.get(k, {}) if acknowledged >= 0 else self._first(k)
            order = order._replace(acknowledged=acknowledged, owed=owed)
        exchanged = self.coordinator.shapes
        said = (order.kind, order.round, nonce, entry.client, entry.examples)
        return Question(node, order, Expected(*said, self.shapes, exchanged, self._rows, self._change))

    def _first(self, k: int) -> dict[str, np.ndarray]:
        """The leaves of a client's first row that are not 0."""
        row = named(self.coordinator.first_row(k)) if named_shapes(self.coordinator.shapes.row) else {}
        return {name: leaf for name, leaf in row.items() if np.any(leaf)}

    def _finish(self, sheet: Sheet, choice: Choice, updates: dict[int, Update], late: dict[int, Update]) -> None:
        before = self.coordinator.carry
        closing = self.coordinator.finish(choice, updates, late)
        if not sound(before, self.coordinator.carry):
            self.coordinator.carry = before
            for k in (k for k in updates if choice.invited[k]):
                sheet.lines[k].reason = "refused:the server's state would not be finite"
            log.warning("round %d: no update counts: the server's state would not be finite", sheet.round + 1)
            closing = self.coordinator.finish(choice, {})
            if not sound(before, self.coordinator.carry):
                self.coordinator.carry = before
        for k, line in enumerate(sheet.lines):
            line.included = bool(closing.included[k])
            line.weight = float(choice.weight[k]) if choice.invited[k] else None
            if line.included:
                self.clients.acknowledged[k] = sheet.round
                self.clients.owed.pop(k, None)
        self.clients.owed.update(closing.owed)
        here, counted = sum(line.here for line in sheet.lines), int(closing.included.sum())
        log.info("round %d: %d of %d clients here, %d counted", sheet.round + 1, here, len(self.roster), counted)

    def _collect(self) -> None:
        """Answers that came after their deadline: hellos are taken, updates kept where they are of use."""
        for heard in self.exchange.belated():
            order = heard.question.order
            if order.kind == "hello":
                self.nodes.met(heard)
            elif heard.message is not None:
                log.info("client %s answered '%s' of round %d late", order.client, order.kind, order.round + 1)
                self._late.keep(heard, self._opened, self.clients.acknowledged.get(order.number, -1))
        self._late.forget(self.done)

    def _refuse(self, sheet: Sheet, k: int, why: str) -> None:
        line = sheet.lines[k]
        line.reason = f"refused:{why}"
        if self.one_phase:
            line.here = False  # it gave nothing that could be used: for the method it was not there
        log.warning("round %d, client %s: refused: %s", sheet.round + 1, self.roster[k].client, why)

    def _evaluated(self, t: int, asked: Mapping[int, int]) -> dict[str, float]:
        """Metrics of the new model: as clients report them, and of the server's own function."""
        sheet = Sheet(t, time.time(), [Line() for _ in self.roster], dict(asked))
        replies = {k: dict(reply.numbers) for k, reply, _ in self._ask(sheet, "evaluate", asked, True)}
        metrics = summary(replies)
        if self.evaluate is not None:
            round = Round(self.method, t, shapes=self.shapes)
            metrics |= {
                f"server_{n}": float(v) for n, v in self.evaluate(self.arrays(self.coordinator.served), round).items()
            }
        log.info(
            "round %d: %s", t + 1, ", ".join(f"{name} {value:.4f}" for name, value in metrics.items()) or "no metrics"
        )
        return metrics

    def _write(self, sheet: Sheet, metrics: Mapping[str, float] | None = None) -> None:
        times = sheet.began, time.time(), sheet.deadline or None
        rows = sheet.rows([entry.client for entry in self.roster])
        self.ledger.write_round(self.settings.run, sheet.round, *times, rows, dict(metrics or {}))

    def _rest(self, sheet: Sheet) -> None:
        """Waits for the round's end, except the last one's. Late answers are taken when they come, to be timed."""
        if sheet.round + 1 >= self.settings.rounds:
            return
        clock, seconds = self.exchange.clock, self.settings.round_seconds
        end = clock() + min(seconds - (time.time() - sheet.began), seconds)  # a clock set back makes no longer round
        while (left := end - clock()) > 0:
            self.exchange.sleep(min(left, _SLICE))
            self._collect()

    def arrays(self, w: np.ndarray) -> list[np.ndarray]:
        """The vector [d] as the model's arrays."""
        return Round(self.method, shapes=self.shapes).split(w)


def named_shapes(tree: Any) -> bool:
    """Whether a tree has leaves."""
    import jax

    return bool(jax.tree.leaves(tree))
