"""From rows to spans: intervals, events and heartbeats, each in its own way."""

from typing import cast

import numpy as np
import polars as pl

from fedtide.fleet.reading.folds import without
from fedtide.fleet.reading.rows import Rows
from fedtide.fleet.reading.spans import Spans, covered, cut, merge
from fedtide.fleet.reading.tally import LEFT_OUT, Tally


def intervals(rows: Rows, windows: Spans | None, names: list[str], tally: Tally) -> Spans:
    """Intervals, merged and cut to the windows."""
    rows = _in_order(rows, ["device", "start", "end"])
    rows = _without_twins(rows, [rows.device, rows.start, rows.end], names, tally)
    spans = Spans(rows.device, rows.start, rows.end)
    if windows is not None:
        length = covered(spans, windows)
        outside, part = length == 0, (length > 0) & (length < spans.end - spans.start)
        tally.add(
            "rows outside of their device's windows", outside.sum(), LEFT_OUT, _shown(rows, outside, names, tally)
        )
        tally.add("rows partly outside of their device's windows", part.sum(), "cut", _shown(rows, part, names, tally))
        _within(rows, outside, windows, names, tally)
        rows, spans = rows.only(~outside), spans.only(~outside)
    merged, overlaps, touches = merge(spans)
    tally.add(
        "rows that overlap an earlier row of the same device",
        overlaps.sum(),
        "merged",
        _shown(rows, overlaps, names, tally),
    )
    tally.add(
        "rows that begin when an earlier row of the same device ends",
        touches.sum(),
        "merged",
        _shown(rows, touches, names, tally),
    )
    return merged if windows is None else cut(merged, windows)


def events(
    rows: Rows, gap: int | None, windows: Spans | None, whole: bool, names: list[str], tally: Tally
) -> tuple[Spans, Spans]:
    """Spans and windows from changes of state: a state lasts until the device's next event, the last until its window
    ends. Before its first event nothing is known of a device; where windows are given, the opposite state is assumed.
    In long gaps between polls nothing is known.
    """
    _backwards(rows, names, tally)
    rows = _in_order(rows, ["device", "start", "state", "number"])
    rows = _without_twins(rows, [rows.device, rows.start, rows.state], names, tally)
    rows = _in_order(rows, ["device", "start", "number"])
    device, time, state = rows.device, rows.start, rows.state
    same = device[1:] == device[:-1]
    clash = np.append(same & (time[1:] == time[:-1]), False)
    tally.add(
        "events at the same moment as a later one of the other state",
        clash.sum(),
        "kept: the later counts",
        _shown(rows, clash, names, tally),
    )
    again = np.concatenate([[False], same & (state[1:] == state[:-1])])
    tally.add("events that repeat the state", again.sum(), "kept", _shown(rows, again, names, tally))
    first, last = np.concatenate([[True], ~same]), np.append(~same, True)
    if windows is None:
        finish = time[last] if not whole else np.full(last.sum(), time.max())
        windows = Spans(device[first], time[first], finish).only(time[first] < finish)
        tally.note("Before its first event nothing is known of a device; its last state lasts until its window ends.")
    else:
        outside = covered(Spans(device, time, time + 1), windows) == 0
        tally.add(
            "events outside of their device's windows",
            outside.sum(),
            "kept: they say how a window begins",
            _shown(rows, outside, names, tally),
        )
        tally.note(
            "Before its first event a device is taken to be in the opposite state, from the beginning of its window."
        )
    far = max(int(windows.end.max()), int(time.max())) if len(windows.end) else int(time.max())
    until = np.where(last, far, np.append(time[1:], far))
    spans = Spans(device, time, until).only(state & (until > time))
    early = first & ~state  # it left: so it was there
    begin = min(int(windows.start.min()), int(time.min())) - 1 if len(windows.start) else int(time.min())
    before = Spans(device[early], np.full(early.sum(), begin), time[early])
    both = _in_order_spans(Spans(*(np.concatenate(pair) for pair in zip(spans, before, strict=True))))
    if gap is not None or again.sum() * 2 > len(again):
        windows = _polled(rows, gap, windows, begin, max(far, int(time.max()) + 1), tally)
    return cut(merge(both)[0], windows), windows


def _polled(rows: Rows, gap: int | None, windows: Spans, begin: int, far: int, tally: Tally) -> Spans:
    """The windows less the gaps between events: longer than `gap`, or 10 times what is usual for the device."""
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
        tally.note(f"Most events repeat the state, as polls do; usually they are {fleet / 1000:g} s apart.")
        if rows.state.all():
            tally.note("All events say that a device is there: if who is gone has no rows, read them as heartbeats.")
    count = int(hole.sum()) + len(late)
    if not count:
        return windows
    over = "10 times what is usual for the device" if gap is None else f"{gap / 1000:g} s"
    gaps = "1 gap" if count == 1 else f"{count:,} gaps"
    tally.note(
        f"In {gaps} of more than {over} without an event nothing is known of the device, "
        "but for the usual time after the last event before."
    )
    at, who = time[hole], device[hole]
    begins = np.concatenate([at + np.minimum(usual, limit)[who], opens[device[late]]])
    holes = Spans(np.concatenate([who, device[late]]), begins, np.concatenate([at + between[hole], time[late]]))
    return without(windows, holes)


def heartbeats(rows: Rows, gap: int, windows: Spans | None, names: list[str], tally: Tally) -> Spans:
    """A device is there from the first of a run of heartbeats, none further than `gap` from the one before, until one
    usual beat after its last (the median time between heartbeats of runs): so the length of a stay is right on average.
    """
    _backwards(rows, names, tally)
    rows = _in_order(rows, ["device", "start"])
    rows = _without_twins(rows, [rows.device, rows.start], names, tally)
    if windows is not None:
        outside = covered(Spans(rows.device, rows.start, rows.start + 1), windows) == 0
        tally.add(
            "heartbeats outside of their device's windows",
            outside.sum(),
            LEFT_OUT,
            _shown(rows, outside, names, tally),
        )
        _within(rows, outside, windows, names, tally)
        rows = rows.only(~outside)
    device, time = rows.device, rows.start
    between, same = np.diff(time), device[1:] == device[:-1]
    joined = same & (between <= gap)
    _beats(between[same], gap, tally)
    beat = int(np.median(between[joined])) if joined.any() else gap
    usual = " (the usual time between two)" if joined.any() else ""
    first, last = np.concatenate([[True], ~joined]), np.append(~joined, True)
    tally.note(
        f"A device is there from a heartbeat until {beat / 1000:g} s{usual} after the last of its run; "
        f"heartbeats more than {gap / 1000:g} s apart are of different runs."
    )
    spans = Spans(device[first], time[first], time[last] + beat)
    return spans if windows is None else cut(spans, windows)


def _beats(between: np.ndarray, gap: int, tally: Tally) -> None:
    """Fails where hardly any heartbeats are within `gap` of the one before, or most are just beyond it."""
    if len(between) < 5 or np.median(between) <= gap:
        return
    apart = between[between > gap]
    if len(apart) > 0.9 * len(between) or np.median(apart) <= 3 * gap:
        usual = float(np.median(between)) / 1000
        tally.fail(f"heartbeats of a device are usually {usual:g} s apart; gap, {gap / 1000:g} s, must be longer")


def _within(rows: Rows, outside: np.ndarray, windows: Spans, names: list[str], tally: Tally) -> None:
    """Fails where no row lies within the windows of its device, and says so where few do."""
    if not outside.sum() * 2 > len(outside):
        return
    i = int(np.flatnonzero(outside)[0])
    own = windows.only(windows.device == rows.device[i])
    first, last = tally.moment(int(own.start.min())), tally.moment(int(own.end.max()))
    when = f"{names[rows.device[i]][:40]!r} at {tally.moment(int(rows.start[i]))}"
    seen = f"the log has {when}, the windows have it from {first} to {last}"
    if outside.all():
        tally.fail(f"none of its {tally.rows} rows can be used: none lies within its device's windows; {seen}")
    tally.note(f"Only {int((~outside).sum()):,} of {len(outside):,} rows lie within their device's windows: {seen}.")


def _in_order(rows: Rows, by: list[str]) -> Rows:
    table = pl.DataFrame({name: column for name, column in rows._asdict().items() if len(column)})
    if not table.height:
        return rows
    table = table.sort(by)
    return Rows(
        *(table[name].to_numpy() if name in table.columns else column for name, column in rows._asdict().items())
    )


def _in_order_spans(spans: Spans) -> Spans:
    order = np.lexsort((spans.start, spans.device))
    return spans.only(order)


def _without_twins(rows: Rows, columns: list[np.ndarray], names: list[str], tally: Tally) -> Rows:
    twin = np.ones(max(len(rows.device) - 1, 0), bool)
    for column in columns:
        twin &= column[1:] == column[:-1]
    twin = np.concatenate([[False], twin])[: len(rows.device)]
    if not twin.any():
        return rows
    tally.add("rows that are exact duplicates", twin.sum(), LEFT_OUT, _shown(rows, twin, names, tally))
    return rows.only(~twin)


def _backwards(rows: Rows, names: list[str], tally: Tally) -> None:
    """Counts rows whose time is before that of the same device's row above."""
    if (np.diff(rows.start) >= 0).all():
        return
    order = np.argsort(rows.device, kind="stable")
    device, time = rows.device[order], rows.start[order]
    back = np.concatenate([[False], (device[1:] == device[:-1]) & (time[1:] < time[:-1])])
    tally.add(
        "times that go back within a device", back.sum(), "kept, sorted", _shown(rows.only(order), back, names, tally)
    )


def _shown(rows: Rows, mask: np.ndarray, names: list[str], tally: Tally) -> list[str]:
    found = np.flatnonzero(mask)[: tally.wants]
    shown = []
    for i in found:
        times = " to ".join(tally.moment(int(t[i])) for t in (rows.start, rows.end) if len(t))
        shown.append(f"{tally.word} {rows.number[i]}: {names[rows.device[i]][:40]}, {times}")
    return shown
