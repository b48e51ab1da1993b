"""Sources of logs: files, frames, matrices. Their format is detected from content, not from names."""

import contextlib
import gzip
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
import polars as pl

from fedtide.errors import FedtideError, InvalidInput
from fedtide.fleet.reading.text import BLOCK, Block, blocks_of_lines, csv_blocks, csv_fields, json_blocks, json_object

_ROWS = 500_000  # of a typed table at a time
_POLARS = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
_HEAD_ROWS = 5000
_HEAD = 2**18  # bytes from which the format is detected
_MAGIC = {
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}
_ENTRIES = {"", "0", "1", "-1", "0.0", "1.0", "-1.0", "true", "false", "nan"}  # of a matrix without a header
_SQLITE = b"SQLite format 3\0"
_VIEWS = ("availability_log", "availability_windows")  # of the ledger of a deployment


class SourceTable(NamedTuple):
    """A table that is read block by block. `word` is the unit of row numbers."""

    name: str
    columns: list[str]
    head: pl.DataFrame  # the first rows, all columns
    blocks: Callable[[list[str]], Iterator[Block]]  # of these columns
    word: str  # "line" or "row"
    headless: bool = False  # no header: the columns are called 0, 1, …


class Matrices(NamedTuple):
    """NumPy arrays of a file."""

    name: str
    arrays: dict[str, np.ndarray]


def open_source(source: Any, what: str = "source") -> SourceTable | Matrices:
    """The table or the arrays of a path or a frame."""
    if isinstance(source, pl.LazyFrame):
        try:
            source = source.collect()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise FedtideError(f"{what}: the frame cannot be collected: {_line(error)}") from None
    if isinstance(source, pl.DataFrame):
        return _typed("the frame", source.lazy())
    if isinstance(source, np.ndarray):
        return Matrices("the array", {"state": source})
    if not isinstance(source, str | Path):
        raise InvalidInput(what, source, "a path, a polars frame or a NumPy array")
    path = Path(source)
    try:
        return _open_file(path)
    except FedtideError:
        raise
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, *_POLARS) as error:
        raise FedtideError(f"{path}: {_line(error)}") from None


def is_database(source: Any) -> bool:
    """Whether it is the path of an SQLite database."""
    if not isinstance(source, str | Path):
        return False
    try:
        with Path(source).open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False  # reported where it is opened as a log


def read_database(path: str | Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(intervals, windows) of all runs in a ledger, in epoch seconds."""
    tables = []
    try:
        with contextlib.closing(sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)) as connection:
            for view in _VIEWS:
                rows = connection.execute(f'select device, start, "end" from {view}').fetchall()
                schema = {"device": pl.String, "start": pl.Float64, "end": pl.Float64}
                tables.append(pl.DataFrame(rows, schema=schema, orient="row"))
    except sqlite3.Error as error:
        raise FedtideError(f"{path}: a database, but no readable ledger of a fedtide deployment ({error})") from None
    if not tables[0].height:
        raise FedtideError(f"{path}: a ledger in which no client was ever available")
    return tables[0], tables[1]


def _open_file(path: Path) -> SourceTable | Matrices:
    if path.is_dir():
        raise FedtideError(f"{path}: a folder; give one file")
    with path.open("rb") as file:
        head = file.read(8)
    if not head:
        raise FedtideError(f"{path}: empty")
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            allowed = "CSV or JSON lines as UTF-8 (gz or not), or Parquet"
            raise FedtideError(f"{path}: {kind} is not supported; use {allowed}")
    if head.startswith(b"PAR1"):
        return _typed(path.name, pl.scan_parquet(path))
    if head.startswith(b"\x93NUMPY"):
        return Matrices(path.name, {"state": np.load(path, allow_pickle=False)})
    if head.startswith(b"PK"):
        with np.load(path, allow_pickle=False) as stored:
            return Matrices(path.name, {name: stored[name] for name in stored.files})
    if head.startswith(b"\x1f\x8b"):
        return _text(path, lambda: cast(IO[bytes], gzip.open(path, "rb")))
    return _text(path, lambda: path.open("rb"))


def _typed(name: str, frame: pl.LazyFrame) -> SourceTable:
    """A table whose columns have types. Lazy, so that only one block of a Parquet file is in memory."""
    columns, rows = frame.collect_schema().names(), frame.select(pl.len()).collect().item()
    if not rows or not columns:
        raise FedtideError(f"{name}: a table without rows")

    def blocks(keep: list[str]) -> Iterator[Block]:
        for at in range(0, rows, _ROWS):
            table = frame.select(keep).slice(at, _ROWS).collect()
            yield Block(1 + at + np.arange(table.height), table, [])

    return SourceTable(name, columns, frame.head(_HEAD_ROWS).collect(), blocks, "row")


def _text(path: Path, open_file: Callable[[], IO[bytes]]) -> SourceTable:
    begin = next(blocks_of_lines(open_file, _HEAD), b"")
    if begin[:4] == b"PAR1":
        raise FedtideError(f"{path}: Parquet inside of gz; unpack it first")
    lines = begin.decode("utf-8", "replace").split("\n")
    place = next((i for i, line in enumerate(lines) if line.strip()), None)
    if place is None:
        raise FedtideError(f"{path}: empty")
    first = lines[place].strip()
    if first.startswith("["):
        raise FedtideError(f"{path}: a JSON array; use JSON lines, with one object per line")
    if first.startswith("{"):
        return _json(path, open_file, begin)
    separator = max(",;\t", key=lines[place].count)
    fields = csv_fields(lines[place], separator)
    if fields is None or "\0" in lines[place]:
        raise FedtideError(f"{path}: the first line is not a header: {first[:60]!r}")
    headless = all(field.strip().lower() in _ENTRIES for field in fields)
    names = [str(i) for i in range(len(fields))] if headless else [field.strip() for field in fields]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(names) < 1000 else []
    if twice or len(set(names)) < len(names):
        raise FedtideError(f"{path}: several columns are called {', '.join(map(repr, twice[:3])) or 'the same'}")
    skip = place + (not headless)

    def blocks(keep: list[str], size: int = BLOCK) -> Iterator[Block]:
        return csv_blocks(blocks_of_lines(open_file, size), names, keep, separator, skip)

    return SourceTable(path.name, names, _head(blocks(names, _HEAD), names), blocks, "line", headless)


def _json(path: Path, open_file: Callable[[], IO[bytes]], begin: bytes) -> SourceTable:
    keys: dict[str, None] = {}
    for line in begin.decode("utf-8", "replace").split("\n")[:1000]:
        keys.update(dict.fromkeys(json_object(line) or {}))
    if not keys:
        raise FedtideError(f"{path}: no line holds a JSON object with keys")

    def blocks(keep: list[str], size: int = BLOCK) -> Iterator[Block]:
        return json_blocks(blocks_of_lines(open_file, size), keep)

    return SourceTable(path.name, list(keys), _head(blocks(list(keys), _HEAD), list(keys)), blocks, "line")


def _head(blocks: Iterator[Block], names: list[str]) -> pl.DataFrame:
    """The first rows, at most some thousands."""
    head = pl.DataFrame(schema=dict.fromkeys(names, pl.String))
    for block in blocks:
        head.extend(block.table)
        if head.height >= _HEAD_ROWS:
            break
    return head


def _line(error: BaseException) -> str:
    words = " ".join(str(getattr(error, "strerror", None) or error).split())
    return words[:200] or type(error).__name__
