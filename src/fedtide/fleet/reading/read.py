"""Reads the log of a fleet in any supported format."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

import numpy as np
import polars as pl

from fedtide.errors import InvalidInput, check_one_of, number, one_of, spelled
from fedtide.fleet.log import Log
from fedtide.fleet.reading import forms
from fedtide.fleet.reading.columns import FORMS, check_types, find_columns, note_ignored
from fedtide.fleet.reading.folds import unfold
from fedtide.fleet.reading.matrix import is_matrix, read_arrays, read_matrix
from fedtide.fleet.reading.rows import Names, RowFormat, Rows, read_rows, state_words, without_far
from fedtide.fleet.reading.source import Matrices, SourceTable, is_database, open_source, read_database
from fedtide.fleet.reading.spans import Spans, cut, without
from fedtide.fleet.reading.tally import Tally
from fedtide.fleet.reading.times import Times, settle
from fedtide.fleet.reading.windows import close_ends, read_windows, with_window
from fedtide.kinds import kinds_checked
from fedtide.text import count

Observed = Literal["whole", "own"]


@kinds_checked
def read(
    source: Any,
    *,
    form: str | None = None,
    columns: Mapping[str, str] | None = None,
    where: Mapping[str, str] | None = None,
    gap: float | None = None,
    windows: Any = None,
    observed: Observed = "whole",
    zone: str | None = None,
    origin: str | None = None,
    unit: str | None = None,
    round_seconds: int | None = None,
    on: Iterable[str] = (),
    off: Iterable[str] = (),
) -> Log:
    """Reads an availability log: when devices were available, when they were observed, and an account of every row.

    The source is a path (CSV, JSON lines, either of them gz; Parquet; npy, npz; the SQLite ledger of a deployment) or a
    polars frame. Its form is inferred from its columns (`columns` maps our names device, start, end, time, state to the
    log's):

    - intervals (device, start, end): available from start up to end; where the end is empty, until the log ends;
    - events (device, time, state): a state lasts until the device's next event. Where most events repeat the state, as
      those of polls do, gaps of over 10 times the median interval (or over `gap` seconds) are not observed;
    - heartbeats (device, time): unavailable after `gap` seconds without one; available from the first of a run until
      one median interval after its last;
    - matrix (rounds × devices of 1, 0 and −1 or nothing for "not observed"), with a time column or `round_seconds`.

    Times are epoch numbers (in `unit` s, ms, us or ns; else in the unit that ends the column's name, as in start_ms;
    else inferred from their magnitude), ISO texts (in `zone` where they name none), or the log's own clock (numbers
    under 10⁸ seconds); its time 0 may be dated with `origin`. `zone` is also the zone in which days are counted.
    `where` keeps the rows with these values, e.g. {"kind": "charging"}.

    A device is not observed outside of its windows (`windows`: a table of device, start, end). Without them it is
    assumed to be observed from the log's first to its last moment ("whole"), or from its own first to last ("own").

    >>> log = read(pl.DataFrame({"device": ["a", "a", "b"], "start": [0, 50, 30], "end": [60, 90, 20]}))
    >>> log.intervals.rows()
    [(0, 0, 90000)]
    >>> log.account.rows, log.account.used, [issue.kind for issue in log.account.issues]
    (3, 2, ['rows that end before they start', 'rows that overlap an earlier row of the same device'])
    """
    columns, where = dict(columns or {}), {str(k): str(v) for k, v in (where or {}).items()}
    check_one_of("observed", observed, Observed)
    if form is not None and form not in (*FORMS, "matrix"):
        raise InvalidInput("form", form, one_of(str(form), (*FORMS, "matrix")))
    if gap is not None:
        number("gap", gap, above=0)
    if round_seconds is not None:
        number("round_seconds", round_seconds, above=0)
    words = state_words(on, off)
    times, name = Times(unit, origin, zone), None
    if is_database(source):
        name, form, times = str(source), "intervals", times._replace(unit="s")
        source, seen = read_database(source)
        windows = seen if windows is None else windows
    opened = open_source(source)
    tally = Tally(name or opened.name, "row" if isinstance(opened, Matrices) else opened.word)
    try:
        if isinstance(opened, Matrices):
            return read_arrays(opened, columns, round_seconds, times, tally)
        if form == "matrix" or (form is None and is_matrix(opened, columns)):
            return read_matrix(opened, columns, round_seconds, times, tally)
        return _read_table(opened, form, columns, where, gap, windows, observed, times, words, tally)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, EOFError) as error:
        tally.fail(f"damaged, or not of the format that it appears to have: {str(error)[:200] or type(error).__name__}")


def _read_table(
    table: SourceTable,
    form: str | None,
    columns: dict[str, str],
    where: dict[str, str],
    gap: float | None,
    windows: Any,
    observed: Observed,
    times: Times,
    words: dict[str, int],
    tally: Tally,
) -> Log:
    for name in where:
        if name not in table.columns:
            known = ", ".join(table.columns[:12])
            tally.fail(f"{spelled('where')}: there is no column {name!r}; its columns are {known}")
    form, chosen = find_columns(table, form, columns, list(where), tally)
    if form == "heartbeats" and gap is None:
        silence = "the seconds without a heartbeat after which a device is unavailable"
        tally.fail(f"heartbeats need {spelled('gap')}: {silence}")
    check_types(table, chosen, tally)
    note_ignored(table, [*chosen.values(), *where], tally)
    clock = settle(table.head[chosen["time" if form != "intervals" else "start"]], tally, times)
    tally.zone = clock.zone
    names = Names()
    rows = read_rows(table, RowFormat(chosen, clock, where, words), names, tally)
    rows = without_far(rows, clock.zone is not None, tally)
    given = None if windows is None else read_windows(windows, clock, times, rows, names, tally)
    if given is not None and len(rows.device):
        rows = with_window(rows, given, names, tally)
    rows = close_ends(rows, given, names, tally)
    rows, holes = unfold(rows, clock, tally)
    if gone := len(names.others - names.codes.keys()):
        have = count(gone, "device has", "devices have")
        tally.note(f"{have} only rows excluded by where, and is not part of this log.")
    if not len(rows.device):
        tally.nothing_left()
    met = np.bincount(rows.device, minlength=len(names.codes)) > 0
    if given is not None:
        met[given.device] = True
    devices, place = _sorted_devices(names, np.flatnonzero(met))
    rows = rows._replace(device=place[rows.device])
    if given is not None:
        given = given._replace(device=place[given.device]).in_order()
    tally.devices = devices
    _note_alike(devices, tally)
    spans, seen = _spans(form, rows, given, observed, gap, tally)
    if len(holes.device):
        seen = without(seen, holes._replace(device=place[holes.device]))
        spans = cut(spans, seen)
    if not len(seen.device):
        tally.fail("spans no time: nothing was observed")
    return Log(devices, spans.frame(), seen.frame(), clock.zone, tally.account(form))


def _spans(
    form: str, rows: Rows, given: Spans | None, observed: Observed, gap: float | None, tally: Tally
) -> tuple[Spans, Spans]:
    """When devices were available, and the windows in which they were observed."""
    devices = len(tally.devices)
    if form == "events":
        limit = None if gap is None else max(1, round(1000 * gap))
        spans, seen = forms.events(rows, limit, given, observed == "whole", tally)
        if given is None and observed == "whole":
            tally.note("Every device is assumed to be observed from its first event to the log's last moment.")
        elif given is None:
            tally.note("Every device is assumed to be observed from its first to its last event.")
        return spans, seen
    if form == "intervals":
        spans = forms.intervals(rows, given, tally)
    else:
        spans = forms.heartbeats(rows, round(1000 * cast(float, gap)), given, tally)
    if given is not None:
        return spans, given
    everyone = np.arange(devices, dtype=np.uint32)
    begins = np.searchsorted(spans.device, everyone)  # each device has a span, and they are sorted
    first, last = spans.start[begins], spans.end[np.append(begins[1:], len(spans.device)) - 1]
    if observed == "own":
        tally.note("Every device is assumed to be observed from its own first to its own last record.")
        return spans, Spans(everyone, first, last)
    tally.note("Every device is assumed to be observed from the log's first to its last moment.")
    begin, finish = first.min(), last.max()
    middle = begin + (finish - begin) // 2
    late, early = int((first >= middle).sum()), int((last <= middle).sum())
    if (late + early) * 10 > devices > 1:
        tally.note(
            f"Of {devices} devices {late} are first seen in the second half of the log and {early} last seen in "
            'the first: they may have joined late or left early. If so, give windows, or observed="own".'
        )
    return spans, Spans(everyone, np.full(devices, begin), np.full(devices, finish))


def _sorted_devices(names: Names, known: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    """The known devices by name (numbers by value), and the place of each code among them."""
    texts = list(names.codes)
    kept = [(texts[code], code) for code in known.tolist()]
    numeric = all(name.isascii() and name.isdecimal() and len(name) < 20 for name, _ in kept)
    kept.sort(key=(lambda pair: (int(pair[0]), pair[0])) if numeric else None)
    place = np.zeros(len(texts), np.uint32)
    place[[code for _, code in kept]] = np.arange(len(kept), dtype=np.uint32)
    return tuple(name for name, _ in kept), place


def _note_alike(devices: tuple[str, ...], tally: Tally) -> None:
    """Notes names of devices that differ only like "A" and "a", or "01" and "1"."""
    met: dict[str, str] = {}
    alike = []
    for name in devices:
        whole = name.removesuffix(".0") if name.removesuffix(".0").isdecimal() else name
        key = whole.lstrip("0") if whole.isdecimal() else whole.casefold()
        if met.setdefault(key, name) != name:
            alike.append(f"{met[key][:40]!r} and {name[:40]!r}")
    if alike:
        shown = ", ".join(alike[:3]) + (f", … ({len(alike)} pairs)" if len(alike) > 3 else "")
        tally.note(f"Treated as different devices despite similar names: {shown}.")
