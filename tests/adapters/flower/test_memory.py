"""A client's memory: taken over when the round counted, dropped when it did not."""

import numpy as np
import pytest

from fedtide.adapters.flower.memory import ClientMemory, MemoryLost
from fedtide.errors import FedtideError

FIRST = {".c": np.zeros(2, np.float32)}


def row(value):
    return {".c": np.full(2, value, np.float32)}


@pytest.fixture
def memory(tmp_path):
    return ClientMemory(tmp_path / "m", "series")


def values(found):
    return found[".c"].tolist()


def test_a_round_that_counted_is_remembered(memory):
    assert values(memory.recall(0, -1, {}, FIRST)) == [0, 0]
    memory.hold(row(1), 0)
    assert values(memory.recall(1, 0, {}, FIRST)) == [1, 1]
    assert values(memory.recall(1, 0, {}, FIRST)) == [1, 1]  # asked again: the same


def test_a_round_that_did_not_count_is_forgotten(memory):
    memory.hold(row(1), 0)
    assert values(memory.recall(1, 0, {}, FIRST)) == [1, 1]
    memory.hold(row(2), 1)
    assert values(memory.recall(2, 0, {}, FIRST)) == [1, 1]
    memory.hold(row(3), 2)
    assert values(memory.recall(3, 2, {}, FIRST)) == [3, 3]


def test_a_repeated_round_starts_from_the_same_row(memory):
    memory.hold(row(1), 0)
    memory.recall(1, 0, {}, FIRST)
    memory.hold(row(2), 1)
    assert values(memory.recall(1, 0, {}, FIRST)) == [1, 1]


def test_what_the_server_owes_replaces_leaves_once(memory):
    memory.hold(row(1), 0)
    assert values(memory.recall(1, 0, row(9), FIRST)) == [9, 9]
    assert values(memory.recall(2, 0, row(9), FIRST)) == [9, 9]
    assert values(ClientMemory(memory.folder, "series").recall(2, 0, {}, FIRST)) == [9, 9]  # on disk


def test_the_first_row_has_what_the_server_sends(memory):
    assert values(memory.recall(5, -1, row(4), FIRST)) == [4, 4]


def test_lost_memory_is_said(memory):
    with pytest.raises(MemoryLost, match="memory lost: no state of round 3"):
        memory.recall(4, 3, {}, FIRST)


def test_a_damaged_file_is_lost_memory(memory):
    memory.hold(row(1), 0)
    (memory.folder / "pending.safetensors").write_bytes(b"nonsense")
    with pytest.raises(MemoryLost):
        memory.recall(1, 0, {}, FIRST)


def test_an_order_that_was_overtaken_changes_nothing(memory):
    memory.hold(row(1), 0)
    memory.recall(5, 0, {}, FIRST)
    memory.hold(row(5), 5)
    with pytest.raises(FedtideError, match="a request for round 3, although round 5 has begun"):
        memory.recall(3, 0, {}, FIRST)
    assert values(memory.recall(6, 5, {}, FIRST)) == [5, 5]


def test_a_run_that_begins_anew_begins_anew(memory):
    memory.hold(row(1), 0)
    memory.recall(7, 0, {}, FIRST)
    assert values(ClientMemory(memory.folder, "another").recall(0, -1, {}, FIRST)) == [0, 0]
