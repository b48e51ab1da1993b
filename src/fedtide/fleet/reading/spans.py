"""Sets of time as sorted rows (device, start, end): merging, measuring, cutting. All vectorised."""

from typing import NamedTuple

import numpy as np
import polars as pl


class Spans(NamedTuple):
    """Columns: device u32, start i64, end i64, sorted by device and start."""

    device: np.ndarray
    start: np.ndarray
    end: np.ndarray

    def only(self, rows: np.ndarray) -> "Spans":
        return Spans(self.device[rows], self.start[rows], self.end[rows])

    def in_order(self) -> "Spans":
        return self.only(np.lexsort((self.start, self.device)))

    def frame(self) -> pl.DataFrame:
        schema = {"device": pl.UInt32, "start": pl.Int64, "end": pl.Int64}
        return pl.DataFrame(self._asdict(), schema=schema)


def merge(spans: Spans) -> tuple[Spans, np.ndarray, np.ndarray]:
    """Disjoint spans that do not touch; and for each row whether it overlapped what came before, or touched it."""
    device, start, _ = spans
    if not len(device):
        return spans, np.zeros(0, bool), np.zeros(0, bool)
    reach = spans.frame().select(pl.col("end").cum_max().over("device")).to_series().to_numpy()
    same = device[1:] == device[:-1]
    overlaps = np.concatenate([[False], same & (start[1:] < reach[:-1])])
    touches = np.concatenate([[False], same & (start[1:] == reach[:-1])])
    first = ~(overlaps | touches)
    last = np.append(first[1:], True)
    return Spans(device[first], start[first], reach[last]), overlaps, touches


def covered(spans: Spans, windows: Spans) -> np.ndarray:
    """How long each span lies within the windows of its device; the windows are disjoint."""
    which, parts = _parts(spans, windows)
    return np.bincount(which, parts.end - parts.start, len(spans.device))


def cut(spans: Spans, windows: Spans) -> Spans:
    """The parts of disjoint spans within disjoint windows of the same device."""
    return _parts(spans, windows)[1]


def _parts(spans: Spans, windows: Spans) -> tuple[np.ndarray, Spans]:
    """The parts of spans within disjoint windows of the same device, and the row of the span of each."""
    if not len(windows.device) or not len(spans.device):
        return np.zeros(0, int), spans.only(np.zeros(0, int))
    start, end, opens, closes = _keys(spans, windows)
    low, high = np.searchsorted(closes, start, side="right"), np.searchsorted(opens, end, side="left")
    count = np.maximum(high - low, 0)
    which = np.repeat(np.arange(len(count)), count)
    window = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + low[which]
    device, begin, finish = spans.only(which)
    return which, Spans(device, np.maximum(begin, windows.start[window]), np.minimum(finish, windows.end[window]))


def without(windows: Spans, holes: Spans) -> Spans:
    """Windows less holes, of the same devices."""
    if not len(holes.device) or not len(windows.device):
        return windows
    holes = merge(holes.in_order())[0]
    low = min(int(windows.start.min()), int(holes.start.min())) - 1
    high = max(int(windows.end.max()), int(holes.end.max())) + 1
    # The spans between the holes of a device: from before all time to its first, …, from its last to after all time.
    everyone = np.unique(np.concatenate([windows.device, holes.device])).astype(np.uint32)
    device = np.concatenate([everyone, holes.device])
    start = np.concatenate([np.full(len(everyone), low), holes.end])
    order = np.lexsort((start, device))
    end = np.concatenate([holes.start, np.full(len(everyone), high)])
    closing = np.lexsort((end, np.concatenate([holes.device, everyone])))
    return cut(windows, Spans(device[order], start[order], end[closing]))


def window_of(spans: Spans, windows: Spans) -> np.ndarray:
    """The window in which each span lies, as the row of it; every span lies in one."""
    start, _, opens, _ = _keys(spans, windows)
    return np.searchsorted(opens, start, side="right") - 1


def spans_of(table: pl.DataFrame) -> Spans:
    """The rows of a table of a `Log`."""
    return Spans(*(table[name].to_numpy() for name in Spans._fields))


def _keys(spans: Spans, windows: Spans) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Starts and ends of both, as numbers that sort by device and then by time."""
    times = [spans.start, spans.end, windows.start, windows.end]
    devices = [spans.device, spans.device, windows.device, windows.device]
    filled = [t for t in times if len(t)]
    low, high = min(int(t.min()) for t in filled), max(int(t.max()) for t in filled)
    most = max(int(d.max()) for d in devices if len(d)) + 1
    width = high - low + 2
    if most * width >= 2**62:  # ranks instead of times
        ranks = np.unique(np.concatenate(times))
        times, low, width = [np.searchsorted(ranks, t) for t in times], 0, len(ranks) + 1
    start, end, opens, closes = (d.astype(np.int64) * width + (t - low) for d, t in zip(devices, times, strict=True))
    return start, end, opens, closes
