"""Numbers as text."""

import pytest

from fedtide import text


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 seconds"),
        (1, "1 second"),
        (90, "90 seconds"),
        (1800, "30 minutes"),
        (3600, "1 hour"),
        (172_800, "2 days"),
    ],
)
def test_durations_in_the_largest_unit(seconds, words):
    assert text.duration(seconds) == words


@pytest.mark.parametrize(("seconds", "words"), [(0.2, "1 s"), (99, "99 s"), (720, "12 min"), (9000, "2.5 h")])
def test_rounded_durations(seconds, words):
    assert text.rounded_duration(seconds) == words


@pytest.mark.parametrize(
    ("size", "words"), [(0, "0 bytes"), (999, "999 bytes"), (1500, "1.5 kB"), (40e9, "40 GB"), (123e6, "123 MB")]
)
def test_bytes(size, words):
    assert text.readable(size) == words


def test_numbers_have_minus_signs():
    assert text.number(-0.5, ".2f") == "−0.50"
    assert text.number(None, ".2f") == "–"
