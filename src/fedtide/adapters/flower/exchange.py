"""Requests to many nodes, and their replies within a deadline."""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Message
from flwr.common.constant import ErrorCode

from fedtide.adapters.flower.arrivals import Arrivals
from fedtide.adapters.flower.messages import Order, order_message
from fedtide.adapters.flower.settings import DeadlineSettings

log = logging.getLogger("fedtide")

_SPARE = 60.0  # seconds after the longest deadline in which a late reply is still timed
_SHORT = 30.0  # seconds after its own deadline, for a node with open requests: a device's clock may be ahead
_OUTAGE = 3.0  # seconds; a longer call of Flower's grid means that it waited for an unreachable SuperLink
_EXPIRED = (ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE)

_WINDOW = 200  # recent replies that determine a deadline
_QUANTILE, _MARGIN = 0.95, 2.0
_CLOSE, _OFTEN = 0.8, 0.1  # a reply after this share of the deadline is close to it; warn above this share of replies


class Request(NamedTuple):
    node: int
    order: Order


class RequestOutcome(NamedTuple):
    """The outcome of a request: a reply, or the reason for its absence as in the ledger."""

    request: Request
    message: Message | None
    latency: float | None
    reason: str | None


class _Open(NamedTuple):
    request: Request
    sent: float
    deadline: float
    until: float


class Deadlines:
    """Deadlines in seconds, per kind of request: twice the 95 % quantile of recent response times, within limits.

    Replies after the deadline are observed as well, so a deadline that is too short grows. Replies that never arrive
    carry no information about response times.
    """

    def __init__(self, limits: DeadlineSettings):
        self.limits = limits
        self._observed: dict[str, deque[tuple[float, float]]] = {}
        self._warned: dict[str, float] = {}

    def seconds(self, kind: str) -> float:
        """The deadline of the next request of this kind."""
        observed = self._observed.get(kind)
        if not observed:
            return self.limits.start
        wanted = _MARGIN * float(np.quantile([latency for latency, _ in observed], _QUANTILE))
        return min(max(wanted, self.limits.least), self.limits.most)

    def observe(self, kind: str, latency: float, deadline: float) -> None:
        """Records the response time of a reply, and the deadline at that time."""
        self._observed.setdefault(kind, deque(maxlen=_WINDOW)).append((latency, deadline))

    def warn(self, kind: str) -> str | None:
        """Warns, once per deadline, if many replies arrive close to or after it: clients then only seem unavailable."""
        observed = self._observed.get(kind, ())
        close = sum(latency > _CLOSE * deadline for latency, deadline in observed)
        if not observed or close <= _OFTEN * len(observed):
            return None
        now = self.seconds(kind)
        if self._warned.get(kind) == now:
            return None
        self._warned[kind] = now
        more = "; raise deadline.most" if now >= self.limits.most else ""
        message = (
            f"{close} of the last {len(observed)} replies to '{kind}' arrived shortly before or after the deadline: "
            f"slow clients count as unavailable, which biases availability estimates (deadline now {now:.1f} s{more})"
        )
        log.warning(message)
        return message


class Exchange:
    """Sends requests through Flower's grid. Late replies are returned by `late_outcomes`.

    A request has a long lifetime, so that a late reply can be timed. Requests to a node that has not answered an
    earlier one have a short lifetime: SuperLink then drops them, and a client that hung for long does not receive the
    requests of all rounds that it missed.
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
        self._late: list[RequestOutcome] = []
        self._begun = clock()  # of the current call of `send`
        self._back = -np.inf  # when nodes have reconnected after an outage of SuperLink

    def connected(self) -> set[int]:
        """The nodes that Flower considers connected. It notices the loss of a node only after a minute."""
        return set(self._call(self.grid.get_node_ids))

    def keys(self) -> dict[int, bytes]:
        """The public keys of connected nodes, which Flower has verified."""
        return {node.node_id: node.public_key for node in self.grid.get_nodes()}

    def send(self, requests: Sequence[Request], seconds: float) -> list[RequestOutcome]:
        """Sends all requests at once; returns when all replies have arrived, or after the given number of seconds.

        The server may need more time to fetch replies that are at SuperLink by then. These count as in time: the call
        continues as long as a reply is completed within every further deadline, up to the longest deadline.
        """
        outcomes: list[RequestOutcome] = []
        open_requests: dict[str, Request] = {}
        self._begun = now = self.clock()
        lives = self._lives(requests, seconds)
        ids = self._push(requests, lives)
        for request, key, life in zip(requests, ids, lives, strict=True):
            if key:
                open_requests[key] = request
                light = request._replace(order=request.order._replace(arrays=(), shared={}, owed={}))
                self._open[key] = _Open(light, now, seconds, now + life)
            else:
                outcomes.append(RequestOutcome(request, None, None, "no-reply:the message could not be sent"))
        end, extended, over = now + seconds, False, False
        last = end  # when the last reply was completed after the deadline
        while open_requests:
            late = self.clock() >= end
            new = self._pull(open_requests if over else None)
            if not extended and self._back + seconds > end:
                end, extended = self._back + seconds, True  # only once: calls that always take long are not an outage
                last = end
            outcomes += [one for key, one in new if open_requests.pop(key, None)]
            now = self.clock()
            behind = self._arrivals.behind(open_requests)
            over = late and now >= end  # all replies announced by the deadline are known
            last = now if over and new else last
            if over and (not behind or now >= min(last + seconds, end + self.deadlines.limits.most)):
                break
            if open_requests and not behind:
                self.sleep(min(self.poll, max(end - now, 0.0)))
        return outcomes + [RequestOutcome(request, None, None, "no-reply") for request in open_requests.values()]

    def late_outcomes(self) -> list[RequestOutcome]:
        """The outcomes of earlier requests since the last call; each once."""
        self._begun = np.inf  # no call of `send` is active: all replies are late
        self._pull()
        now = self.clock()
        self._open = {key: one for key, one in self._open.items() if one.until > now}
        late, self._late = self._late, []
        return late

    def _lives(self, requests: Sequence[Request], seconds: float) -> list[float]:
        owing = {one.request.node for one in self._open.values()}
        longest = self.deadlines.limits.most + _SPARE
        return [min(seconds + _SHORT, longest) if request.node in owing else longest for request in requests]

    def _push(self, requests: Sequence[Request], lives: Sequence[float]) -> list[str | None]:
        if not requests:
            return []
        pairs = zip(requests, lives, strict=True)
        messages = [order_message(request.order, request.node, life) for request, life in pairs]
        ids = list(self._call(self.grid.push_messages, messages))
        if len(ids) == len(messages):
            return ids
        # The messages were too large for one call: send them one by one.
        return [next(iter(self.grid.push_messages([message])), None) for message in messages]

    def _call(self, grid: Callable[..., Any], *arguments: Any) -> Any:
        """Calls the grid. If it had to wait for SuperLink, so do the nodes: they retry after at most twice that time,
        and cannot reply until then."""
        began = self.clock()
        result = grid(*arguments)
        waited = self.clock() - began
        if waited > _OUTAGE:
            self._back = self.clock() + waited
        return result

    def _pull(self, announced: Collection[str] | None = None) -> list[tuple[str, RequestOutcome]]:
        """New outcomes of open requests, each once; those of earlier calls of `send` are also kept as late.

        `announced`: only fetches announced replies to these requests."""
        outcomes = []
        fetch, keys = self._arrivals.poll, list(self._open)
        if announced is not None:
            fetch, keys = self._arrivals.catch_up, list(announced)
        for key, message, reason in self._call(fetch, keys):
            one = self._open.pop(key, None)
            if one is None:
                continue  # a second reply to the same request, or a reply to none
            latency = self.clock() - one.sent
            if message is None or message.has_error():
                outcome = RequestOutcome(one.request, None, None, reason if message is None else _reason(message))
            else:
                if one.sent > self._back:  # otherwise the delay is due to an outage of SuperLink
                    self.deadlines.observe(one.request.order.kind, latency, one.deadline)
                outcome = RequestOutcome(one.request, message, latency, None)
            outcomes.append((key, outcome))
            if one.sent < self._begun:
                self._late.append(outcome)
        return outcomes


def _reason(message: Message) -> str:
    code, why = message.error.code, " ".join((message.error.reason or "").split())[:200]
    if code in _EXPIRED:
        return "expired"
    if code == ErrorCode.NODE_UNAVAILABLE:
        return "no-reply:the node has disconnected"
    return f"error:{why or code}"
