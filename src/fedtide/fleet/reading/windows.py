"""Windows in which devices were observed, beside the log that they belong to."""

from typing import Any

import numpy as np

from fedtide.errors import FedtideError, InvalidInput
from fedtide.fleet.reading.columns import check_types, find_columns
from fedtide.fleet.reading.rows import OPEN, Names, RowFormat, Rows, read_rows
from fedtide.fleet.reading.source import Matrices, open_source
from fedtide.fleet.reading.spans import Spans, merge
from fedtide.fleet.reading.tally import EXAMPLES, LEFT_OUT, Tally, lasting
from fedtide.fleet.reading.times import LogClock, Times, settle


def read_windows(source: Any, clock: LogClock, times: Times, rows: Rows, names: Names, tally: Tally) -> Spans:
    """The windows of a table, merged, sorted by the codes of devices."""
    table = open_source(source, "windows")
    if isinstance(table, Matrices):
        raise InvalidInput("windows", table.name, "a table of device, start, end")
    own = Tally(table.name, table.word)
    _, chosen = find_columns(table, "intervals", {}, [], own)
    check_types(table, chosen, own)
    theirs = Times(times.unit, times.origin if clock.numbers else None, times.zone if clock.zone else None)
    written = settle(table.head[chosen["start"]], Tally(table.name), theirs)  # the log's own notes say the same
    if (written.zone is None) != (clock.zone is None):
        raise FedtideError(
            f"windows: {table.name} and {tally.source} have different clocks: only one of them has dates"
        )
    if written.numbers and clock.numbers and written.scale != clock.scale:
        own.note(f"Times are assumed to be in {written.unit}, unlike those of the log.")
    read = read_rows(table, RowFormat(chosen, written), names, own)
    open_ends = read.end == OPEN
    if open_ends.any():
        until = max(last_moment(table) for table in (read, rows) if len(table.start))
        read = read._replace(end=np.where(open_ends, until, read.end))
        short = open_ends & (read.end <= read.start)
        own.add("rows without an end", int((open_ends & ~short).sum()), "assumed to last until the log ends")
        own.add("rows without an end that begin when the log ends", int(short.sum()), LEFT_OUT)
        read = read.only(~short)
    turned = read.end < read.start  # of a local clock that was set back
    own.add("rows that end before they start", int(turned.sum()), LEFT_OUT)
    read = read.only(~turned)
    spans, overlaps, _ = merge(Spans(read.device, read.start, read.end).in_order())
    own.add("rows that overlap another of the same device", int(overlaps.sum()), "merged")
    tally.absorb(own, "windows")
    if not len(spans.device):
        own.nothing_left()
    return spans


def with_window(rows: Rows, given: Spans, names: Names, tally: Tally) -> Rows:
    """The rows of devices that have windows; fails if there are none, naming examples of both."""
    without = ~np.isin(rows.device, given.device)
    if without.any():
        codes = np.unique(rows.device[without])
        known = list(names.codes)
        examples = [f"device {known[code]}" for code in codes[:EXAMPLES]]
        tally.add("rows of devices that have no window", int(without.sum()), LEFT_OUT, examples)
        unseen = np.setdiff1d(given.device, rows.device)
        theirs = known[unseen[0] if len(unseen) else given.device[0]]
        differ = f"the log has {known[codes[0]][:40]!r}, the windows have {theirs[:40]!r}"
        if without.all():
            tally.fail(
                f"none of its {tally.rows} rows can be used: none belongs to a device that has a window; {differ}"
            )
        if without.sum() * 2 > len(rows.device):
            few = f"Only {int((~without).sum()):,} of {len(rows.device):,} rows"
            tally.note(f"{few} belong to devices that have a window: {differ}.")
    rows = rows.only(~without)
    if len(rows.device):
        log, windows = last_moment(rows) - int(rows.start.min()), int(given.end.max() - given.start.min())
        if windows > 10 * log > 0:
            lengths = f"The windows span {lasting(windows)}, the log {lasting(log)}"
            tally.note(f"{lengths}: are both in the same unit of time?")
    return rows


def last_moment(rows: Rows) -> int:
    """The last time that some rows hold."""
    last = int(rows.start.max())
    return max(last, int(rows.end[rows.end < OPEN].max(initial=last))) if len(rows.end) else last


def close_ends(rows: Rows, given: Spans | None, names: Names, tally: Tally) -> Rows:
    """Rows without an end last until their device's last window ends, or the log, where the device has no later row."""
    still = rows.end == OPEN
    if not len(rows.end) or not still.any():
        return rows
    tally.devices = list(names.codes)
    size = len(names.codes)
    latest = np.full(size, np.iinfo(np.int64).min)
    np.maximum.at(latest, rows.device, rows.start)
    if given is None:
        until = np.full(size, last_moment(rows))
    else:
        until = np.zeros(size, np.int64)
        np.maximum.at(until, given.device, given.end)
    early = still & (rows.start < latest[rows.device])
    end = np.where(still, until[rows.device], rows.end)
    late = still & ~early & (end <= rows.start)
    show = rows._replace(end=rows.end[:0]).shown(tally)
    tally.mark("rows without an end, of devices that have a later row", early, LEFT_OUT, show)
    tally.mark("rows without an end that begin when the log or their window ends", late, LEFT_OUT, show)
    kept = still & ~early & ~late
    tally.mark("rows without an end (still available)", kept, "assumed available until the log ends", show)
    return rows._replace(end=end).only(~early & ~late)
