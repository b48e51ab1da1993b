"""Matrices of rounds × devices."""

from collections.abc import Mapping
from functools import partial

import numpy as np
import polars as pl

from fedtide.errors import spelled
from fedtide.fleet.log import Log
from fedtide.fleet.reading.columns import find_time, some_form_fits
from fedtide.fleet.reading.rows import count_lines
from fedtide.fleet.reading.source import Matrices, SourceTable
from fedtide.fleet.reading.spans import Spans
from fedtide.fleet.reading.tally import LEFT_OUT, Tally
from fedtide.fleet.reading.text import Block
from fedtide.fleet.reading.times import FINE, Times, moments, settle

_HERE = ("1", "1.0", "true")
_AWAY = ("0", "0.0", "false")
_UNKNOWN = ("", "-1", "-1.0", "nan", "null", "none", "na")
_MARKS = {**dict.fromkeys(_HERE, 1), **dict.fromkeys(_AWAY, 0), **dict.fromkeys((*_UNKNOWN, None), -1)}
_ODD, _NOT_OBSERVED = "entries that are neither 1, 0 nor −1", "assumed not observed"
_COUNTERS = ("", "round", "slot", "step", "index", "unnamed: 0")  # columns that only number the rows
_NAMES = ("devices", "device", "device_id", "device_ids", "clients", "client_ids", "ids", "names", "nodes")


def is_matrix(table: SourceTable, columns: Mapping[str, str]) -> bool:
    """Whether all columns but a time and a counter hold 1, 0, −1 or nothing, in the first rows."""
    names = _devices(table, columns)[1]
    if not names or "device" in columns or not table.head.height or some_form_fits(table.columns):
        return False
    known = [text for text in _MARKS if text is not None]
    return all(
        not column.dtype.is_nested()
        and column.cast(pl.String).str.strip_chars().str.to_lowercase().drop_nulls().is_in(known).all()
        for column in table.head.select(names).head(1000).iter_columns()
    )


def read_matrix(
    table: SourceTable, columns: Mapping[str, str], round_seconds: float | None, times: Times, tally: Tally
) -> Log:
    """A table with one column per device."""
    time, names = _devices(table, columns)
    if not names:
        tally.fail("a matrix needs a column for each device")
    if time is None and round_seconds is None:
        tally.fail(f"a matrix without a time column needs {spelled('round_seconds')}")
    clock = settle(table.head[time], tally, times) if time is not None else None
    states, begins, numbers = [], [], []
    for block in table.blocks([*names, *([time] if time is not None else [])]):
        count_lines(block, tally, lambda line: line[:80])
        if not block.table.height:
            continue
        state = np.stack([_entries(block.table[name], name, block.numbers, tally) for name in names], axis=1)
        if time is not None and clock is not None:
            ms, status = moments(block.table[time], clock)
            fine, at = status == FINE, block.numbers
            tally.mark("rows without a time that can be read", ~fine, LEFT_OUT, partial(_time, block, time))
            state = state[fine]
            begins.append(ms[fine])
            numbers.append(at[fine])
        states.append(state)
    if not sum(map(len, states)):
        tally.nothing_left() if tally.rows else tally.fail("a table without rows")
    state = np.concatenate(states)
    if clock is None:
        return _counted(state, round_seconds, tuple(names), times, tally)
    ms, number = np.concatenate(begins), np.concatenate(numbers)
    order = np.argsort(ms, kind="stable")
    twice = np.r_[False, np.diff(ms[order]) == 0]
    tally.mark("rows with the same time as an earlier row", twice, LEFT_OUT, lambda i: str(number[order[i]]))
    state, ms = state[order[~twice]], ms[order[~twice]]
    steps = np.diff(ms)
    if not len(steps) and round_seconds is None:
        tally.fail(f"a matrix of one row needs {spelled('round_seconds')}")
    usual = round(1000 * round_seconds) if round_seconds is not None else int(np.median(steps))
    tally.note(f"A round lasts until the next one, at most {usual / 1000:g} s; longer gaps are not observed.")
    until = np.minimum(np.append(ms[1:], np.iinfo(np.int64).max), ms + usual)
    return _log(state, (ms, until), tuple(names), clock.zone, tally)


def read_arrays(
    source: Matrices, columns: Mapping[str, str], round_seconds: float | None, times: Times, tally: Tally
) -> Log:
    """A NumPy matrix; of several, the one that columns={"state": name} names."""
    flat = {name: array for name, array in source.arrays.items() if array.ndim == 2}
    wanted = columns.get("state", next(iter(flat)) if len(flat) == 1 else None)
    if wanted not in flat:
        tally.fail(
            f"needs one matrix of rounds × devices; it has {', '.join(flat) or 'none'}; "
            "choose with columns={'state': …}"
        )
    array = flat[wanted]
    if array.dtype.kind not in "biuf" or not array.size:
        tally.fail(f"a matrix of rounds × devices holds 1, 0 and −1, not {array.dtype} {array.shape}")
    if round_seconds is None:
        tally.fail(f"a matrix without a time column needs {spelled('round_seconds')}")
    given = columns.get("device", next((name for name in _NAMES if name in source.arrays), ""))
    labels = source.arrays.get(given)
    names = tuple(map(str, labels if labels is not None and labels.shape == array.shape[1:] else range(array.shape[1])))
    if len(set(names)) < len(names):
        tally.fail(f"several devices of {given} have the same name")
    tally.rows = len(array)
    state = np.where(array == 1, 1, np.where(array == 0, 0, -1)).astype(np.int8)
    odd = (state == -1) & (array != -1) & (array == array)
    shown = [f"row {r + 1}, device {names[c]}: {array[r, c]}" for r, c in np.argwhere(odd)[:3]] if odd.any() else []
    tally.add(_ODD, int(odd.sum()), _NOT_OBSERVED, shown)
    return _counted(state, round_seconds, names, times, tally)


def _devices(table: SourceTable, columns: Mapping[str, str]) -> tuple[str | None, list[str]]:
    time = None if table.headless else find_time(table.columns, columns)
    counters = [] if table.headless else [name for name in table.columns if name.strip().lower() in _COUNTERS]
    return time, [name for name in table.columns if name != time and name not in counters]


def _counted(state: np.ndarray, round_seconds: float | None, names: tuple[str, ...], times: Times, tally: Tally) -> Log:
    """Rounds that are only numbered: round 0 is at time 0."""
    clock = settle(pl.Series("round", [0.0]), Tally(tally.source), times._replace(unit="s"))
    step = round(1000 * (round_seconds or 0))
    begins = clock.origin + step * np.arange(len(state), dtype=np.int64)
    return _log(state, (begins, begins + step), names, clock.zone, tally)


def _time(block: Block, column: str, i: int) -> str:
    return f"{block.numbers[i]}: {block.table[column][i]}"


def _entries(column: pl.Series, name: str, numbers: np.ndarray, tally: Tally) -> np.ndarray:
    texts = column.cast(pl.String).str.strip_chars().str.to_lowercase()
    state = texts.replace_strict(_MARKS, default=-2, return_dtype=pl.Int8).to_numpy()
    odd = state == -2
    tally.mark(_ODD, odd, _NOT_OBSERVED, lambda i: f"{numbers[i]}, device {name[:40]}: {texts[i][:40]}")
    return np.where(odd, np.int8(-1), state)


def _log(
    state: np.ndarray, times: tuple[np.ndarray, np.ndarray], names: tuple[str, ...], zone: str | None, tally: Tally
) -> Log:
    seen = _runs(state >= 0, *times)
    if not len(seen.device):
        tally.fail("no entry is 0 or 1: nothing was observed")
    return Log(names, _runs(state == 1, *times).frame(), seen.frame(), zone, tally.account("matrix"))


def _runs(mask: np.ndarray, begins: np.ndarray, until: np.ndarray) -> Spans:
    """The runs of True of each column, as spans; rounds that are not adjacent in time are not of the same run."""
    linked = np.append(until[:-1] == begins[1:], False)
    first, last = mask.copy(), mask.copy()
    first[1:] &= ~(mask[:-1] & linked[:-1, None])
    last[:-1] &= ~(mask[1:] & linked[:-1, None])
    device, row = np.nonzero(first.T)
    return Spans(device.astype(np.uint32), begins[row], until[np.nonzero(last.T)[1]])
