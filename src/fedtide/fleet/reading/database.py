"""The ledger of a deployment as a log: SQLite's views of who was there, and when the server looked."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import polars as pl

from fedtide.errors import FedtideError

_MAGIC = b"SQLite format 3\0"
_VIEWS = ("availability_log", "availability_windows")


def is_database(source: Any) -> bool:
    """Whether it is the path of an SQLite database."""
    if not isinstance(source, str | Path):
        return False
    try:
        with Path(source).open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False  # said by who opens it as a log


def read_database(path: str | Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(intervals, windows) of all runs in a ledger, in epoch seconds."""
    found = []
    try:
        with contextlib.closing(sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)) as connection:
            for view in _VIEWS:
                rows = connection.execute(f'select device, start, "end" from {view}').fetchall()
                schema = {"device": pl.String, "start": pl.Float64, "end": pl.Float64}
                found.append(pl.DataFrame(rows, schema=schema, orient="row"))
    except sqlite3.Error as error:
        raise FedtideError(f"{path}: a database, but no readable ledger of a fedtide deployment ({error})") from None
    if not found[0].height:
        raise FedtideError(f"{path}: a ledger in which no client was ever there")
    return found[0], found[1]
