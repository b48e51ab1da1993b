"""Questions to many nodes and their answers, until all are there or the deadline is."""

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Message
from flwr.common.constant import ErrorCode

from fedtide.adapters.flower.arrivals import Arrivals
from fedtide.adapters.flower.deadlines import Deadlines
from fedtide.adapters.flower.messages import Order, order_message

_SPARE = 60.0  # seconds after the longest deadline for which an answer is still worth something
_SHORT = 30.0  # and after its own deadline, of a node that owes one: a device's clock may be so much ahead
_AWAY = 3.0  # seconds for a call of Flower's grid, which waits where SuperLink cannot be reached
_EXPIRED = (ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE)


class Question(NamedTuple):
    node: int
    order: Order
    about: Any = None  # the asker's own note


class Heard(NamedTuple):
    """What became of a question. Without a message there is a reason, in the ledger's words."""

    question: Question
    message: Message | None
    latency: float | None
    reason: str | None


class _Open(NamedTuple):
    question: Question
    sent: float
    deadline: float
    until: float


class Exchange:
    """Asks nodes through Flower's grid. Answers that come too late are kept for `belated`.

    A question lives long, so that a late answer can be timed. Those to a node that owes one already do not: SuperLink
    drops them, and a client that hangs for long does not find the questions of all the rounds that it missed.
    """

    def __init__(
        self,
        grid: Any,
        deadlines: Deadlines,
        poll: float = 0.2,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        self.grid, self.deadlines, self.poll, self.clock, self.sleep = grid, deadlines, poll, clock, sleep
        self._arrivals = Arrivals(grid, clock)
        self._open: dict[str, _Open] = {}
        self._belated: list[Heard] = []
        self._begun = clock()  # of the questions that are being asked
        self._back = -np.inf  # when nodes have found SuperLink again, after it was away

    def listed(self) -> set[int]:
        """The nodes that Flower holds for connected: dead ones are among them for a minute."""
        return set(self._call(self.grid.get_node_ids))

    def keys(self) -> dict[int, bytes]:
        """The public key of each of these nodes, as Flower checks it."""
        return {node.node_id: node.public_key for node in self.grid.get_nodes()}

    def ask(self, questions: Sequence[Question], seconds: float) -> list[Heard]:
        """Asks all at once; returns when all have answered, or after so many seconds.

        The server may need longer than that to fetch what lies at SuperLink by then. It is no absence: such replies are
        waited for while one becomes whole every so many seconds, up to the longest deadline.
        """
        heard: list[Heard] = []
        mine: dict[str, Question] = {}
        self._begun = now = self.clock()
        lives = self._lives(questions, seconds)
        ids = self._push(questions, lives)
        for question, key, life in zip(questions, ids, lives, strict=True):
            if key:
                mine[key] = question
                light = question._replace(order=question.order._replace(arrays=(), shared={}, owed={}))
                self._open[key] = _Open(light, now, seconds, now + life)
            else:
                heard.append(Heard(question, None, None, "no-reply:the message could not be sent"))
        end, extended, over = now + seconds, False, False
        last = end  # when a reply came in whole, after the deadline
        while mine:
            late = self.clock() >= end
            found = self._pull(mine if over else None)
            if not extended and self._back + seconds > end:
                end, extended = self._back + seconds, True  # once: looks that always take long are no absence
                last = end
            heard += [one for key, one in found if mine.pop(key, None)]
            now = self.clock()
            behind = self._arrivals.behind(mine)
            over = late and now >= end  # all that was announced by the deadline is known
            last = now if over and found else last
            if over and (not behind or now >= min(last + seconds, end + self.deadlines.limits.most)):
                break
            if mine and not behind:
                self.sleep(min(self.poll, max(end - now, 0.0)))
        return heard + [Heard(question, None, None, "no-reply") for question in mine.values()]

    def belated(self) -> list[Heard]:
        """Answers to earlier questions that have come since; each once."""
        self._begun = np.inf  # nobody waits now: all answers are late
        self._pull()
        now = self.clock()
        self._open = {key: one for key, one in self._open.items() if one.until > now}
        found, self._belated = self._belated, []
        return found

    def _lives(self, questions: Sequence[Question], seconds: float) -> list[float]:
        """How many seconds each question lives."""
        owing = {one.question.node for one in self._open.values()}
        longest = self.deadlines.limits.most + _SPARE
        return [min(seconds + _SHORT, longest) if question.node in owing else longest for question in questions]

    def _push(self, questions: Sequence[Question], lives: Sequence[float]) -> list[str | None]:
        if not questions:
            return []
        pairs = zip(questions, lives, strict=True)
        messages = [order_message(question.order, question.node, life) for question, life in pairs]
        ids = list(self._call(self.grid.push_messages, messages))
        if len(ids) == len(messages):
            return ids
        # Too much for one request: one after the other.
        return [next(iter(self.grid.push_messages([message])), None) for message in messages]

    def _call(self, grid: Callable[..., Any], *arguments: Any) -> Any:
        """A call of the grid's. Where it had to wait for SuperLink, nodes have, too: they look again after twice the
        time at most, and until then nobody can answer."""
        began = self.clock()
        found = grid(*arguments)
        away = self.clock() - began
        if away > _AWAY:
            self._back = self.clock() + away
        return found

    def _pull(self, announced: Collection[str] | None = None) -> list[tuple[str, Heard]]:
        """What has come in for open questions, each once; what is past its deadline also goes to the belated.

        With `announced`: for these, of what the last look left at SuperLink."""
        found = []
        look, keys = self._arrivals.look, list(self._open)
        if announced is not None:
            look, keys = self._arrivals.catch_up, list(announced)
        for key, message, reason in self._call(look, keys):
            one = self._open.pop(key, None)
            if one is None:
                continue  # a second answer to the same question, or to one that was never asked
            latency = self.clock() - one.sent
            if message is None or message.has_error():
                heard = Heard(one.question, None, None, reason if message is None else _reason(message))
            else:
                if one.sent > self._back:  # else SuperLink was away: that says nothing about clients
                    self.deadlines.observe(one.question.order.kind, latency, one.deadline)
                heard = Heard(one.question, message, latency, None)
            found.append((key, heard))
            if one.sent < self._begun:
                self._belated.append(heard)
        return found


def _reason(message: Message) -> str:
    code, why = message.error.code, " ".join((message.error.reason or "").split())[:200]
    if code in _EXPIRED:
        return "expired"
    if code == ErrorCode.NODE_UNAVAILABLE:
        return "no-reply:the node has gone"
    return f"error:{why or code}"
