"""Replies as they arrive: one that comes in slowly delays itself, and nobody else.

A node announces its reply first and sends its objects then, at its own pace. Flower's `Grid.pull_messages` takes all
announced replies and waits, one after the other, until each is whole: for up to two hours. Nor can it be asked for one
reply at a time: each question is a request, several hundred for each look, and what was once taken cannot be asked for
again. So replies are taken with the client that is within Flower's grid, whose requests return at once, and objects
that are not there yet are asked for again at the next look.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from flwr.app import Message
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, PullObjectRequest
from flwr.proto.runtime_pb2 import PullAppMessagesRequest
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.superlink.grid import HttpGrid

_LOOK = 2.0  # seconds of a look, at most: those of huge replies go on in the next one


class Arrived(NamedTuple):
    """A reply, by the id of the question; without a message there is a reason, in the ledger's words."""

    question: str
    message: Message | None
    reason: str | None = None


class _Announced:
    """A reply of which not all objects are here."""

    def __init__(self, question: str, reply: str, objects: Sequence[str]):
        self.question, self.reply, self.missing = question, reply, list(reversed(objects))
        self.contents: dict[str, bytes] = {}


class Arrivals:
    """Takes replies from Flower's grid. Other grids than that of real processes are asked as they are."""

    def __init__(self, grid: Any, clock: Callable[[], float] = time.monotonic):
        self.grid, self.clock = grid, clock
        self._announced: dict[str, _Announced] = {}  # by question

    def look(self, questions: Sequence[str]) -> list[Arrived]:
        """Replies to these questions that have come in whole since the last look. Others are dropped."""
        if not isinstance(self.grid, HttpGrid):
            found: Iterable[Message] = self.grid.pull_messages(list(questions)) if questions else ()
            return [Arrived(message.metadata.reply_to_message_id, message) for message in found]
        for question in self._announced.keys() - set(questions):
            self._confirm(self._announced.pop(question))
        self._take([question for question in questions if question not in self._announced])
        end = self.clock() + _LOOK
        arrived = []
        # Those that have sent least so far first: one with countless objects waits for the others.
        for one in sorted(self._announced.values(), key=lambda one: len(one.contents)):
            if (whole := self._fetched(one, end)) is not None:
                arrived.append(whole)
                self._confirm(self._announced.pop(one.question))
            if self.clock() >= end:
                break
        return arrived

    def _take(self, questions: Sequence[str]) -> None:
        if not questions:
            return
        answer = self.grid._runtime_client.PullMessages(PullAppMessagesRequest(message_ids=questions))
        for reply, tree in zip(answer.messages_list, answer.message_object_trees, strict=True):
            question = reply.metadata.reply_to_message_id
            objects = dict.fromkeys(node.object_id for node in iterate_object_tree(tree))
            self._announced[question] = _Announced(question, reply.metadata.message_id, list(objects))

    def _fetched(self, one: _Announced, end: float) -> Arrived | None:
        """The reply, if it is whole; None while objects are missing."""
        while one.missing:
            wanted = PullObjectRequest(node=self.grid.node, run_id=self.grid.run.run_id, object_id=one.missing[-1])
            answer = self.grid._runtime_client.PullObject(wanted)
            if not answer.object_found:
                return Arrived(one.question, None, "no-reply:it was not sent to its end")
            if not answer.object_available:
                return None
            one.contents[one.missing.pop()] = answer.object_content
            if self.clock() >= end and one.missing:
                return None
        try:
            message = inflate_object_from_contents(one.reply, one.contents)
        except Exception as error:  # whatever a client sends
            return Arrived(one.question, None, f"refused:it cannot be read: {error!r:.100}")
        if not isinstance(message, Message):
            return Arrived(one.question, None, f"refused:{type(message).__name__} is not a reply")
        return Arrived(one.question, message)

    def _confirm(self, one: _Announced) -> None:
        """Lets SuperLink forget the reply."""
        done = ConfirmMessageReceivedRequest(
            node=self.grid.node, run_id=self.grid.run.run_id, message_object_id=one.reply
        )
        self.grid._runtime_client.ConfirmMessageReceived(done)
