"""Rounds and advice, against small logs and a known chain."""

import numpy as np
import polars as pl
import pytest

from fedtide.errors import FedtideError
from fedtide.fleet import advice_in_words, advise, discretise, read
from fedtide.fleet.slots import state_runs


def test_runs_end_with_their_device():
    state, length, device = state_runs(np.array([[1, 1, 0], [0, -1, -1]], np.int8))
    assert state.tolist() == [1, 0, -1, 0, -1]
    assert length.tolist() == [2, 1, 1, 1, 3]
    assert device[state >= 0].tolist() == [0, 0, 1]


def test_rounds_see_the_moment_they_begin():
    frame = pl.DataFrame({"device": ["a", "a", "b"], "start": [50, 120, 60], "end": [60, 181, 120]})
    windows = pl.DataFrame({"device": ["a", "b", "c"], "start": [50, 50, 100], "end": [300, 121, 200]})
    slots = discretise(read(frame, windows=windows), 60)
    assert slots.start == 60
    assert slots.state.tolist() == [[0, 1, -1], [1, 0, 0], [1, -1, 0], [0, -1, -1]]
    assert slots.state.dtype == np.int8


def test_rounds_begin_at_multiples_on_the_logs_clock():
    moment = 1_717_243_200 + 7
    frame = pl.DataFrame({"device": ["a"], "start": [moment], "end": [moment + 7200]})
    slots = discretise(read(frame, zone="Asia/Kolkata"), 600)
    assert slots.start == 1_717_243_200 + 600
    assert slots.rounds == 12
    assert slots.hours[0] == 17  # 12:10 UTC is 17:40 there


def test_long_and_many_intervals_are_filled_alike():
    rng = np.random.default_rng(1)
    start = np.arange(0, 200_000, 1000)
    frame = pl.DataFrame({"device": "a", "start": start, "end": start + rng.integers(1, 999, len(start))})
    slots = discretise(read(frame), 10)
    moments = slots.start + 10 * np.arange(slots.rounds)
    i = np.searchsorted(start, moments, side="right") - 1
    np.testing.assert_array_equal(slots.state[:, 0], moments < frame["end"].to_numpy()[i])


def test_too_many_entries_and_too_few_rounds_are_one_line():
    log = read(pl.DataFrame({"device": ["a", "b"], "start": [0, 0], "end": [10**7 * 150, 10]}), origin="1980-01-01")
    with pytest.raises(FedtideError, match="round_seconds = 1: 1500000000 rounds of 2 devices"):
        discretise(log, 1)
    with pytest.raises(FedtideError, match="round_seconds"):
        discretise(log, 10**9)
    with pytest.raises(FedtideError, match="round_seconds"):
        discretise(log, 1.5)


def chain_log(devices=40, minutes=6000, share=0.4, hours=1.0):
    """Two-state chains observed each minute, of relaxation time `hours`."""
    rng = np.random.default_rng(2)
    stay = np.exp(-1 / (60 * hours))
    state = np.zeros((minutes, devices), np.int8)
    state[0] = rng.random(devices) < share
    for t in range(1, minutes):
        again = rng.random(devices) < stay
        state[t] = np.where(again, state[t - 1], rng.random(devices) < share)
    return read(state, round_seconds=60)


def test_advice_finds_what_a_chain_has():
    table = advise(chain_log(), lengths=(60, 600, 1800, 3600))
    # λ = exp(−Δ/τ), within .06: 40 devices of 100 hours each give the median to about ± .02 (three such)
    np.testing.assert_allclose(table["correlation"], np.exp(-table["round_seconds"].to_numpy() / 3600), atol=0.06)
    # stays to the end of a round: never drawn anew to "away" in its minutes
    leave = (1 - np.exp(-1 / 60)) * 0.6
    np.testing.assert_allclose(table["stay"], (1 - leave) ** (table["round_seconds"].to_numpy() / 60 - 1), atol=0.04)
    np.testing.assert_allclose(table["available"], 0.4, atol=0.04)
    assert table["rounds"].to_list() == [6000, 600, 200, 100]
    assert table["enough"].to_list() == [True, True, True, False]
    words = advice_in_words(table)
    assert words[0].startswith("λ depends on the round length")
    assert "10 minutes (9" in words[1]
    assert words[2].startswith("In rounds of 30 minutes")
    assert "1 hour" in words[3]


def test_advice_counts_by_hand():
    windows = pl.DataFrame({"device": ["a"], "start": [0], "end": [1000]})
    frame = pl.DataFrame({"device": ["a"] * 3, "start": [0, 500, 850], "end": [250, 700, 1000]})
    row = advise(read(frame, windows=windows), lengths=(100,)).row(0, named=True)
    # Begun at 0 100 200, 500 600, 900; of them 200 is not kept.
    assert row["stay"] == pytest.approx(5 / 6)
    assert row["available"] == pytest.approx(6 / 10)
    assert row["away_rounds"] == pytest.approx((2 + 2) / 2)  # 300 400; 700 800
    # on → on 0 100, 500; on → off 200, 600; off → on 400, 800; off → off 300, 700
    assert row["correlation"] == pytest.approx(3 / 5 - 2 / 4)


def test_large_logs_are_sampled_and_say_so(monkeypatch):
    monkeypatch.setattr("fedtide.fleet.advice._ENTRIES", 6000 * 10)
    table = advise(chain_log(), lengths=(60, 600))
    assert table["devices"].to_list() == [10, 40]
    assert any("sample" in sentence and "10 of 40" in sentence for sentence in advice_in_words(table))
