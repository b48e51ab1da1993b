"""Matrices of rounds × devices."""

from collections.abc import Mapping

import numpy as np
import polars as pl

from fedtide.fleet.log import Log
from fedtide.fleet.reading.columns import find_time, some_form_fits
from fedtide.fleet.reading.source import Arrays, Table
from fedtide.fleet.reading.spans import Spans
from fedtide.fleet.reading.tally import LEFT_OUT, Tally
from fedtide.fleet.reading.times import FINE, Clock, moments, settle

_HERE = ("1", "1.0", "true")
_AWAY = ("0", "0.0", "false")
_UNKNOWN = ("", "-1", "-1.0", "nan", "null", "none", "na")
_COUNTERS = ("", "round", "slot", "step", "index", "unnamed: 0")  # columns that only number the rows
_NAMES = ("devices", "device", "device_id", "device_ids", "clients", "client_ids", "ids", "names", "nodes")


def is_matrix(table: Table, columns: Mapping[str, str]) -> bool:
    """Whether all columns but a time and a counter hold 1, 0, −1 or nothing, in the first rows."""
    names = _devices(table, columns)[1]
    if not names or "device" in columns or not table.head.height or some_form_fits(table.columns):
        return False
    known = (*_HERE, *_AWAY, *_UNKNOWN)
    for name in names:
        column = table.head[name].head(1000)
        if (
            column.dtype.is_nested()
            or not column.cast(pl.String).str.strip_chars().str.to_lowercase().drop_nulls().is_in(known).all()
        ):
            return False
    return True


def read_matrix(
    table: Table,
    columns: Mapping[str, str],
    round_seconds: float | None,
    unit: str | None,
    origin: str | None,
    zone: str | None,
    tally: Tally,
) -> Log:
    """A table with a column a device."""
    time, names = _devices(table, columns)
    if not names:
        tally.fail("a matrix needs a column for each device")
    if time is None and round_seconds is None:
        tally.fail("a matrix without a time column needs round_seconds")
    clock = settle(table.head[time], tally, unit, origin, zone) if time is not None else _counted(origin, zone, tally)
    states, times, numbers = [], [], []
    for block in table.blocks([*names, *([time] if time is not None else [])]):
        for kind, count, where, lines in block.bad:
            tally.rows += count
            tally.add(
                kind, count, LEFT_OUT, [f"{table.word} {n}: {line[:80]}" for n, line in zip(where, lines, strict=True)]
            )
        tally.rows += block.table.height
        if not block.table.height:
            continue
        state = np.stack([_entries(block.table[name], name, block.numbers, tally) for name in names], axis=1)
        if time is not None:
            ms, status = moments(block.table[time], clock)
            wrong = np.flatnonzero(status != FINE)
            shown = [f"{table.word} {block.numbers[i]}: {block.table[time][int(i)]}" for i in wrong[: tally.wants]]
            tally.add("rows without a time that can be read", len(wrong), LEFT_OUT, shown)
            state, ms, fine = state[status == FINE], ms[status == FINE], block.numbers[status == FINE]
            times.append(ms)
            numbers.append(fine)
        states.append(state)
    if not sum(map(len, states)):
        tally.nothing_left() if tally.rows else tally.fail("a table without rows")
    state = np.concatenate(states)
    if time is None:
        return _log(state, _regular(len(state), round_seconds, clock), tuple(names), clock.zone, tally)
    ms, number = np.concatenate(times), np.concatenate(numbers)
    order = np.argsort(ms, kind="stable")
    twice = np.concatenate([[False], np.diff(ms[order]) == 0])
    tally.add(
        "rows of a time that an earlier row has",
        int(twice.sum()),
        LEFT_OUT,
        [f"{table.word} {n}" for n in number[order][twice][:3]],
    )
    state, ms = state[order[~twice]], ms[order[~twice]]
    steps = np.diff(ms)
    if not len(steps) and round_seconds is None:
        tally.fail("a matrix of one row needs round_seconds")
    usual = round(1000 * round_seconds) if round_seconds is not None else int(np.median(steps))
    tally.note(f"A round lasts until the next, {usual / 1000:g} s at most; in longer gaps nothing is known.")
    until = np.minimum(np.append(ms[1:], np.iinfo(np.int64).max), ms + usual)
    return _log(state, (ms, until), tuple(names), clock.zone, tally)


def read_arrays(
    source: Arrays,
    columns: Mapping[str, str],
    round_seconds: float | None,
    unit: str | None,
    origin: str | None,
    zone: str | None,
    tally: Tally,
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
        tally.fail("a matrix without a time column needs round_seconds")
    given = columns.get("device", next((name for name in _NAMES if name in source.arrays), ""))
    labels = source.arrays.get(given)
    names = tuple(map(str, labels if labels is not None and labels.shape == array.shape[1:] else range(array.shape[1])))
    if len(set(names)) < len(names):
        tally.fail(f"several devices of {given} have the same name")
    tally.rows = len(array)
    state = np.where(array == 1, 1, np.where(array == 0, 0, -1)).astype(np.int8)
    odd = (state == -1) & (array != -1) & (array == array)
    shown = [f"row {r + 1}, device {names[c]}: {array[r, c]}" for r, c in np.argwhere(odd)[:3]] if odd.any() else []
    tally.add("entries that are neither 1, 0 nor −1", int(odd.sum()), "taken as not observed", shown)
    clock = _counted(origin, zone, tally)
    return _log(state, _regular(len(state), round_seconds, clock), names, clock.zone, tally)


def _devices(table: Table, columns: Mapping[str, str]) -> tuple[str | None, list[str]]:
    time = None if table.headless else find_time(table.columns, columns)
    counters = [] if table.headless else [name for name in table.columns if name.strip().lower() in _COUNTERS]
    return time, [name for name in table.columns if name != time and name not in counters]


def _counted(origin: str | None, zone: str | None, tally: Tally) -> Clock:
    """The clock of rounds that are only numbered: round 0 is at time 0."""
    return settle(pl.Series("round", [0.0]), Tally(tally.source), "s", origin, zone)


def _regular(rounds: int, round_seconds: float | None, clock: Clock) -> tuple[np.ndarray, np.ndarray]:
    step = round(1000 * (round_seconds or 0))
    begins = clock.origin + step * np.arange(rounds, dtype=np.int64)
    return begins, begins + step


def _entries(column: pl.Series, name: str, numbers: np.ndarray, tally: Tally) -> np.ndarray:
    texts = column.cast(pl.String).str.strip_chars().str.to_lowercase()
    found = texts.unique()
    marks = {**dict.fromkeys(_HERE, 1), **dict.fromkeys(_AWAY, 0), **dict.fromkeys(_UNKNOWN, -1), None: -1}
    codes = pl.Series([marks.get(text, -2) for text in found.to_list()], dtype=pl.Int8)
    state = texts.replace_strict(found, codes, return_dtype=pl.Int8).to_numpy().copy()
    odd = np.flatnonzero(state == -2)
    if len(odd):
        shown = [f"{tally.word} {numbers[i]}, device {name[:40]}: {texts[int(i)][:40]}" for i in odd[:3]]
        tally.add("entries that are neither 1, 0 nor −1", len(odd), "taken as not observed", shown)
        state[odd] = -1
    return state


def _log(
    state: np.ndarray, times: tuple[np.ndarray, np.ndarray], names: tuple[str, ...], zone: str | None, tally: Tally
) -> Log:
    seen = _runs(state >= 0, *times)
    if not len(seen.device):
        tally.fail("no entry is 0 or 1: nothing was observed")
    return Log(names, _runs(state == 1, *times).frame(), seen.frame(), zone, tally.account("matrix"))


def _runs(mask: np.ndarray, begins: np.ndarray, until: np.ndarray) -> Spans:
    """The runs of True of each column, as spans; rounds that do not touch in time are not of one run."""
    linked = np.append(until[:-1] == begins[1:], False)
    first, last = mask.copy(), mask.copy()
    first[1:] &= ~(mask[:-1] & linked[:-1, None])
    last[:-1] &= ~(mask[1:] & linked[:-1, None])
    device, row = np.nonzero(first.T)
    return Spans(device.astype(np.uint32), begins[row], until[np.nonzero(last.T)[1]])
