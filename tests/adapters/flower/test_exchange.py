"""How long requests live: a client that hangs does not find those of all the rounds that it missed."""

import pytest

from fedtide.adapters.flower.exchange import Deadlines, Exchange, Request
from fedtide.adapters.flower.messages import Order, Reply, reply_message
from fedtide.adapters.flower.settings import DeadlineSettings


class Queue:
    """SuperLink and one node that takes its messages one after the other, while it does not hang."""

    def __init__(self):
        self.now, self.sent, self.answers = 0.0, [], []

    def push_messages(self, messages):
        for message in messages:
            message.metadata.__dict__["_message_id"] = f"m{len(self.sent)}"
            self.sent.append((self.now + message.metadata.ttl, message))
        return [message.metadata.message_id for message in messages]

    def pull_messages(self, ids):
        found = [answer for answer in self.answers if answer.metadata.reply_to_message_id in ids]
        self.answers = [answer for answer in self.answers if answer not in found]
        return found

    def work(self, started):
        """Answers the requests that are waiting, those after the first `started` only if they still live: rounds."""
        done = [message for end, message in self.sent[started:] if end > self.now]
        first = [message for _, message in self.sent[:started]]
        self.answers = [reply_message(Reply("here", 0, "", "a"), message) for message in [*first, *done]]
        return [message.content["order"]["round"] for message in [*first, *done]]


@pytest.fixture
def queue():
    return Queue()


@pytest.fixture
def exchange(queue):
    def sleep(seconds):
        queue.now += seconds

    return Exchange(queue, Deadlines(DeadlineSettings(least=5, most=600, start=20)), 1.0, lambda: queue.now, sleep)


def test_a_node_that_hangs_finds_the_last_questions_only(queue, exchange):
    for t in range(10):
        (outcome,) = exchange.send([Request(7, Order("here", t))], 20.0)
        assert outcome.reason == "no-reply"
    assert queue.work(started=1) == [0, 8, 9]  # that on which it hung, and those of the last 50 seconds
    late = exchange.late_outcomes()
    assert sorted(one.request.order.round for one in late) == [0, 8, 9]
    assert max(one.latency for one in late) == 200.0  # the first is timed: a deadline that is too short grows
    assert exchange.deadlines.seconds("here") > 20.0


def test_who_owes_nothing_has_all_the_time_to_be_late(queue, exchange):
    exchange.send([Request(7, Order("here", 0))], 20.0)
    queue.work(started=1)
    exchange.late_outcomes()
    exchange.send([Request(7, Order("here", 1)), Request(8, Order("here", 1))], 20.0)
    exchange.send([Request(7, Order("here", 2)), Request(9, Order("here", 2))], 20.0)
    assert [message.metadata.ttl for _, message in queue.sent] == [660.0, 660.0, 660.0, 50.0, 660.0]


def test_time_in_which_superlink_was_away_is_not_held_against_clients(queue, exchange):
    pull, looks = queue.pull_messages, []

    def away(ids):
        looks.append(queue.now)
        if len(looks) == 2:
            queue.now += 60.0  # the grid waits for SuperLink
        if len(looks) == 72:  # nodes find it again
            queue.work(started=1)
        return pull(ids)

    queue.pull_messages = away
    (outcome,) = exchange.send([Request(7, Order("here", 0))], 20.0)
    assert (outcome.reason, outcome.latency) == (None, 131.0)
    assert exchange.deadlines.seconds("here") == 20.0  # nothing was learned from it


def test_looks_that_always_take_long_do_not_prolong_a_round_for_ever(queue, exchange):
    def slow(ids):
        queue.now += 5.0
        return []

    queue.pull_messages = slow
    (outcome,) = exchange.send([Request(7, Order("here", 0))], 20.0)
    assert outcome.reason == "no-reply"
    assert queue.now <= 50.0
