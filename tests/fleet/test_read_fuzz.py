"""No bytes and no table crash the reader, and no row is lost without being counted."""

import io
import random

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtide.errors import FedtideError
from fedtide.fleet import Log, discretise, read

FILE = "device,start,end\n" + "".join(f"d{i % 4},{i * 100},{i * 100 + 70}\n" for i in range(12))
EVENTS = "device,time,state\n" + "".join(f"d{i % 4},{i * 100},{['on', 'off'][i // 4 % 2]}\n" for i in range(12))
LINES = "".join(f'{{"device": "d{i % 4}", "start": {i * 100}, "end": {i * 100 + 70}}}\n' for i in range(12))
MATRIX = "time,a,b\n" + "".join(f"{600 * i},{i % 2},{-(i % 3 == 0)}\n" for i in range(8))
MANY = settings(max_examples=40)


def check(log: Log) -> None:
    """What holds for every log that is read."""
    account = log.account
    left_out = sum(issue.count for issue in account.issues if issue.done == "left out")
    assert account.rows == account.used + left_out
    assert all(issue.count > 0 and len(issue.examples) <= 3 for issue in account.issues)
    assert len(set(log.devices)) == len(log.devices)
    for table in (log.intervals, log.windows):
        assert table.schema == {"device": pl.UInt32, "start": pl.Int64, "end": pl.Int64}
        device, start, end = (table[name].to_numpy().astype(np.int64) for name in table.columns)
        assert (end > start).all()
        assert (device < len(log.devices)).all()
        same = device[1:] == device[:-1]
        assert ((device[1:] > device[:-1]) | (same & (start[1:] > end[:-1]))).all()
    inside = log.intervals.join(log.windows, on="device", suffix="_w")
    within = inside.filter((pl.col("start") >= pl.col("start_w")) & (pl.col("end") <= pl.col("end_w")))
    assert within.height == log.intervals.height


def attempt(source, **arguments) -> Log | None:
    said = ""
    try:
        log = read(source, **arguments)
        check(log)
    except FedtideError as error:
        log, said = None, str(error)
    assert "\n" not in said
    return log


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "log"


@MANY
@given(st.one_of(st.binary(max_size=200), st.text(max_size=100).map(lambda text: text.encode("utf-8", "replace"))))
def test_any_bytes(path, content):
    path.write_bytes(content)
    attempt(path, gap=10, round_seconds=60)


def packed_parquet() -> bytes:
    buffer = io.BytesIO()
    pl.read_csv(io.StringIO(FILE)).write_parquet(buffer)
    return buffer.getvalue()


def test_files_with_damaged_bytes(path):
    read = 0

    @MANY
    @given(
        st.sampled_from([FILE.encode(), EVENTS.encode(), LINES.encode(), MATRIX.encode(), packed_parquet()]),
        st.integers(0, 10**9),
    )
    def each(content, seed):
        nonlocal read
        rng, data = random.Random(seed), bytearray(content)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(data))
            piece = bytes(rng.choice([rng.randrange(256), *b',;"\n\r\0-9e.{}\xff']) for _ in range(rng.randint(0, 3)))
            data[place : place + rng.randint(0, 3)] = piece
        path.write_bytes(bytes(data))
        read += attempt(path, gap=10, round_seconds=60) is not None

    each()
    assert read >= 10  # of 40


CELLS = [
    "a",
    "b",
    "c",
    " a",
    "",
    None,
    "null",
    "é",
    "0",
    "1",
    "5",
    "7.5",
    "-3",
    "nan",
    "inf",
    "1e400",
    "99999999999",
    "x",
]
CELLS += ["on", "off", "maybe", "2024-01-01", "2024-01-01T05:00Z", "12:00", '"', ",", "\n", "true"]
ROWS = st.lists(st.tuples(*[st.sampled_from(CELLS)] * 3), min_size=1, max_size=12)
GOOD = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 50).map(str), st.integers(0, 60).map(str)), min_size=1, max_size=12
)


def test_any_table(path):
    read = 0

    @MANY
    @given(
        st.sampled_from(["start,end", "time,state", "time,other"]),
        ROWS,
        GOOD,
        st.booleans(),
        st.sampled_from(["whole", "own"]),
    )
    def each(columns, odd, good, windows, observed):
        nonlocal read
        names = ["device", *columns.split(",")]
        rows = [row for pair in zip(good, odd, strict=False) for row in pair] + good
        frame = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")
        given = {"device": ["a", "b", "b", "d"], "start": [0, 5, 20, 0], "end": [30, 15, 40, 60]}
        arguments = {"gap": 4, "observed": observed, "windows": pl.DataFrame(given) if windows else None}
        log = attempt(frame, **arguments)
        if log is None:
            return
        read += 1
        assert log.account.rows == len(rows)
        written = [[f'"{"" if v is None else v}"'.replace('"""', '""""') for v in row] for row in rows]
        if not any("\n" in (v or "") for row in rows for v in row):  # the same rows, as a file
            path.write_text("\n".join([",".join(names), *(",".join(row) for row in written)]))
            again = attempt(path, **arguments)
            assert again is not None
            assert again.account.rows == len(rows)
            assert again.intervals.equals(log.intervals)

    each()
    assert read >= 10  # of 40


def test_the_order_of_rows_does_not_matter():
    read = 0

    @MANY
    @given(GOOD, st.randoms(use_true_random=False))
    def each(rows, rng):
        nonlocal read
        log = attempt(pl.DataFrame(rows, schema=["device", "start", "end"], orient="row"))
        mixed = list(rows)
        rng.shuffle(mixed)
        other = attempt(pl.DataFrame(mixed, schema=["device", "start", "end"], orient="row"))
        assert (log is None) == (other is None)
        if log is not None and other is not None:
            read += 1
            assert log.devices == other.devices
            assert log.intervals.equals(other.intervals)
            assert log.account.used == other.account.used

    each()
    assert read >= 20  # of 40


def test_every_moment_is_covered_that_a_row_covers():
    """Against the plain definition, second by second."""
    read = 0

    @MANY
    @given(GOOD)
    def each(rows):
        nonlocal read
        log = attempt(pl.DataFrame(rows, schema=["device", "start", "end"], orient="row"))
        if log is None or log.windows["end"].max() - log.windows["start"].min() < 2000:
            return
        read += 1
        slots = discretise(log, 1)
        for column, name in enumerate(slots.devices):
            spans = [(int(start), int(end)) for device, start, end in rows if device == name]
            for row in range(slots.rounds):
                moment = slots.start + row
                assert slots.state[row, column] == any(start <= moment < end for start, end in spans)

    each()
    assert read >= 20  # of 40
