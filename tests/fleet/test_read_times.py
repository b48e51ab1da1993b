"""Times: epoch numbers of any unit, ISO texts, the log's own clock; and what cannot be read, in one line."""

import gzip

import polars as pl
import pytest

from fedtide.errors import FedtideError
from fedtide.fleet import read

MOMENT = 1_717_243_200  # 2024-06-01T12:00:00Z


def frame(*starts, hour=None):
    ends = hour or [start + 3600 for start in starts]
    return pl.DataFrame({"device": [f"d{i}" for i in range(len(starts))], "start": starts, "end": ends}, strict=False)


def first(log):
    return log.intervals["start"][0] / 1000


@pytest.mark.parametrize(("unit", "size"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_epoch_numbers_of_any_unit(unit, size):
    for given in (None, unit):
        log = read(frame(MOMENT * size, hour=[(MOMENT + 60) * size]), unit=given)
        assert log.intervals.rows() == [(0, MOMENT * 1000, MOMENT * 1000 + 60_000)]
        assert log.zone == "UTC"
        assert any("from their magnitude" in note for note in log.account.notes) == (given is None)


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("2024-06-01T12:00:00Z", None),
        ("2024-06-01T14:00:00+02:00", None),
        ("2024-06-01T14:00:00.000+0200", "America/New_York"),
        ("2024-06-01 12:00:00+00", None),
        ("2024-06-01T12:00", None),
        ("2024-06-01 12:00:00", "UTC"),
        ("2024-06-01 14:00:00.000", "Europe/Berlin"),
        (" 2024-06-01T14:00", "Europe/Berlin"),
    ],
)
def test_iso_texts(text, zone):
    log = read(frame(text, hour=["2024-06-01T20:00Z"]), zone=zone)
    assert first(log) == MOMENT
    assert log.zone == (zone or "UTC")


def test_typed_times():
    table = frame("2024-06-01T14:00:00", hour=["2024-06-01T15:00:00"])
    table = table.with_columns(pl.col("start", "end").str.to_datetime("%Y-%m-%dT%H:%M:%S", time_unit="us"))
    assert first(read(table, zone="Europe/Berlin")) == MOMENT
    aware = table.with_columns(pl.col("start", "end").dt.replace_time_zone("Europe/Berlin"))
    assert first(read(aware)) == MOMENT


def test_an_hour_that_never_was_is_left_out():
    table = frame("2024-03-31T02:30", "2024-03-31T01:30", hour=["2024-03-31T05:00"] * 2)
    log = read(table, zone="Europe/Berlin")
    assert log.account.used == 1
    assert log.account.issues[0].kind == "rows in an hour that does not exist (clocks are set forward)"


def test_the_logs_own_clock():
    log = read(frame(0, 600))
    assert log.zone is None
    assert first(log) == 0
    dated = read(frame(0, 600), origin="2024-06-01T14:00", zone="Europe/Berlin")
    assert first(dated) == MOMENT
    assert dated.zone == "Europe/Berlin"
    assert first(read(frame(5000, hour=[6000]), unit="ms")) == 5


def test_clocks_that_jump_are_left_out():
    starts = [MOMENT + 1000 * i for i in range(50)]
    log = read(frame(*starts, 5, MOMENT * 3))
    assert log.account.used == 50
    assert [issue.count for issue in log.account.issues] == [2]
    assert log.account.issues[0].examples[0].startswith("row 51: 1970-01-01T00:00:05+00:00 to 1970-01-01T01:00:05")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"zone": "Mars/Olympus"}, "zone"),
        ({"zone": "UTC"}, "origin"),
        ({"origin": "yesterday"}, "origin"),
        ({"unit": "hours"}, "unit"),
        ({"form": "table"}, "form"),
        ({"observed": "never"}, "observed"),
        ({"gap": -1}, "gap"),
        ({"columns": {"device": "nobody"}}, "device, start, end"),
        ({"columns": {"who": "device"}}, "columns"),
        ({"where": {"kind": "x"}}, "kind"),
        ({"form": "events"}, "time"),
        ({"windows": pl.DataFrame({"a": [1]})}, "its columns are a"),
        ({"windows": pl.DataFrame({"device": ["d0"], "start": [MOMENT], "end": [2 * MOMENT]})}, "different clocks"),
    ],
)
def test_arguments_that_do_not_fit_are_one_line(arguments, words):
    with pytest.raises(FedtideError, match=words) as error:
        read(frame(0, 600), **arguments)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n",
        b"device,start,end\n",
        b"a,0,5\nb,3,9\n",
        b"what\never\n",
        b"device,device_id,start,end\na,a,0,5\n",
        b"device,client,start,end\na,a,0,5\n".replace(b"device,", b"node,", 1),
        b"device,device,start,end\na,a,0,5\n",
        b"device,start,end\na,x,y\n",
        b"device,start,end\n,0,5\n",
        b"\xff\xfed\0e\0v\0",
        b"PAR1 and so on",
        b"PK\x03\x04 and so on",
        b"\x93NUMPY and so on",
        b"\x1f\x8b and so on",
        gzip.compress(b"device,start,end\na,0,5\n" * 50, mtime=0)[:-10],
        b"[1, 2]",
        b"{}\n",
        b'{"device": 1\n',
        b'{"device": [1], "start": {}, "end": null}\n',
        b"BZh91AY",
        bytes(range(256)),
    ],
    ids=[
        "nothing", "empty lines", "only a header", "no header", "something else", "two names", "no name",
        "one name twice", "no times", "no device", "UTF-16", "parquet", "zip", "npy", "not a gzip", "half a gzip",
        "a JSON list", "an empty object", "half an object", "nested objects", "bz2", "all bytes",
    ],
)  # fmt: skip
def test_files_that_cannot_be_read_are_one_line(tmp_path, content):
    path = tmp_path / "log.csv"
    path.write_bytes(content)
    if content.startswith(b"device,device_id"):  # the exact name wins
        assert read(path).devices == ("a",)
        return
    with pytest.raises(FedtideError) as error:
        read(path)
    assert "\n" not in str(error.value)
    assert "log.csv" in str(error.value)


def test_a_compression_that_is_not_supported_is_named(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(b"BZh91AY")
    with pytest.raises(FedtideError, match=r"log.csv: bzip2 is not supported; use CSV or JSON lines"):
        read(path)


def test_folders_and_nothing_are_one_line(tmp_path):
    for source in (tmp_path, tmp_path / "none", 5, None):
        with pytest.raises(FedtideError):
            read(source)


@pytest.mark.parametrize(("offset", "said"), [("+01:00", True), ("-0530", True), ("+00:00", False), ("Z", False)])
def test_offsets_without_a_zone_are_noted(offset, said):
    table = frame(f"2024-06-01T12:00:00{offset}", hour=[f"2024-06-01T13:00:00{offset}"])
    note = f"Times are given at {offset}; days are counted in UTC unless zone is given."
    assert (note in read(table).account.notes) == said
    assert not any("give zone" in note for note in read(table, zone="Asia/Kolkata").account.notes)
    typed = table.with_columns(pl.col("start", "end").str.to_datetime(time_zone="Asia/Kolkata"))
    assert "Times are given in Asia/Kolkata; days are counted in UTC unless zone is given." in read(typed).account.notes


def test_examples_are_dated_where_the_clock_is():
    rows = frame(MOMENT + 0.25, hour=[MOMENT + 60])
    (twin,) = read(pl.concat([rows, rows])).account.issues
    assert twin.examples == ("row 2: d0, 2024-06-01T12:00:00.250+00:00 to 2024-06-01T12:01:00+00:00",)
    (twin,) = read(pl.concat([frame(7), frame(7)])).account.issues
    assert twin.examples == ("row 2: d0, 7 s to 3607 s",)
