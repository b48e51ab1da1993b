"""Text files in blocks of whole lines, every field as text: what cannot be read is named, never lost.

A line is a row: a field cannot hold a line break. Blank lines are no rows. Line numbers count from 1.
"""

import csv
import io
import json
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

import numpy as np
import polars as pl

BLOCK = 2**24  # bytes
_NEWLINE, _QUOTE = 10, 34
UNREADABLE = "lines that are not UTF-8 text"


class Block(NamedTuple):
    """Some rows: their numbers in the file, their fields as a table, and lines that could not be read."""

    numbers: np.ndarray  # [rows] i64
    table: pl.DataFrame
    bad: list[tuple[str, int, np.ndarray, list[str]]]  # what is wrong, how many, the first line numbers, the lines


class _Lines(NamedTuple):
    data: np.ndarray  # u8, ends with a newline
    starts: np.ndarray
    ends: np.ndarray  # of the newlines
    numbers: np.ndarray
    bad: np.ndarray  # bool: neither UTF-8 nor free of NULs
    blank: np.ndarray

    def text(self, i: int | np.integer) -> str:
        return self.data[self.starts[i] : self.ends[i]].tobytes().decode("utf-8", "replace")

    def only(self, mask: np.ndarray) -> bytes:
        """The bytes of these lines."""
        if mask.all():
            return self.data.tobytes()
        return self.data[np.repeat(mask, self.ends + 1 - self.starts)].tobytes()

    def occurs(self, byte: int) -> np.ndarray:
        """How often a byte occurs in each line."""
        places = np.flatnonzero(self.data == byte)
        return np.diff(np.searchsorted(places, self.ends), prepend=0)

    def fault(self, kind: str, mask: np.ndarray) -> list[tuple[str, int, np.ndarray, list[str]]]:
        where = np.flatnonzero(mask)
        if not len(where):
            return []
        return [(kind, len(where), self.numbers[where[:3]], [self.text(i) for i in where[:3]])]


def blocks_of_lines(open_file: Callable[[], IO[bytes]], size: int = BLOCK) -> Iterator[bytes]:
    """Blocks that end with a line's end; all line ends become newlines, a byte order mark is dropped."""
    with open_file() as file:
        rest, mark = b"", b"\xef\xbb\xbf"
        while read := file.read(size):
            block = rest + read
            if mark and len(block) >= len(mark):
                block, mark = block.removeprefix(mark), b""
            cut = block.rfind(b"\n") + 1 or block.rfind(b"\r", 0, -1) + 1
            rest = block[cut:]
            if cut:
                yield _newlines(block[:cut])
        if rest:
            yield _newlines(rest) + b"\n"


def csv_blocks(
    blocks: Iterator[bytes], names: list[str], keep: list[str], separator: str, skip: int
) -> Iterator[Block]:
    """The columns `keep` of a CSV file with these column names, after `skip` lines."""
    places = [i for i, name in enumerate(names) if name in keep]
    for lines in _numbered(blocks):
        rest = ~lines.blank & (lines.numbers > skip)
        bad = lines.fault(UNREADABLE, rest & lines.bad)
        rest &= ~lines.bad
        quoted = rest & (lines.occurs(_QUOTE) > 0) if _QUOTE in lines.data else np.zeros_like(rest)
        fields = lines.occurs(ord(separator)) + 1
        bad += lines.fault("lines with too many fields", rest & ~quoted & (fields > len(names)))
        bad += lines.fault("lines with too few fields", rest & ~quoted & (fields < len(names)))
        rest &= quoted | (fields == len(names))
        odd = np.flatnonzero(quoted)[~_well_quoted(lines.only(quoted), separator, len(names))]
        rest[odd] = False
        table = _csv_table(lines.only(rest), places, names, separator, bool(quoted.any()))
        if table.height != rest.sum():  # not seen to happen; the slow way cannot lose a line
            odd, table = np.flatnonzero(rest | np.isin(np.arange(len(rest)), odd)), table.clear()
            rest[:] = False
        read = [(i, csv_fields(lines.text(i), separator)) for i in odd]
        good = [(i, row) for i, row in read if row is not None and len(row) == len(names)]
        wrong = np.zeros_like(rest)
        wrong[[i for i, row in read if row is None or len(row) != len(names)]] = True
        bad += lines.fault("lines whose quotes or fields do not fit", wrong)
        numbers = lines.numbers[rest]
        if good:
            more = {names[p]: [row[p] or None for _, row in good] for p in places}
            table = pl.concat([table, pl.DataFrame(more, schema=table.schema)])
            numbers = np.concatenate([numbers, lines.numbers[[i for i, _ in good]]])
            order = np.argsort(numbers, kind="stable")
            numbers, table = numbers[order], table[order]
        yield Block(numbers, table, bad)


def json_blocks(blocks: Iterator[bytes], keep: list[str]) -> Iterator[Block]:
    """These keys of JSON lines, as text; null where a line has no such key."""
    schema = dict.fromkeys(keep, pl.String)
    for lines in _numbered(blocks):
        rest = ~lines.blank & ~lines.bad
        bad = lines.fault(UNREADABLE, ~lines.blank & lines.bad)
        try:
            table = (
                pl.read_ndjson(io.BytesIO(lines.only(rest)), schema=schema)
                if rest.any()
                else pl.DataFrame(schema=schema)
            )
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            table = None
        if table is None or table.height != rest.sum():  # one line that is no object: look at each
            read = {i: json_object(lines.text(i)) for i in np.flatnonzero(rest)}
            wrong = np.zeros_like(rest)
            wrong[[i for i, row in read.items() if row is None]] = True
            bad += lines.fault("lines that are no JSON object", wrong)
            rest &= ~wrong
            rows = [row for row in read.values() if row is not None]
            table = pl.DataFrame({key: [_text(row.get(key)) for row in rows] for key in keep}, schema=schema)
        yield Block(lines.numbers[rest], table, bad)


def _newlines(block: bytes) -> bytes:
    return block.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in block else block


def _numbered(blocks: Iterator[bytes]) -> Iterator[_Lines]:
    first = 1
    for block in blocks:
        data = np.frombuffer(block, np.uint8)
        ends = np.flatnonzero(data == _NEWLINE)
        starts = np.concatenate([[0], ends[:-1] + 1])
        bad, blank = np.zeros(len(ends), bool), starts == ends
        lines = _Lines(data, starts, ends, first + np.arange(len(ends)), bad, blank)
        if not _is_text(block):
            odd = lines.occurs(0) > 0
            high = np.diff(np.searchsorted(np.flatnonzero(data >= 128), ends), prepend=0) > 0
            bad[:] = [o or (h and not _is_text(block[s:e])) for o, h, s, e in zip(odd, high, starts, ends, strict=True)]
        if b" " in block[:1] or b"\n " in block or b"\n\t" in block:  # lines of spaces only are blank too
            spaces = lines.occurs(32) + lines.occurs(9)
            blank |= spaces == ends - starts
        first += len(ends)
        yield lines


def _is_text(block: bytes) -> bool:
    if b"\0" in block:
        return False
    try:
        return block.isascii() or block.decode() is not None
    except UnicodeDecodeError:
        return False


def _csv_table(data: bytes, places: list[int], names: list[str], separator: str, quoted: bool) -> pl.DataFrame:
    wanted = [names[p] for p in places]
    if not data:
        return pl.DataFrame(schema=dict.fromkeys(wanted, pl.String))
    # A header of our own: versions of polars differ in the names they give to columns without one.
    header = separator.join(f"f{i}" for i in range(len(names))).encode()
    read = pl.read_csv(
        io.BytesIO(header + b"\n" + data),
        columns=[f"f{p}" for p in places],
        separator=separator,
        quote_char='"' if quoted else None,
        infer_schema_length=0,
    )
    read.columns = wanted
    return read


def _well_quoted(data: bytes, separator: str, fields: int) -> np.ndarray:
    """[lines] whether each is so many fields, each free of quotes or in a plain pair of them."""
    lines = data.decode().split("\n")[:-1]
    field = f'(?:"[^"]*"|[^"{separator}]*)'
    if not lines or fields > 1000:  # the pattern would be too long
        return np.zeros(len(lines), bool)
    return pl.Series(lines, dtype=pl.String).str.contains(f"^{field}(?:{separator}{field}){{{fields - 1}}}$").to_numpy()


def csv_fields(line: str, separator: str) -> list[str] | None:
    """The fields of one line; None where its quotes do not fit."""
    try:
        return next(csv.reader([line], delimiter=separator, strict=True), [])
    except csv.Error:
        return None


def json_object(line: str) -> dict[str, object] | None:
    """The object that one line holds; None where it holds none."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _text(value: object) -> str | None:
    if value is None:
        return None
    return value if isinstance(value, str) else json.dumps(value)
