"""Logs that can be read in more than one way: the reader refuses, or says which way it took."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest

from fedtide.errors import FedtideError
from fedtide.fleet import read

HOUR = 3_600_000


def table(**columns):
    return pl.DataFrame(columns)


def notes(log, words):
    return [note for note in log.account.notes if words in note]


def checked(log):
    left_out = sum(issue.count for issue in log.account.issues if issue.done == "left out")
    assert log.account.rows == log.account.used + left_out
    return log


@pytest.mark.parametrize(
    ("device", "windows", "words"),
    [
        (["dev-0", "dev-1"], [0, 500], "the log has '0', the windows have 'dev-0'"),
        (["0", "1"], [5000, 6000], "the log has '0' at 0 s, the windows have it from 5000 s to 6000 s"),
    ],
)
@pytest.mark.parametrize("form", ["intervals", "heartbeats"])
def test_a_log_outside_of_all_windows_is_refused(device, windows, words, form):
    log = table(device=["0", "1"] * 3, start=[0, 10, 20, 30, 40, 50], end=[5, 15, 25, 35, 45, 55])
    seen = table(device=device, start=[windows[0]] * 2, end=[windows[1]] * 2)
    with pytest.raises(FedtideError, match=words) as error:
        read(log if form == "intervals" else log.drop("end").rename({"start": "time"}), windows=seen, gap=60)
    assert "none of its 6 rows can be used" in str(error.value)
    assert "\n" not in str(error.value)


def test_few_rows_with_a_window_are_noted():
    log = table(device=["0", "1", "2"], start=[0, 10, 20], end=[5, 15, 25])
    said = notes(checked(read(log, windows=table(device=["0", "dev-1"], start=[0, 0], end=[30, 30]))), "Only 1 of 3")
    assert said == ["Only 1 of 3 rows belong to devices that have a window: the log has '1', the windows have 'dev-1'."]
    everyone = table(device=["0", "1", "2"], start=[0] * 3, end=[8] * 3)
    assert notes(checked(read(log, windows=everyone)), "Only 1 of 3 rows are within their device's windows")


def test_a_gap_shorter_than_the_beat_is_refused():
    beats = table(device=["a"] * 20, time=[60 * i for i in range(20)])
    with pytest.raises(
        FedtideError, match="gap = 30 s: must be longer than the median interval between heartbeats, 60 s"
    ):
        read(beats, gap=30)
    assert read(beats, gap=60).intervals.rows() == [(0, 0, 1_200_000)]
    jitter = np.random.default_rng(0).uniform(-5, 5, 200)
    with pytest.raises(FedtideError, match="must be longer"):
        read(table(device=["a"] * 200, time=60.0 * np.arange(200) + jitter), gap=58)
    # Stays of two beats, far apart: half of all times between beats are absences.
    pairs = [3600 * i + j for i in range(20) for j in (0, 60)]
    assert len(read(table(device=["a"] * 40, time=pairs), gap=90).intervals) == 20


def test_names_of_columns_tell_the_unit():
    log = read(table(device=["a", "b"], start_ms=[0, 600_000], end_ms=[300_000, 900_000]))
    assert log.intervals.rows() == [(0, 0, 300_000), (1, 600_000, 900_000)]
    assert notes(log, "milliseconds, as the name of column start_ms says")
    assert read(table(device=["a"], start_s=[0], end_ms=[5000])).intervals.rows() == [(0, 0, 5000)]
    assert read(table(device=["a"], start_ms=[0], end_ms=[5]), unit="s").intervals.rows() == [(0, 0, 5000)]
    assert read(table(device=["a"], start_us=[0], end_us=[5e6])).intervals.rows() == [(0, 0, 5000)]


def test_windows_in_another_unit_are_noted():
    log = table(device=["a", "b"], start=[0, 3000], end=[600, 6000])
    same = table(device=["a", "b"], start=[0, 0], end=[6000, 6000])
    assert not notes(read(log, windows=same), "windows")
    far = same.with_columns(pl.col("end") * 1000)
    assert notes(read(log, windows=far), "The windows span 69.4 days, the log 1.67 hours")
    named = far.rename({"start": "start_ms", "end": "end_ms"})
    assert notes(read(log, windows=named), "windows: Times are assumed to be in milliseconds, unlike those of the log.")
    assert read(log, windows=named).windows.equals(read(log, windows=same).windows)


def test_a_long_stay_is_no_jump_of_a_clock():
    start, end = [3600 * i for i in range(30)], [3600 * i + 1800 for i in range(30)]
    log = checked(read(table(device=["a", *["b"] * 30], start=[0, *start], end=[99_000_000, *end])))
    assert log.devices == ("a", "b")
    assert log.intervals.row(0) == (0, 0, 1000 * end[-1])
    assert log.account.used == 31
    assert [(i.count, i.done) for i in log.account.issues] == [(1, "cut to the log")]
    both = read(table(device=["a", *["b"] * 30], start=[-99_000_000, *start], end=[99_000_000, *end]))
    assert both.intervals.equals(log.intervals)
    jumped = checked(read(table(device=["a", *["b"] * 30], start=[98_000_000, *start], end=[99_000_000, *end])))
    assert jumped.devices == ("b",)


def polls(outage):
    """A device polled each 300 s, off once, with an outage of the poller while it is there; another likewise."""
    time = [300 * i for i in range(40)]
    time = [*time[:20], *(t + outage for t in time[20:])]
    state = ["on"] * 5 + ["off"] * 5 + ["on"] * 15 + ["off"] * 15
    return table(device=["a"] * 40 + ["b"] * 40, time=time * 2, state=state * 2)


def test_an_outage_of_polls_is_not_observed():
    log = checked(read(polls(86_400)))
    again = 86_400_000 + 6_000_000
    assert log.windows.rows()[:2] == [(0, 0, 6_000_000), (0, again, again + 5_700_000)]
    assert log.intervals.rows()[:3] == [(0, 0, 1_500_000), (0, 3_000_000, 6_000_000), (0, again, again + 1_500_000)]
    assert notes(log, "Devices are not observed in 2 gaps of more than 10 times the device's median interval")
    whole = read(polls(1800))
    assert not notes(whole, "gap")
    assert len(whole.windows) == 2
    assert notes(read(polls(1800), gap=1200), "Devices are not observed in 2 gaps of more than 1200 s")
    changes = polls(86_400).filter(pl.col("state") != pl.col("state").shift().over("device").fill_null(""))
    assert len(read(changes).windows) == 2  # of changes only: a state lasts
    windows = table(device=["a", "b", "c"], start=[-86_400] * 3, end=[200_000] * 3)
    seen = read(polls(86_400), windows=windows).windows
    assert [len(seen.filter(device=i)) for i in range(3)] == [2, 2, 1]
    assert seen.row(0) == (0, 0, 6_000_000)


def local(minutes, count, form="%Y-%m-%dT%H:%M"):
    """Local times of Paris over the night in which clocks are set back, at 01:00 of UTC."""
    begin, paris = datetime(2025, 10, 25, 22, tzinfo=UTC), ZoneInfo("Europe/Paris")
    return [(begin + timedelta(minutes=minutes * i)).astimezone(paris).strftime(form) for i in range(count)]


BEGIN = int(datetime(2025, 10, 25, 22, tzinfo=UTC).timestamp() * 1000)


def test_the_hour_that_occurs_twice_is_told_by_the_order_of_the_file():
    times = local(10, 40)
    log = checked(read(table(device=["a"] * 40, time=times), gap=900, zone="Europe/Paris"))
    assert log.intervals.rows() == [(0, BEGIN, BEGIN + 40 * 600_000)]
    assert log.account.used == 40
    assert notes(log, "12 times are in an hour that occurs twice")
    ends = local(5, 80)[1::2]  # stays of 5 minutes, each 10
    log = checked(read(table(device=["a"] * 40, start=times, end=ends), zone="Europe/Paris"))
    assert log.account.used == 40
    assert log.intervals["start"].to_list() == [BEGIN + 600_000 * i for i in range(40)]
    turned = table(
        device=["a"] * 2, start=["2025-10-26T02:50", "2025-10-26T09:00"], end=["2025-10-26T02:10", "2025-10-26T10:00"]
    )
    assert read(turned, zone="Europe/Paris").intervals.row(0) == (0, BEGIN + 170 * 60_000, BEGIN + 190 * 60_000)


def test_the_hour_that_occurs_twice_is_not_observed_where_nothing_tells_which():
    order = np.random.default_rng(0).permutation(40)
    times = [local(10, 40)[i] for i in order]
    log = checked(
        read(table(device=["a"] * 40 + ["b"] * 2, time=[*times, times[0], times[1]]), gap=900, zone="Europe/Paris")
    )
    edges = [BEGIN, BEGIN + 2 * HOUR, BEGIN + 4 * HOUR, BEGIN + 40 * 600_000]
    assert log.windows.filter(device=0).rows() == [(0, *edges[:2]), (0, *edges[2:])]
    assert log.intervals.filter(device=0).rows() == [(0, *edges[:2]), (0, *edges[2:])]
    (doubt,) = [issue for issue in log.account.issues if "occurs twice" in issue.kind]
    assert doubt.count >= 12
    aware = [f"{time}{'+02:00' if i < 18 else '+01:00'}" for i, time in enumerate(local(10, 40))]
    log = read(table(device=["a"] * 40, time=[aware[i] for i in order]), gap=900, zone="Europe/Paris")
    assert log.windows.rows() == [(0, edges[0], edges[3])]


def test_names_that_are_alike_are_noted():
    log = table(device=["A", "a", "01", "1", "b"], start=[0] * 5, end=[9] * 5)
    assert notes(read(log), "similar names: '01' and '1', 'A' and 'a'.")
