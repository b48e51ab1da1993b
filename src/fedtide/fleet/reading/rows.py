"""The rows of a table as numbers: codes of devices, milliseconds, states. Block by block: memory stays small."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import polars as pl

from fedtide.errors import InvalidInput, spelled
from fedtide.fleet.reading.source import SourceTable
from fedtide.fleet.reading.tally import LEFT_OUT, Tally
from fedtide.fleet.reading.text import Block
from fedtide.fleet.reading.times import EARLIEST, FINE, MISSING, NEVER_WAS, NOT_A_TIME, UNREADABLE, LogClock, moments

_ON = "1 1.0 true t yes y on up online connected connect available here present active alive start started open in "
_ON += "join joined"
_OFF = "0 0.0 false f no n off down offline disconnected disconnect unavailable away absent inactive dead stop stopped "
_OFF += "closed out leave left gone idle"
_NOBODY = ("", "null", "none", "nan", "na", "n/a")
_SAMPLE = 2_000_000  # times that are sampled to find outliers
OPEN = 2**62  # the end of a row that has none
TURNED = "rows that end before they start"


class Names:
    """Devices by number, in the order of their first appearance."""

    def __init__(self):
        self.codes: dict[str, int] = {}
        self.others: set[str] = set()  # of rows excluded by `where`
        self._written = pl.Series([], dtype=pl.String)  # each spelling so far, with its spaces
        self._code = pl.Series([], dtype=pl.Int64)  # −1 for no device

    def encode(self, column: pl.Series) -> tuple[np.ndarray, np.ndarray]:
        """Codes, and which rows have no device (code 0)."""
        texts = (column if column.dtype == pl.String else column.cast(pl.String)).fill_null("")
        numbers = self._look_up(texts)
        if numbers.null_count():
            new = texts.filter(numbers.is_null()).unique(maintain_order=True)
            codes = []
            for name in map(str.strip, new.to_list()):
                codes.append(-1 if name.lower() in _NOBODY else self.codes.setdefault(name, len(self.codes)))
            self._written = pl.concat([self._written, new])
            self._code = pl.concat([self._code, pl.Series(codes, dtype=pl.Int64)])
            numbers = self._look_up(texts)
        found = numbers.to_numpy()
        return np.maximum(found, 0).astype(np.uint32), found < 0

    def meet(self, column: pl.Series) -> None:
        """Devices of rows excluded by `where`."""
        texts = column.unique().cast(pl.String).drop_nulls().to_list()
        self.others.update(name for name in map(str.strip, texts) if name.lower() not in _NOBODY)

    def _look_up(self, texts: pl.Series) -> pl.Series:
        return texts.replace_strict(self._written, self._code, default=None, return_dtype=pl.Int64)


class Rows(NamedTuple):
    """Usable rows, in the order of the file. Columns that the form does not have are empty."""

    number: np.ndarray  # i64, of the line or row
    device: np.ndarray  # u32
    start: np.ndarray  # i64 milliseconds; the time of events and heartbeats
    end: np.ndarray
    state: np.ndarray  # bool

    def only(self, mask: np.ndarray) -> "Rows":
        return Rows(*(column[mask] if len(column) else column for column in self))

    def shown(self, tally: Tally) -> Callable[[int], str]:
        """Describes the row at a position: its number, its device once devices have names, its times."""

        def show(i: int) -> str:
            device = f"{tally.devices[self.device[i]][:40]}, " if tally.devices else ""
            times = (tally.moment(int(column[i])) for column in (self.start, self.end) if len(column))
            return f"{self.number[i]}: {device}{' to '.join(times)}"

        return show


def state_words(on: Iterable[str], off: Iterable[str]) -> dict[str, int]:
    """Each known word of a state, 1 or 0; the caller's take precedence."""
    words = {**dict.fromkeys(_ON.split(), 1), **dict.fromkeys(_OFF.split(), 0)}
    own_on, own_off = ({str(word).strip().lower() for word in given} for given in (on, off))
    if both := own_on & own_off:
        raise InvalidInput("on", ", ".join(sorted(both)), f"words that are not also in {spelled('off')}")
    return {**words, **dict.fromkeys(own_on, 1), **dict.fromkeys(own_off, 0)}


class RowFormat(NamedTuple):
    """What the columns of a table mean."""

    columns: Mapping[str, str]  # of the table, by our names
    clock: LogClock
    where: Mapping[str, str] = MappingProxyType({})  # values of the rows that belong to the log, by column
    states: Mapping[str, int] = MappingProxyType({})  # 1 or 0 for each word


def read_rows(table: SourceTable, form: RowFormat, names: Names, tally: Tally) -> Rows:
    """All rows that can be used; the others are in the tally."""
    keep = list(dict.fromkeys([*form.columns.values(), *form.where]))
    parts: list[Rows] = []
    for block in table.blocks(keep):
        count_lines(block, tally, _short)
        if block.table.height:
            parts.append(_usable(block, form, names, tally))
    if not parts:
        tally.fail("a table without rows") if not tally.rows else tally.nothing_left()
    return Rows(*map(np.concatenate, zip(*parts, strict=True)))  # column by column, so that only one is in memory twice


def count_lines(block: Block, tally: Tally, short: Callable[[str], str]) -> None:
    """Counts the rows of a block and the lines that could not be read."""
    tally.rows += block.table.height
    for kind, count, numbers, lines in block.bad:
        tally.rows += count
        examples = (f"{tally.word} {n}: {short(line)}" for n, line in zip(numbers, lines, strict=True))
        tally.add(kind, count, LEFT_OUT, examples)


def without_far(rows: Rows, dated: bool, tally: Tally) -> Rows:
    """Leaves out times that cannot belong to this log, such as clock jumps.

    Far is what lies further from the median than 10 times the span of the middle 98 % of times (at least a day; of
    few rows, of all but the first and the last), and in a log with dates what lies before March 1973. An interval that
    reaches into the log from far away is cut to the log.
    """
    times = [rows.start, rows.end] if len(rows.end) else [rows.start]
    step = max(1, sum(map(len, times)) // _SAMPLE)
    sample = np.sort(np.concatenate([t[::step] for t in times]))
    sample = sample[sample < OPEN]
    if dated and len(sample) and sample[len(sample) // 2] >= EARLIEST:
        sample = sample[sample >= EARLIEST]
    if len(sample) < 5 * len(times):
        return rows
    trim = max(len(times), len(sample) // 100)
    span = max(int(sample[-1 - trim] - sample[trim]), 86_400_000)
    middle = int(sample[len(sample) // 2])
    low, high = middle - 10 * span, middle + 10 * span
    if dated and middle >= EARLIEST:
        low = max(low, EARLIEST)
    far = [(t < low) | ((t > high) & (t < OPEN)) for t in times]
    if not np.any(far):
        return rows
    near = [t[~out & (t < OPEN)] for t, out in zip(times, far, strict=True)]
    first, last = min(int(t.min(initial=middle)) for t in near), max(int(t.max(initial=middle)) for t in near)
    far = np.any(far, axis=0)
    if len(rows.end):
        start, end = np.maximum(rows.start, first), np.minimum(rows.end, last)
        reset = dated & (rows.start < EARLIEST) & (middle >= EARLIEST)  # a clock that was not yet set, not a long stay
        long = far & (start < end) & ~reset
        tally.mark("rows that extend far beyond the log's other times", long, "cut to the log", rows.shown(tally))
        start, end = np.where(long, start, rows.start), np.where(long & (rows.end < OPEN), end, rows.end)
        rows, far = rows._replace(start=start, end=end), far & ~long
    tally.mark("rows with times far from all others (a clock jump)", far, LEFT_OUT, rows.shown(tally))
    return rows.only(~far)


def _usable(block: Block, form: RowFormat, names: Names, tally: Tally) -> Rows:
    (chosen, clock, where, states), table = form, block.table
    rest = np.ones(table.height, bool)

    def leave(kind: str, mask: np.ndarray) -> None:
        """Each row is left out for the first reason that holds."""
        tally.mark(kind, rest & mask, LEFT_OUT, lambda i: _shown(block, i))
        np.logical_and(rest, ~mask, out=rest)

    for name, value in where.items():
        same = (table[name].cast(pl.String).str.strip_chars() == value).fill_null(False)
        leave("rows excluded by where", ~same.to_numpy())
    if where and not rest.all():  # devices with excluded rows only are not part of this log
        names.meet(table[chosen["device"]].filter(pl.Series(~rest)))
        codes, nobody = np.zeros(table.height, np.uint32), np.zeros(table.height, bool)
        codes[rest], nobody[rest] = names.encode(table[chosen["device"]].filter(pl.Series(rest)))
    else:
        codes, nobody = names.encode(table[chosen["device"]])
    leave("rows without a device", nobody)
    times = [moments(table[chosen[name]], clock) for name in ("start", "end", "time") if name in chosen]
    if "end" in chosen:  # still available: closed once the end of the log is known
        open_end = (times[0][1] == FINE) & (times[1][1] == MISSING)
        times[1] = np.where(open_end, OPEN, times[1][0]), np.where(open_end, FINE, times[1][1]).astype(np.uint8)
    for kind, fault in (("rows without a time", MISSING), ("rows whose time cannot be read", UNREADABLE)):
        leave(kind, _any(times, fault))
    leave("rows in an hour that does not exist (clocks are set forward)", _any(times, NEVER_WAS))
    leave("rows whose time is invalid (not finite, or thousands of years away)", _any(times, NOT_A_TIME))
    start, end = times[0][0], times[1][0] if len(times) > 1 else np.zeros(0, np.int64)
    if len(end):
        # In the hour that occurs twice an end may seem to be before its start: see folds.py.
        leave(TURNED, end < start - (7_200_000 if clock.naive and clock.local != "UTC" else 0))
        leave("rows of zero length", end == start)
    state = np.zeros(0, bool)
    if "state" in chosen:
        texts = table[chosen["state"]].cast(pl.String).str.strip_chars().str.to_lowercase()
        known = {**states, **dict.fromkeys((*_NOBODY, None), -2)}
        state = texts.replace_strict(known, default=-1, return_dtype=pl.Int8).to_numpy()
        leave("rows without a state", state == -2)
        leave("rows whose state is not recognised (define such words with on and off)", state == -1)
        state = state == 1
    return Rows(block.numbers, codes, start, end, state).only(rest)


def _any(times: list[tuple[np.ndarray, np.ndarray]], fault: int) -> np.ndarray:
    return np.any([status == fault for _, status in times], axis=0)


def _shown(block: Block, i: int) -> str:
    row = ", ".join(f"{name} {value}" for name, value in block.table.row(i, named=True).items())
    return f"{block.numbers[i]}: {_short(row)}"


def _short(text: str) -> str:
    text = "".join(c if c.isprintable() else "�" for c in text)
    return text if len(text) <= 100 else text[:99] + "…"
