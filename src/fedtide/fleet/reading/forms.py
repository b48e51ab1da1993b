"""From rows to spans, for intervals, events and heartbeats."""

from typing import cast

import numpy as np
import polars as pl

from fedtide.errors import spelled
from fedtide.fleet.reading.rows import Rows
from fedtide.fleet.reading.spans import Spans, covered, cut, merge, without
from fedtide.fleet.reading.tally import LEFT_OUT, Tally


def intervals(rows: Rows, windows: Spans | None, tally: Tally) -> Spans:
    """Intervals, merged and cut to the windows."""
    rows = _sorted(rows, tally, "device", "start", "end")
    spans = Spans(rows.device, rows.start, rows.end)
    if windows is not None:
        length = covered(spans, windows)
        outside, part = length == 0, (length > 0) & (length < spans.end - spans.start)
        tally.mark("rows outside of their device's windows", outside, LEFT_OUT, rows.shown(tally))
        tally.mark("rows partly outside of their device's windows", part, "cut", rows.shown(tally))
        _within(rows, outside, windows, tally)
        rows, spans = rows.only(~outside), spans.only(~outside)
    merged, overlaps, touches = merge(spans)
    tally.mark("rows that overlap an earlier row of the same device", overlaps, "merged", rows.shown(tally))
    tally.mark("rows that begin when an earlier row of the same device ends", touches, "merged", rows.shown(tally))
    return merged if windows is None else cut(merged, windows)


def events(rows: Rows, gap: int | None, windows: Spans | None, whole: bool, tally: Tally) -> tuple[Spans, Spans]:
    """Spans and windows from changes of state: a state lasts until the device's next event, the last until its window
    ends. A device is not observed before its first event; where windows are given, the opposite state is assumed.
    Long gaps between polls are not observed.
    """
    _backwards(rows, tally)
    rows = _sorted(rows, tally, "device", "start", "state")
    rows = rows.only(_order(rows.device, rows.start, rows.number))
    device, time, state = rows.device, rows.start, rows.state
    same = device[1:] == device[:-1]
    clash = np.append(same & (time[1:] == time[:-1]), False)
    kind, show = "events at the same moment as a later one of the other state", rows.shown(tally)
    tally.mark(kind, clash, "kept, the later is used", show)
    again = np.r_[False, same & (state[1:] == state[:-1])]
    tally.mark("events that repeat the state", again, "kept", show)
    first, last = np.r_[True, ~same], np.append(~same, True)
    if windows is None:
        finish = time[last] if not whole else np.full(last.sum(), time.max())
        windows = Spans(device[first], time[first], finish).only(time[first] < finish)
        tally.note("A device is not observed before its first event; its last state lasts until its window ends.")
    else:
        outside = covered(Spans(device, time, time + 1), windows) == 0
        kind, done = "events outside of their device's windows", "kept, for the state at the beginning of a window"
        tally.mark(kind, outside, done, show)
        tally.note(
            "Before its first event, from the beginning of its window, a device is assumed to be in the opposite state."
        )
    far = max(int(windows.end.max()), int(time.max())) if len(windows.end) else int(time.max())
    until = np.where(last, far, np.append(time[1:], far))
    spans = Spans(device, time, until).only(state & (until > time))
    early = first & ~state  # it left, so it was available
    begin = min(int(windows.start.min()), int(time.min())) - 1 if len(windows.start) else int(time.min())
    before = Spans(device[early], np.full(early.sum(), begin), time[early])
    both = Spans(*(np.concatenate(pair) for pair in zip(spans, before, strict=True))).in_order()
    if gap is not None or again.sum() * 2 > len(again):
        windows = _polled(rows, gap, windows, begin, max(far, int(time.max()) + 1), tally)
    return cut(merge(both)[0], windows), windows


def _polled(rows: Rows, gap: int | None, windows: Spans, begin: int, far: int, tally: Tally) -> Spans:
    """The windows less the gaps between events: longer than `gap`, or 10 times the device's median interval."""
    device, time = rows.device, rows.start
    last = np.append(device[1:] != device[:-1], True)
    if not len(windows.device):
        return windows
    size = max(int(device[-1]), int(windows.device[-1])) + 1
    opens, closes = np.full(size, far), np.full(size, begin)
    np.minimum.at(opens, windows.device, windows.start)
    np.maximum.at(closes, windows.device, windows.end)
    between = np.where(last, closes[device], np.append(time[1:], far)) - time
    known = pl.DataFrame({"device": device, "between": between}).filter(pl.Series(~last & (between > 0)))
    if not known.height:
        return windows
    # The device's own median where it has three intervals or more, else the fleet's.
    fleet = int(cast(float, known["between"].median()))
    own = known.group_by("device").agg(pl.col("between").median(), pl.len()).filter(pl.col("len") >= 3)
    usual = np.full(size, max(fleet, 1))
    usual[own["device"].to_numpy()] = np.maximum(own["between"].to_numpy().astype(np.int64), 1)
    limit = 10 * usual if gap is None else np.full(size, gap)
    hole = between > limit[device]
    first = np.flatnonzero(np.append(True, last[:-1]))
    late = first[time[first] - opens[device[first]] > limit[device[first]]]
    if gap is None:
        tally.note(f"Most events repeat the state, as in polling; the median interval is {fleet / 1000:g} s.")
        if rows.state.all():
            tally.note(
                "All events are of the available state: if unavailable devices have no rows, read them as heartbeats."
            )
    count = int(hole.sum()) + len(late)
    if not count:
        return windows
    over = "10 times the device's median interval" if gap is None else f"{gap / 1000:g} s"
    gaps = "1 gap" if count == 1 else f"{count:,} gaps"
    tally.note(
        f"Devices are not observed in {gaps} of more than {over} without an event, "
        "except for one median interval after the last event."
    )
    at, who = time[hole], device[hole]
    begins = np.concatenate([at + np.minimum(usual, limit)[who], opens[device[late]]])
    holes = Spans(np.concatenate([who, device[late]]), begins, np.concatenate([at + between[hole], time[late]]))
    return without(windows, holes)


def heartbeats(rows: Rows, gap: int, windows: Spans | None, tally: Tally) -> Spans:
    """A device is available from the first of a run of heartbeats, at most `gap` apart from each other, until one
    median interval after the last: the length of a stay is then unbiased.
    """
    _backwards(rows, tally)
    rows = _sorted(rows, tally, "device", "start")
    if windows is not None:
        outside = covered(Spans(rows.device, rows.start, rows.start + 1), windows) == 0
        tally.mark("heartbeats outside of their device's windows", outside, LEFT_OUT, rows.shown(tally))
        _within(rows, outside, windows, tally)
        rows = rows.only(~outside)
    device, time = rows.device, rows.start
    between, same = np.diff(time), device[1:] == device[:-1]
    joined = same & (between <= gap)
    _beats(between[same], gap, tally)
    beat = int(np.median(between[joined])) if joined.any() else gap
    usual = " (the median interval)" if joined.any() else ""
    first, last = np.r_[True, ~joined], np.append(~joined, True)
    tally.note(
        f"A device is available from the first heartbeat of a run until {beat / 1000:g} s{usual} after the last; "
        f"heartbeats more than {gap / 1000:g} s apart belong to different runs."
    )
    spans = Spans(device[first], time[first], time[last] + beat)
    return spans if windows is None else cut(spans, windows)


def _beats(between: np.ndarray, gap: int, tally: Tally) -> None:
    """Fails if few heartbeats are within `gap` of the previous one, or most are just beyond it."""
    if len(between) < 5 or np.median(between) <= gap:
        return
    apart = between[between > gap]
    if len(apart) > 0.9 * len(between) or np.median(apart) <= 3 * gap:
        usual = float(np.median(between)) / 1000
        allowed = f"longer than the median interval between heartbeats, {usual:g} s"
        tally.fail(f"{spelled('gap')} = {gap / 1000:g} s: must be {allowed}")


def _within(rows: Rows, outside: np.ndarray, windows: Spans, tally: Tally) -> None:
    """Fails if no row is within the windows of its device, and notes if few are."""
    if not outside.sum() * 2 > len(outside):
        return
    i = int(np.flatnonzero(outside)[0])
    own = windows.only(windows.device == rows.device[i])
    first, last = tally.moment(int(own.start.min())), tally.moment(int(own.end.max()))
    when = f"{tally.devices[rows.device[i]][:40]!r} at {tally.moment(int(rows.start[i]))}"
    seen = f"the log has {when}, the windows have it from {first} to {last}"
    if outside.all():
        tally.fail(f"none of its {tally.rows} rows can be used: none is within its device's windows; {seen}")
    tally.note(f"Only {int((~outside).sum()):,} of {len(outside):,} rows are within their device's windows: {seen}.")


def _sorted(rows: Rows, tally: Tally, *by: str) -> Rows:
    """Sorted by these columns, without rows that repeat all of them."""
    rows = rows.only(_order(*(getattr(rows, name) for name in by)))
    columns = [getattr(rows, name) for name in by]
    twin = np.r_[False, np.all([column[1:] == column[:-1] for column in columns], axis=0)]
    tally.mark("rows that are exact duplicates", twin, LEFT_OUT, rows.shown(tally))
    return rows.only(~twin)


def _order(*columns: np.ndarray) -> np.ndarray:
    """Positions in the order of these columns. Polars sorts on all cores."""
    table = pl.DataFrame(dict(zip("abc", columns, strict=False)))
    return table.select(pl.arg_sort_by(table.columns)).to_series().to_numpy()


def _backwards(rows: Rows, tally: Tally) -> None:
    """Counts rows whose time is before that of the same device's row above."""
    if (np.diff(rows.start) >= 0).all():
        return
    order = np.argsort(rows.device, kind="stable")
    device, time = rows.device[order], rows.start[order]
    back = np.r_[False, (device[1:] == device[:-1]) & (time[1:] < time[:-1])]
    tally.mark("times that go back within a device", back, "kept, sorted", rows.only(order).shown(tally))
