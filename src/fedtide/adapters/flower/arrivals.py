"""Replies as they arrive: one that comes in slowly delays itself, and nobody else.

A node announces its reply first and sends its objects then, at its own pace. Flower's `Grid.pull_messages` takes all
announced replies and waits, one after the other, until each is whole: for up to two hours. Nor can it be asked for one
reply at a time: each question is a request, several hundred for each look, and what was once taken cannot be asked for
again. So replies are taken with the client that is within Flower's grid, whose requests return at once, and objects
that are not there yet are asked for again at the next look.

Many replies take the server longer to fetch than one look, and longer than the deadline. Whose reply lies whole at
SuperLink has answered: `behind` says whether there may be such ones, and `catch_up` fetches them.
"""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple

from flwr.app import Message
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, PullObjectRequest, PullObjectResponse
from flwr.proto.runtime_pb2 import PullAppMessagesRequest
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.superlink.grid import HttpGrid

_LOOK = 2.0  # seconds of a look, at most: then announcements and the deadline are looked at again
_AT_ONCE = 2  # requests for objects, as many as Flower makes: more of them load SuperLink and gain nothing


class Arrived(NamedTuple):
    """A reply, by the id of the question; without a message there is a reason, in the ledger's words."""

    question: str
    message: Message | None
    reason: str | None = None


class _Announced:
    """A reply of which not all objects are here."""

    def __init__(self, question: str, reply: str, objects: Iterable[str]):
        self.question, self.reply = question, reply
        self.missing = dict.fromkeys(objects)  # in order, each once
        self.contents: dict[str, bytes] = {}
        self.waits = False  # for its client: an object was not at SuperLink when it was last asked for
        self.gone = False  # SuperLink has forgotten objects

    def take(self, key: str, answer: PullObjectResponse) -> None:
        if not answer.object_found:
            self.gone = True
        elif not answer.object_available:
            self.waits = True
        else:
            self.contents[key] = answer.object_content
            del self.missing[key]


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
        for one in self._announced.values():
            one.waits = False
        return self._fetched(questions)

    def behind(self, questions: Collection[str]) -> bool:
        """Whether replies to these questions are announced that have not been asked for what they lack."""
        return bool(self._ready(questions))

    def catch_up(self, questions: Collection[str]) -> list[Arrived]:
        """Of the replies of which that is so, those that have been fetched now."""
        return self._fetched(questions)

    def _take(self, questions: Sequence[str]) -> None:
        if not questions:
            return
        answer = self.grid._runtime_client.PullMessages(PullAppMessagesRequest(message_ids=questions))
        for reply, tree in zip(answer.messages_list, answer.message_object_trees, strict=True):
            question = reply.metadata.reply_to_message_id
            objects = (node.object_id for node in iterate_object_tree(tree))
            self._announced[question] = _Announced(question, reply.metadata.message_id, objects)

    def _ready(self, questions: Collection[str]) -> list[_Announced]:
        """Replies that do not wait for their clients. Those that lack least come first: what was begun is finished, and
        one with countless objects waits for the others."""
        announced = (self._announced[question] for question in questions if question in self._announced)
        return sorted((one for one in announced if not one.waits), key=lambda one: len(one.missing))

    def _fetched(self, questions: Collection[str]) -> list[Arrived]:
        """Replies that are whole now, or never will be."""
        arrived: list[Arrived] = []
        ready = self._ready(questions)
        if not ready:
            return arrived
        end = self.clock() + _LOOK
        # No thread waits for a client: SuperLink answers at once, also that an object is not there.
        pool = ThreadPoolExecutor(_AT_ONCE)
        try:
            while ready:
                batch = list(islice(((one, key) for one in ready for key in one.missing), _AT_ONCE))
                for (one, key), answer in zip(batch, pool.map(self._object, [key for _, key in batch]), strict=True):
                    one.take(key, answer)
                for one in dict.fromkeys(one for one, _ in batch):
                    if one.gone or not one.missing:
                        arrived.append(_opened(one))
                        self._confirm(self._announced.pop(one.question))
                ready = [one for one in ready if one.missing and not one.waits and not one.gone]
                if self.clock() >= end:
                    break
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        return arrived

    def _object(self, key: str) -> PullObjectResponse:
        wanted = PullObjectRequest(node=self.grid.node, run_id=self.grid.run.run_id, object_id=key)
        return self.grid._runtime_client.PullObject(wanted)

    def _confirm(self, one: _Announced) -> None:
        """Lets SuperLink forget the reply."""
        done = ConfirmMessageReceivedRequest(
            node=self.grid.node, run_id=self.grid.run.run_id, message_object_id=one.reply
        )
        self.grid._runtime_client.ConfirmMessageReceived(done)


def _opened(one: _Announced) -> Arrived:
    if one.gone:
        return Arrived(one.question, None, "no-reply:it was not sent to its end")
    try:
        message = inflate_object_from_contents(one.reply, one.contents)
    except Exception as error:  # whatever a client sends
        return Arrived(one.question, None, f"refused:it cannot be read: {error!r:.100}")
    if not isinstance(message, Message):
        return Arrived(one.question, None, f"refused:{type(message).__name__} is not a reply")
    return Arrived(one.question, message)
