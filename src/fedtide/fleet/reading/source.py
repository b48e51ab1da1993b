"""What a log is kept in: tables in files, frames, matrices. Told by content, not by name."""

import gzip
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
_HEAD = 2**18  # bytes that are looked at first
_MAGIC = {
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}


class Table(NamedTuple):
    """A table that is read block by block. `word` is what its rows are numbered by."""

    name: str
    columns: list[str]
    head: pl.DataFrame  # the first rows, all columns
    blocks: Callable[[list[str]], Iterator[Block]]  # of these columns
    word: str  # "line" or "row"
    headless: bool = False  # no header: the columns are called 0, 1, …


class Arrays(NamedTuple):
    """NumPy arrays of a file."""

    name: str
    arrays: dict[str, np.ndarray]


def open_source(source: Any, what: str = "source") -> Table | Arrays:
    """The table or the arrays of a path or a frame."""
    if isinstance(source, pl.LazyFrame):
        try:
            source = source.collect()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise FedtideError(f"{what}: the frame cannot be collected: {_line(error)}") from None
    if isinstance(source, pl.DataFrame):
        return _typed("the frame", source.columns, source.height, lambda keep, at: source.select(keep).slice(at, _ROWS))
    if isinstance(source, np.ndarray):
        return Arrays("the array", {"state": source})
    if not isinstance(source, str | Path):
        raise InvalidInput(what, source, "a path, a polars frame or a NumPy array")
    path = Path(source)
    try:
        return _open_file(path)
    except FedtideError:
        raise
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, *_POLARS) as error:
        raise FedtideError(f"{path}: {_line(error)}") from None


def _open_file(path: Path) -> Table | Arrays:
    if path.is_dir():
        raise FedtideError(f"{path}: a folder; give one file")
    with path.open("rb") as file:
        head = file.read(8)
    if not head:
        raise FedtideError(f"{path}: empty")
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            raise FedtideError(
                f"{path}: {kind}, which is not read here; CSV or JSON lines as UTF-8 (gz or not), or Parquet"
            )
    if head.startswith(b"PAR1"):
        return _parquet(path)
    if head.startswith(b"\x93NUMPY"):
        return Arrays(path.name, {"state": np.load(path, allow_pickle=False)})
    if head.startswith(b"PK"):
        with np.load(path, allow_pickle=False) as stored:
            return Arrays(path.name, {name: stored[name] for name in stored.files})
    if head.startswith(b"\x1f\x8b"):
        return _text(path, lambda: cast(IO[bytes], gzip.open(path, "rb")))
    return _text(path, lambda: path.open("rb"))


def _parquet(path: Path) -> Table:
    scan = pl.scan_parquet(path)
    columns = list(scan.collect_schema())
    rows = scan.select(pl.len()).collect().item()
    return _typed(path.name, columns, rows, lambda keep, at: scan.select(keep).slice(at, _ROWS).collect())


def _typed(name: str, columns: list[str], rows: int, read: Callable[[list[str], int], pl.DataFrame]) -> Table:
    def blocks(keep: list[str]) -> Iterator[Block]:
        for at in range(0, rows, _ROWS):
            table = read(keep, at)
            yield Block(1 + at + np.arange(table.height), table, [])

    if not rows or not columns:
        raise FedtideError(f"{name}: a table without rows")
    return Table(name, columns, read(columns, 0).head(_HEAD_ROWS), blocks, "row")


def _text(path: Path, open_file: Callable[[], IO[bytes]]) -> Table:
    begin = next(blocks_of_lines(open_file, _HEAD), b"")
    if begin[:4] == b"PAR1":
        raise FedtideError(f"{path}: Parquet inside of gz; unpack it first")
    lines = begin.decode("utf-8", "replace").split("\n")
    place = next((i for i, line in enumerate(lines) if line.strip()), None)
    if place is None:
        raise FedtideError(f"{path}: empty")
    first = lines[place].strip()
    if first.startswith("["):
        raise FedtideError(f"{path}: a JSON array; JSON lines are needed, one object a line")
    if first.startswith("{"):
        return _json(path, open_file, begin)
    separator = max(",;\t", key=lines[place].count)
    fields = csv_fields(lines[place], separator)
    if fields is None or "\0" in lines[place]:
        raise FedtideError(f"{path}: the first line is no header: {first[:60]!r}")
    headless = all(_is_entry(field) for field in fields)
    names = [str(i) for i in range(len(fields))] if headless else [field.strip() for field in fields]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(names) < 1000 else []
    if twice or len(set(names)) < len(names):
        raise FedtideError(f"{path}: several columns are called {', '.join(map(repr, twice[:3])) or 'the same'}")
    skip = place + (not headless)

    def blocks(keep: list[str], size: int = BLOCK) -> Iterator[Block]:
        return csv_blocks(blocks_of_lines(open_file, size), names, keep, separator, skip)

    return Table(path.name, names, _head(blocks(names, _HEAD), names), blocks, "line", headless)


def _json(path: Path, open_file: Callable[[], IO[bytes]], begin: bytes) -> Table:
    keys: dict[str, None] = {}
    for line in begin.decode("utf-8", "replace").split("\n")[:1000]:
        keys.update(dict.fromkeys(json_object(line) or {}))
    if not keys:
        raise FedtideError(f"{path}: no line holds a JSON object with keys")

    def blocks(keep: list[str], size: int = BLOCK) -> Iterator[Block]:
        return json_blocks(blocks_of_lines(open_file, size), keep)

    return Table(path.name, list(keys), _head(blocks(list(keys), _HEAD), list(keys)), blocks, "line")


def _head(blocks: Iterator[Block], names: list[str]) -> pl.DataFrame:
    """The first rows, some thousands where there are so many."""
    parts, rows = [pl.DataFrame(schema=dict.fromkeys(names, pl.String))], 0
    for block in blocks:
        parts.append(block.table)
        rows += block.table.height
        if rows >= _HEAD_ROWS:
            break
    return pl.concat(parts)


def _is_entry(field: str) -> bool:
    return field.strip().lower() in {"", "0", "1", "-1", "0.0", "1.0", "-1.0", "true", "false", "nan"}


def _line(error: BaseException) -> str:
    words = " ".join(str(getattr(error, "strerror", None) or error).split())
    return words[:200] or type(error).__name__
