"""The rows of a table as numbers: codes of devices, milliseconds, states. Block by block: memory stays small."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from fedtide.errors import InvalidInput
from fedtide.fleet.reading.source import Table
from fedtide.fleet.reading.tally import LEFT_OUT, Tally
from fedtide.fleet.reading.text import Block
from fedtide.fleet.reading.times import EARLIEST, FINE, MISSING, NEVER_WAS, NOT_A_TIME, UNREADABLE, Clock, moments

_ON = "1 1.0 true t yes y on up online connected connect available here present active alive start started open in "
_ON += "join joined"
_OFF = "0 0.0 false f no n off down offline disconnected disconnect unavailable away absent inactive dead stop stopped "
_OFF += "closed out leave left gone idle"
_NOBODY = ("", "null", "none", "nan", "na", "n/a")
_SAMPLE = 2_000_000  # times that are looked at to find those far away
OPEN = 2**62  # the end of a row that has none
TURNED = "rows that end before they start"


class Names:
    """Devices by number, in the order in which they came."""

    def __init__(self):
        self.codes: dict[str, int] = {}
        self.others: set[str] = set()  # that have rows of other kinds
        self._written = pl.Series([], dtype=pl.String)  # each spelling seen so far, spaces and all
        self._code = pl.Series([], dtype=pl.Int64)  # −1 for nobody

    def encode(self, column: pl.Series) -> tuple[np.ndarray, np.ndarray]:
        """Codes, and which of them are of nobody (code 0 then)."""
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
        """Devices of rows that are of another kind."""
        texts = column.unique().cast(pl.String).drop_nulls().to_list()
        self.others.update(name for name in map(str.strip, texts) if name.lower() not in _NOBODY)

    def _look_up(self, texts: pl.Series) -> pl.Series:
        return texts.replace_strict(self._written, self._code, default=None, return_dtype=pl.Int64)


class Rows(NamedTuple):
    """Usable rows, in the order of the file. Columns that the form has not are empty."""

    number: np.ndarray  # i64, of the line or row
    device: np.ndarray  # u32
    start: np.ndarray  # i64 milliseconds; the time of events and heartbeats
    end: np.ndarray
    state: np.ndarray  # bool

    def only(self, mask: np.ndarray) -> "Rows":
        return Rows(*(column[mask] if len(column) else column for column in self))


def state_words(on: Iterable[str], off: Iterable[str]) -> dict[str, int]:
    """Each known word of a state, 1 or 0; the caller's own come first."""
    words = {**dict.fromkeys(_ON.split(), 1), **dict.fromkeys(_OFF.split(), 0)}
    mine = {**{str(word).strip().lower(): 1 for word in on}}
    theirs = {str(word).strip().lower(): 0 for word in off}
    both = mine.keys() & theirs.keys()
    if both:
        raise InvalidInput("on", ", ".join(sorted(both)), "words that are not among off as well")
    return {**words, **mine, **theirs}


def read_rows(
    table: Table,
    chosen: Mapping[str, str],
    where: Mapping[str, str],
    clock: Clock,
    names: Names,
    words: Mapping[str, int],
    tally: Tally,
) -> Rows:
    """All rows that can be used; the others are in the tally."""
    keep = list(dict.fromkeys([*chosen.values(), *where]))
    parts: list[Rows] = []
    for block in table.blocks(keep):
        for kind, count, numbers, lines in block.bad:
            tally.rows += count
            examples = [f"{table.word} {n}: {_short(line)}" for n, line in zip(numbers, lines, strict=True)]
            tally.add(kind, count, LEFT_OUT, examples)
        tally.rows += block.table.height
        if block.table.height:
            parts.append(_usable(block, table.word, chosen, where, clock, names, words, tally))
    if not parts:
        tally.fail("a table without rows") if not tally.rows else tally.nothing_left()
    joined = []
    for i in range(len(Rows._fields)):  # a column at a time, so that only one is held twice
        joined.append(np.concatenate([part[i] for part in parts]))
    return Rows(*joined)


def without_far(rows: Rows, word: str, dated: bool, tally: Tally) -> Rows:
    """Leaves out times that cannot belong to this log: jumps of a clock.

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
        reset = dated & (rows.start < EARLIEST) & (middle >= EARLIEST)  # a clock that was not yet set: no long stay
        long = far & (start < end) & ~reset
        examples = _written(rows, long, word, tally)
        tally.add("rows that reach far beyond the log's other times", int(long.sum()), "cut to the log", examples)
        start, end = np.where(long, start, rows.start), np.where(long & (rows.end < OPEN), end, rows.end)
        rows, far = rows._replace(start=start, end=end), far & ~long
    examples = _written(rows, far, word, tally)
    tally.add("rows whose times are far from all others (a clock jumped)", int(far.sum()), LEFT_OUT, examples)
    return rows.only(~far)


def _written(rows: Rows, mask: np.ndarray, word: str, tally: Tally) -> list[str]:
    times = [rows.start, rows.end] if len(rows.end) else [rows.start]
    shown = np.flatnonzero(mask)[: tally.wants]
    return [f"{word} {rows.number[i]}: {' to '.join(tally.moment(int(t[i])) for t in times)}" for i in shown]


def _usable(
    block: Block,
    word: str,
    chosen: Mapping[str, str],
    where: Mapping[str, str],
    clock: Clock,
    names: Names,
    words: Mapping[str, int],
    tally: Tally,
) -> Rows:
    table = block.table
    rest = np.ones(table.height, bool)

    def leave(kind: str, mask: np.ndarray) -> None:
        """Each row is left out for the first reason that holds."""
        found = np.flatnonzero(rest & mask)
        if len(found):
            shown = found[: tally.wants]
            rest[found] = False
            tally.add(kind, len(found), LEFT_OUT, [_shown(block, word, int(i)) for i in shown])

    for name, value in where.items():
        leave(
            "rows of other kinds", ~(table[name].cast(pl.String).str.strip_chars() == value).fill_null(False).to_numpy()
        )
    if where and not rest.all():  # devices of other kinds only are no devices of this log
        names.meet(table[chosen["device"]].filter(pl.Series(~rest)))
        codes, nobody = np.zeros(table.height, np.uint32), np.zeros(table.height, bool)
        codes[rest], nobody[rest] = names.encode(table[chosen["device"]].filter(pl.Series(rest)))
    else:
        codes, nobody = names.encode(table[chosen["device"]])
    leave("rows without a device", nobody)
    times = [moments(table[chosen[name]], clock) for name in ("start", "end", "time") if name in chosen]
    if "end" in chosen:  # still there: closed once the log's end is known
        open_end = (times[0][1] == FINE) & (times[1][1] == MISSING)
        times[1] = np.where(open_end, OPEN, times[1][0]), np.where(open_end, FINE, times[1][1]).astype(np.uint8)
    for kind, fault in (("rows without a time", MISSING), ("rows whose time cannot be read", UNREADABLE)):
        leave(kind, _any(times, fault))
    leave("rows in an hour that never was (clocks are set forward)", _any(times, NEVER_WAS))
    leave("rows whose time is no time (not finite, or thousands of years away)", _any(times, NOT_A_TIME))
    start, end = times[0][0], times[1][0] if len(times) > 1 else np.zeros(0, np.int64)
    if len(end):
        # In the hour that occurs twice an end may seem to be before its start: see folds.py.
        leave(TURNED, end < start - (7_200_000 if clock.naive and clock.local != "UTC" else 0))
        leave("rows of no length", end == start)
    state = np.zeros(0, bool)
    if "state" in chosen:
        texts = table[chosen["state"]].cast(pl.String).str.strip_chars().str.to_lowercase()
        found = texts.unique()
        marks = pl.Series(
            [-2 if t is None or t in _NOBODY else words.get(t, -1) for t in found.to_list()], dtype=pl.Int8
        )
        state = texts.replace_strict(found, marks, return_dtype=pl.Int8).to_numpy()
        leave("rows without a state", state == -2)
        leave("rows whose state is not known (name such words with on and off)", state == -1)
        state = state == 1
    return Rows(block.numbers, codes, start, end, state).only(rest)


def _any(times: list[tuple[np.ndarray, np.ndarray]], fault: int) -> np.ndarray:
    return np.any([status == fault for _, status in times], axis=0)


def _shown(block: Block, word: str, i: int) -> str:
    row = ", ".join(f"{name} {value}" for name, value in block.table.row(i, named=True).items())
    return f"{word} {block.numbers[i]}: {_short(row)}"


def _short(text: str) -> str:
    text = "".join(c if c.isprintable() else "�" for c in text)
    return text if len(text) <= 100 else text[:99] + "…"
