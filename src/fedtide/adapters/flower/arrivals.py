"""Receives replies as they arrive, so that a slow reply delays no other.

A node announces its reply first and then sends its objects at its own pace. Flower's `Grid.pull_messages` takes all
announced replies and waits for each in turn until it is complete, for up to two hours. Pulling replies one at a time
would need a request per message in every poll, and a reply that has been taken cannot be pulled again. Therefore this
module uses the client inside Flower's grid, whose requests return immediately, and asks for missing objects again in
the next poll.

Fetching many replies can take longer than one poll, and longer than the deadline. A client whose reply is complete at
SuperLink has answered in time: `behind` tells whether there may be such replies, and `catch_up` fetches them.
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

_POLL = 2.0  # seconds that a poll may last; announcements and the deadline are checked in between
_AT_ONCE = 2  # parallel requests for objects, as in Flower; more would only load SuperLink


class Arrived(NamedTuple):
    """The reply to the request with this id, or the reason for its absence as in the ledger."""

    request: str
    message: Message | None
    reason: str | None = None


class _Announced:
    """An announced reply whose objects have not all been fetched."""

    def __init__(self, request: str, reply: str, objects: Iterable[str]):
        self.request, self.reply = request, reply
        self.missing = dict.fromkeys(objects)  # in order, each once
        self.contents: dict[str, bytes] = {}
        self.waits = False  # for its client: the last object asked for was not at SuperLink yet
        self.gone = False  # SuperLink no longer has its objects

    def take(self, key: str, answer: PullObjectResponse) -> None:
        if not answer.object_found:
            self.gone = True
        elif not answer.object_available:
            self.waits = True
        else:
            self.contents[key] = answer.object_content
            del self.missing[key]


class Arrivals:
    """Receives replies from Flower's grid; grids other than that of real processes through their public method."""

    def __init__(self, grid: Any, clock: Callable[[], float] = time.monotonic):
        self.grid, self.clock = grid, clock
        self._announced: dict[str, _Announced] = {}  # by request

    def poll(self, requests: Sequence[str]) -> list[Arrived]:
        """Replies to these requests that were completed since the last poll. Replies to other requests are dropped."""
        if not isinstance(self.grid, HttpGrid):
            replies: Iterable[Message] = self.grid.pull_messages(list(requests)) if requests else ()
            return [Arrived(message.metadata.reply_to_message_id, message) for message in replies]
        for request in self._announced.keys() - set(requests):
            self._confirm(self._announced.pop(request))
        self._take([request for request in requests if request not in self._announced])
        for one in self._announced.values():
            one.waits = False
        return self.catch_up(requests)

    def behind(self, requests: Collection[str]) -> bool:
        """Whether announced replies to these requests have missing objects that have not been asked for."""
        return bool(self._ready(requests))

    def _take(self, requests: Sequence[str]) -> None:
        if not requests:
            return
        answer = self.grid._runtime_client.PullMessages(PullAppMessagesRequest(message_ids=requests))
        for reply, tree in zip(answer.messages_list, answer.message_object_trees, strict=True):
            request = reply.metadata.reply_to_message_id
            objects = (node.object_id for node in iterate_object_tree(tree))
            self._announced[request] = _Announced(request, reply.metadata.message_id, objects)

    def _ready(self, requests: Collection[str]) -> list[_Announced]:
        """Replies that do not wait for their clients, those with the fewest missing objects first: a reply with very
        many objects does not delay the others."""
        announced = (self._announced[request] for request in requests if request in self._announced)
        return sorted((one for one in announced if not one.waits), key=lambda one: len(one.missing))

    def catch_up(self, requests: Collection[str]) -> list[Arrived]:
        """Fetches these objects; returns the replies that are complete, or cannot be completed."""
        arrived: list[Arrived] = []
        ready, end = self._ready(requests), self.clock() + _POLL
        # No thread waits for a client: SuperLink answers immediately, even if an object is missing.
        pool = ThreadPoolExecutor(_AT_ONCE)
        try:
            while ready:
                batch = list(islice(((one, key) for one in ready for key in one.missing), _AT_ONCE))
                for (one, key), answer in zip(batch, pool.map(self._object, [key for _, key in batch]), strict=True):
                    one.take(key, answer)
                for one in dict.fromkeys(one for one, _ in batch):
                    if one.gone or not one.missing:
                        arrived.append(_opened(one))
                        self._confirm(self._announced.pop(one.request))
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
        """Allows SuperLink to delete the reply."""
        node, run = self.grid.node, self.grid.run.run_id
        done = ConfirmMessageReceivedRequest(node=node, run_id=run, message_object_id=one.reply)
        self.grid._runtime_client.ConfirmMessageReceived(done)


def _opened(one: _Announced) -> Arrived:
    if one.gone:
        return Arrived(one.request, None, "no-reply:the reply is incomplete")
    try:
        message = inflate_object_from_contents(one.reply, one.contents)
    except Exception as error:  # clients may send anything
        return Arrived(one.request, None, f"refused:it cannot be read: {error!r:.100}")
    if not isinstance(message, Message):
        return Arrived(one.request, None, f"refused:{type(message).__name__} is not a reply")
    return Arrived(one.request, message)
