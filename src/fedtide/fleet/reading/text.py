"""Text files in blocks of whole lines, every field as text; lines that cannot be read are reported.

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
UNREADABLE = "lines that are not UTF-8 text"

Fault = tuple[str, int, np.ndarray, list[str]]  # what is wrong, how many lines, the first of their numbers and texts


class Block(NamedTuple):
    """Some rows: their numbers in the file, their fields as a table, and lines that could not be read."""

    numbers: np.ndarray  # [rows] i64
    table: pl.DataFrame
    bad: list[Fault]


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
    schema = {names[p]: pl.String for p in places}
    field = f'(?:"[^"]*"|[^"{separator}]*)'  # without quotes, or within a pair of them
    quoted, text = pl.col("quoted"), pl.col("text")
    for lines, bad in _numbered(blocks, skip):
        lines = lines.with_columns(
            quoted=text.str.contains('"', literal=True),
            fields=text.str.count_matches(separator, literal=True).cast(pl.Int64) + 1,
        )
        bad += _fault("lines with too many fields", lines.filter(~quoted & (pl.col("fields") > len(names))))
        bad += _fault("lines with too few fields", lines.filter(~quoted & (pl.col("fields") < len(names))))
        unquoted = lines.filter(~quoted & (pl.col("fields") == len(names)))
        lines = lines.filter(quoted)
        if lines.height and len(names) <= 1000:  # the pattern would be too long
            plain = lines["text"].str.contains(f"^{field}(?:{separator}{field}){{{len(names) - 1}}}$")
        else:
            plain = pl.repeat(False, lines.height, eager=True)
        fast = pl.concat([unquoted, lines.filter(plain)]).sort("number")
        table = _csv_table(fast["text"], places, names, separator)
        # The rest (doubled quotes, spaces before quotes) is read line by line.
        lines = lines.filter(~plain)
        read = [csv_fields(line, separator) for line in lines["text"]]
        fine = [row is not None and len(row) == len(names) for row in read]
        bad += _fault("lines whose quotes or fields are malformed", lines.filter(~pl.Series(fine, dtype=pl.Boolean)))
        good = [row for row, fits in zip(read, fine, strict=True) if row is not None and fits]
        rest = pl.DataFrame({names[p]: [row[p] or None for row in good] for p in places}, schema=schema)
        numbers = pl.concat([fast["number"], lines["number"].filter(pl.Series(fine, dtype=pl.Boolean))])
        order = numbers.arg_sort()
        yield Block(numbers[order].to_numpy(), pl.concat([table, rest])[order], bad)


def json_blocks(blocks: Iterator[bytes], keep: list[str]) -> Iterator[Block]:
    """These keys of JSON lines, as text; null where a line has no such key."""
    schema = dict.fromkeys(keep, pl.String)
    for lines, bad in _numbered(blocks):
        try:
            table = pl.read_ndjson(io.BytesIO(lines["text"].str.join("\n").item().encode()), schema=schema)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            table = None
        if table is None or table.height != lines.height:  # at least one line is not an object: parse each
            rows = [json_object(line) for line in lines["text"]]
            none = pl.Series([row is None for row in rows], dtype=pl.Boolean)
            bad += _fault("lines that are not a JSON object", lines.filter(none))
            lines = lines.filter(~none)
            table = pl.DataFrame(
                {key: [_text(row.get(key)) for row in rows if row is not None] for key in keep}, schema=schema
            )
        yield Block(lines["number"].to_numpy(), table, bad)


def _newlines(block: bytes) -> bytes:
    return block.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in block else block


def _numbered(blocks: Iterator[bytes], skip: int = 0) -> Iterator[tuple[pl.DataFrame, list[Fault]]]:
    """Number and text of the lines after `skip`, without blank ones; and those that are not text."""
    first = 1
    for block in blocks:
        texts = pl.Series("text", [block.decode("utf-8", "replace")]).str.split("\n").explode().head(-1)
        odd = [] if _is_text(block) else [not _is_text(line) for line in block.split(b"\n")[:-1]]
        lines = pl.DataFrame({"text": texts, "number": np.arange(first, first + len(texts)), "odd": odd or False})
        first += len(texts)
        lines = lines.filter((pl.col("number") > skip) & (pl.col("text").str.strip_chars(" \t") != ""))
        yield lines.filter(~pl.col("odd")), _fault(UNREADABLE, lines.filter("odd"))


def _fault(kind: str, lines: pl.DataFrame) -> list[Fault]:
    few = lines.head(3)
    return [(kind, lines.height, few["number"].to_numpy(), few["text"].to_list())] if lines.height else []


def _is_text(block: bytes) -> bool:
    if b"\0" in block:
        return False
    try:
        return block.isascii() or block.decode() is not None
    except UnicodeDecodeError:
        return False


def _csv_table(lines: pl.Series, places: list[int], names: list[str], separator: str) -> pl.DataFrame:
    wanted = [names[p] for p in places]
    if not len(lines):
        return pl.DataFrame(schema=dict.fromkeys(wanted, pl.String))
    # Versions of polars differ in the names of columns without a header.
    header = separator.join(f"f{i}" for i in range(len(names)))
    text = io.BytesIO((header + "\n" + lines.str.join("\n").item()).encode())
    read = pl.read_csv(text, columns=[f"f{p}" for p in places], separator=separator, infer_schema_length=0)
    read.columns = wanted
    return read


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
