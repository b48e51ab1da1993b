"""Logs in all forms and files, small enough to check by hand."""

import gzip

import numpy as np
import polars as pl
import pytest

from fedtide.errors import FedtideError
from fedtide.fleet import discretise, read

TEXT = "device,start,end\na,0,60\na,100,200\nb,50,150\n"
SPANS = [(0, 0, 60_000), (0, 100_000, 200_000), (1, 50_000, 150_000)]


def kinds(log):
    return {issue.kind: (issue.count, issue.done) for issue in log.account.issues}


def left_out(account):
    return sum(issue.count for issue in account.issues if issue.done == "left out")


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    "content",
    [
        TEXT,
        TEXT.rstrip(),
        "\ufeff" + TEXT,
        TEXT.replace("\n", "\r\n"),
        TEXT.replace("\n", "\r"),
        TEXT.replace(",", ";"),
        TEXT.replace(",", "\t"),
        TEXT.replace(",", " , "),
        TEXT.replace("\n", "\n\n"),
        TEXT.replace("a,", '"a",').replace("b,", '"b",'),
        TEXT.replace("device", '"device"'),
        "client_id,begin,stop,extra\na,0,60,\na,100,200,1\nb,50,150,\n",
        '{"device": "a", "start": 0, "end": 60}\n{"device":"a","start":100,"end":200.0}\n'
        '\n{"node":1,"device":"b","start":"50","end":150}\n',
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_text_is_read_however_it_is_written(tmp_path, content, packed):
    data = content.encode()
    log = read(write(tmp_path / "log", gzip.compress(data) if packed else data))
    assert log.devices == ("a", "b")
    assert log.intervals.rows() == SPANS
    assert log.account.rows == log.account.used == 3
    assert not log.account.issues


def test_tables_are_read(tmp_path):
    frame = pl.DataFrame({"device": ["a", "a", "b"], "start": [0, 100, 50], "end": [60, 200, 150]})
    frame.write_parquet(tmp_path / "log.parquet")
    times = frame.with_columns(pl.duration(seconds="start").alias("start"), pl.duration(seconds="end").alias("end"))
    for source in (frame, frame.lazy(), tmp_path / "log.parquet", str(tmp_path / "log.parquet"), times):
        assert read(source).intervals.rows() == SPANS


def test_a_quoted_name_may_hold_separators_and_quotes(tmp_path):
    log = read(write(tmp_path / "log", 'device,start,end\n"a,b",0,60\n"say ""c""",0,30\nd,0,5\n"e,0,5\nf"f,0,5\n'))
    assert log.devices == ("a,b", "d", 'f"f', 'say "c"')
    assert kinds(log) == {"lines whose quotes or fields are malformed": (1, "left out")}
    assert log.account.issues[0].examples == ('line 5: "e,0,5',)


def test_every_row_has_its_place(tmp_path):
    lines = ["device,start,end", *(f"a,{100 * i},{100 * i + 50}" for i in range(10))]
    lines += [
        "a,0,50",
        "a,20,70",
        "a,950,960",
        ",0,5",
        "null,0,5",
        "a,,5",
        "a,x,5",
        "a,nan,5",
        "a,5,inf",
        "a,9,3",
        "a,7,7",
    ]
    lines += ["a,5", "a,5,6,7", "a,99999999990,99999999999", "b,5,1e300"]
    path = write(tmp_path / "log", "\n".join(lines).encode() + b"\nb\xff,5,6\nb\0,5,6\n")
    log = read(path)
    assert kinds(log) == {
        "lines with too many fields": (1, "left out"),
        "lines with too few fields": (1, "left out"),
        "lines that are not UTF-8 text": (2, "left out"),
        "rows without a device": (2, "left out"),
        "rows without a time": (1, "left out"),
        "rows whose time cannot be read": (1, "left out"),
        "rows whose time is invalid (not finite, or thousands of years away)": (3, "left out"),
        "rows that end before they start": (1, "left out"),
        "rows of zero length": (1, "left out"),
        "rows with times far from all others (a clock jump)": (1, "left out"),
        "rows that are exact duplicates": (1, "left out"),
        "rows that overlap an earlier row of the same device": (1, "merged"),
        "rows that begin when an earlier row of the same device ends": (1, "merged"),
    }
    assert log.account.rows == len(lines) - 1 + 2
    assert log.account.used == 12 == log.account.rows - left_out(log.account)
    assert log.devices == ("a",)
    assert log.intervals.rows()[0] == (0, 0, 70_000)
    assert log.intervals.rows()[-1] == (0, 900_000, 960_000)


def test_events_last_until_the_next():
    frame = pl.DataFrame(
        {
            "device": ["a", "a", "a", "a", "b", "b", "c", "c"],
            "time": [10, 30, 40, 20, 0, 100, 50, 50],
            "state": ["on", "offline", "DOWN", "up", "off", "1", "off", "on"],
        }
    )
    log = read(frame)
    assert log.intervals.rows() == [(0, 10_000, 30_000), (2, 50_000, 100_000)]
    assert log.windows.rows() == [(0, 10_000, 100_000), (1, 0, 100_000), (2, 50_000, 100_000)]
    assert kinds(log) == {
        "times that go back within a device": (1, "kept, sorted"),
        "events at the same moment as a later one of the other state": (1, "kept, the later is used"),
        "events that repeat the state": (2, "kept"),
    }
    assert log.account.used == 8
    own = read(frame, observed="own")
    assert own.windows.rows() == [(0, 10_000, 40_000), (1, 0, 100_000)]
    given = read(frame, windows=pl.DataFrame({"device": ["a", "b"], "start": [0, 0], "end": [35, 150]}))
    assert given.devices == ("a", "b")
    assert given.intervals.rows() == [(0, 10_000, 30_000), (1, 100_000, 150_000)]
    assert given.account.used == 6


def test_a_first_event_of_leaving_says_that_it_was_there_where_windows_are_given():
    frame = pl.DataFrame({"device": ["a", "a"], "time": [10, 30], "state": ["off", "on"]})
    log = read(frame, windows=pl.DataFrame({"device": ["a"], "start": [0], "end": [50]}))
    assert log.intervals.rows() == [(0, 0, 10_000), (0, 30_000, 50_000)]


def test_states_may_have_other_words():
    frame = pl.DataFrame({"device": ["a"] * 3, "time": [0, 10, 20], "state": ["plugged", "Unplugged", "?"]})
    log = read(frame, on=["Plugged"], off=["unplugged"])
    assert log.intervals.rows() == [(0, 0, 10_000)]
    assert kinds(log) == {"rows whose state is not recognised (define such words with on and off)": (1, "left out")}


def test_heartbeats_make_runs():
    beats = [0, 10, 20, 100, 110, 300]
    log = read(pl.DataFrame({"device": ["a"] * 7, "time": [*beats, 300]}), gap=30)
    assert log.intervals.rows() == [(0, 0, 30_000), (0, 100_000, 120_000), (0, 300_000, 310_000)]
    assert kinds(log) == {"rows that are exact duplicates": (1, "left out")}
    window = pl.DataFrame({"device": ["a", "b"], "start": [0, 0], "end": [115, 50]})
    log = read(pl.DataFrame({"device": ["a"] * 6, "time": beats}), gap=30, windows=window)
    assert log.intervals.rows() == [(0, 0, 30_000), (0, 100_000, 115_000)]
    assert kinds(log) == {"heartbeats outside of their device's windows": (1, "left out")}
    with pytest.raises(FedtideError, match="gap"):
        read(pl.DataFrame({"device": ["a"] * 6, "time": beats}))


@pytest.mark.parametrize("value", ["1", "true", "1.0"])
def test_matrices_come_back(tmp_path, value):
    state = np.random.default_rng(0).integers(-1, 2, (40, 7))
    words = {1: value, 0: "0" if value == "1" else "false", -1: ""}
    header = ",".join(f"d{i}" for i in range(7))
    lines = [",".join(words[int(x)] for x in row) for row in state]
    files = {
        "plain.csv": "\n".join([header, *lines]) + "\n",
        "timed.csv": "\n".join(["time," + header, *(f"{600 * i},{line}" for i, line in enumerate(lines))]),
        "dated.csv": "\n".join(["time," + header, *(f"{1.7e9 + 600 * i},{line}" for i, line in enumerate(lines))]),
    }
    for name, text in files.items():
        log = read(write(tmp_path / name, text), round_seconds=600 if name == "plain.csv" else None)
        seen = lines_seen = (state >= 0).any(axis=1)
        assert lines_seen.sum() > 30
        slots = discretise(log, 600)
        first = int(np.flatnonzero(seen)[0])
        assert log.devices == tuple(f"d{i}" for i in range(7))
        np.testing.assert_array_equal(slots.state, state[first : first + slots.rounds])
        assert (state[first + slots.rounds :] == -1).all()


def test_arrays_are_matrices(tmp_path):
    state = np.array([[1, 0, -1], [1, 1, 0], [0, 1, 0]], np.int8)
    np.save(tmp_path / "a.npy", state)
    np.savez(tmp_path / "a.npz", first=state, second=1 - np.abs(state), devices=np.array(["x", "y", "z"]))
    np.savetxt(tmp_path / "a.csv", state, "%d", ",")
    assert discretise(read(tmp_path / "a.npy", round_seconds=60), 60).state.tolist() == state.tolist()
    assert discretise(read(tmp_path / "a.csv", round_seconds=60), 60).state.tolist() == state.tolist()
    log = read(tmp_path / "a.npz", round_seconds=60, columns={"state": "first"}, origin="2024-01-01")
    assert log.devices == ("x", "y", "z")
    assert log.zone == "UTC"
    with pytest.raises(FedtideError, match="first, second"):
        read(tmp_path / "a.npz", round_seconds=60)
    with pytest.raises(FedtideError, match="round_seconds"):
        read(tmp_path / "a.npy")


def test_windows_cut_and_add_devices():
    frame = pl.DataFrame({"device": ["a", "a", "b"], "start": [0, 100, 0], "end": [50, 200, 10]})
    windows = pl.DataFrame(
        {"id": ["a", "a", "c", "d", "a"], "observed_from": [20, 120, 0, 9, None], "observed_until": [90, 150, 80, 3, 4]}
    )
    log = read(frame, windows=windows)
    assert log.devices == ("a", "c")
    assert log.intervals.rows() == [(0, 20_000, 50_000), (0, 120_000, 150_000)]
    assert log.windows.rows() == [(0, 20_000, 90_000), (0, 120_000, 150_000), (1, 0, 80_000)]
    assert kinds(log) == {
        "windows: rows without a time": (1, "not used"),
        "windows: rows that end before they start": (1, "not used"),
        "rows of devices that have no window": (1, "left out"),
        "rows partly outside of their device's windows": (2, "cut"),
    }
    assert log.account.used == 2


def test_kinds_of_rows_are_chosen():
    frame = pl.DataFrame({"device": ["a", "b"], "start": [0, 0], "end": [5, 9], "kind": ["wifi", "power"]})
    assert any("Column kind is ignored. It has 2 values: power, wifi" in note for note in read(frame).account.notes)
    log = read(frame, where={"kind": "wifi"})
    assert log.devices == ("a",)
    assert kinds(log) == {"rows excluded by where": (1, "left out")}
    assert "1 device has only rows excluded by where, and is not part of this log." in log.account.notes
    windows = pl.DataFrame({"device": ["a", "b"], "start": [0, 0], "end": [9, 9]})
    kept = read(frame, where={"kind": "wifi"}, windows=windows)
    assert kept.devices == ("a", "b")
    assert not any("only rows excluded by where" in note for note in kept.account.notes)


def test_a_stay_without_an_end_lasts_until_the_log_ends():
    frame = pl.DataFrame(
        {"device": [*"aabcd", "a"], "start": ["0", "7", "", "3", "9", "5"], "end": ["5", "", "", "", "", ""]}
    )
    log = read(frame)
    assert log.devices == ("a", "c")
    assert log.intervals.rows() == [(0, 0, 5000), (0, 7000, 9000), (1, 3000, 9000)]
    assert kinds(log) == {
        "rows without a time": (1, "left out"),
        "rows without an end, of devices that have a later row": (1, "left out"),
        "rows without an end that begin when the log or their window ends": (1, "left out"),
        "rows without an end (still available)": (2, "assumed available until the log ends"),
    }
    assert log.account.used == 3
    windows = pl.DataFrame({"device": ["a", "c"], "start": [0, 0], "end": [8, 20]})
    assert read(frame, windows=windows).intervals.rows() == [(0, 0, 5000), (0, 7000, 8000), (1, 3000, 20_000)]
    still = pl.DataFrame({"device": ["a", "c"], "start": [0, 0], "end": [30, None]})
    assert read(frame, windows=still).windows.rows() == [(0, 0, 30_000), (1, 0, 30_000)]


def test_devices_are_sorted_by_number_or_name():
    def devices(names):
        return read(pl.DataFrame({"device": names, "start": [0] * 3, "end": [5] * 3})).devices

    assert devices(["10", "9", "1"]) == ("1", "9", "10")
    assert devices(["b", "10", "9"]) == ("10", "9", "b")


def test_devices_that_may_have_joined_late_are_noted():
    frame = pl.DataFrame({"device": ["a", "b"], "start": [0, 900], "end": [1000, 1000]})
    assert any("joined late" in note for note in read(frame).account.notes)
    log = read(frame, observed="own")
    assert log.windows.rows() == [(0, 0, 1_000_000), (1, 900_000, 1_000_000)]
    assert not any("joined late" in note for note in log.account.notes)
