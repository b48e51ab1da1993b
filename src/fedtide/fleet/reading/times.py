"""Times of a log as whole milliseconds: epoch numbers, ISO texts, or the log's own clock."""

from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from fedtide.errors import FedtideError, InvalidInput, one_of
from fedtide.fleet.reading.columns import plain
from fedtide.fleet.reading.tally import Tally

UNITS = {"s": 1e3, "ms": 1.0, "us": 1e-3, "ns": 1e-6}  # milliseconds in each
_WORDS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_BY_SIZE = {"ns": 1e17, "us": 1e14, "ms": 1e11, "s": 0.0}  # the smallest number that is a recent date in each
EARLIEST = 10**11  # milliseconds: 3 March 1973; numbers of seconds below 10⁸ are no dates
_BEYOND = 10**14  # milliseconds, over three thousand years: not a valid time
FINE, MISSING, UNREADABLE, NOT_A_TIME, NEVER_WAS = range(5)
_CLOCKS = ("%H:%M:%S%.f%#z", "%H:%M:%S%.f", "%H:%M%#z", "%H:%M", "%H:%M:%S%.f %#z")
_FORMATS = (*(f"%Y-%m-%d{gap}{clock}" for gap in ("T", " ") for clock in _CLOCKS), "%Y-%m-%d")
_NOTHING = ("", "null", "none", "na", "n/a", "-")


class Times(NamedTuple):
    """What the caller specifies about a log's times; None if inferred from the log."""

    unit: str | None = None
    origin: str | None = None
    zone: str | None = None


class LogClock(NamedTuple):
    """The format and meaning of times."""

    numbers: bool  # numbers, else ISO texts (or typed times)
    scale: float  # milliseconds in a unit
    origin: int  # milliseconds since 1970 of time 0
    zone: str | None  # in which days are counted; None where the log's clock has no date
    local: str  # the zone of times written without one
    naive: str = ""  # whether "all" or "some" of the first times are written without one
    named: bool = False  # the unit of a column is the ending of its name, if it is one

    @property
    def unit(self) -> str:
        return next(_WORDS[name] for name, scale in UNITS.items() if scale == self.scale)


def settle(column: pl.Series, tally: Tally, times: Times) -> LogClock:
    """The clock of a log, from the first values of a time column."""
    unit, origin, zone = times
    try:
        ZoneInfo(zone or "UTC")
    except (KeyError, OSError, ValueError, TypeError):
        raise InvalidInput("zone", zone, "a time zone such as Europe/Berlin or UTC") from None
    if unit is not None and unit not in UNITS:
        raise InvalidInput("unit", unit, one_of(str(unit), UNITS))
    local = zone or "UTC"
    first = _origin(origin, local) if origin is not None else 0
    if column.dtype == pl.Duration:
        return _own_clock(LogClock(True, 1.0, first, None, local), tally, origin, zone)
    if column.dtype.is_temporal():
        aware = getattr(column.dtype, "time_zone", None)
        if zone is None and aware not in (None, "UTC"):
            tally.note(f"Times are given in {aware}; days are counted in UTC unless zone is given.")
        return _dated(local, "" if aware else "all", tally, origin)
    values = _numbers(column)
    finite = values[np.isfinite(values)]
    written = column.drop_nulls()
    if not column.dtype.is_numeric() and len(finite) * 2 <= len(written):
        status = _iso(written.cast(pl.String).str.strip_chars(), local)[1]
        if len(status) and not (status == FINE).any():
            example = str(written[0])[:40]
            tally.fail(
                f"column {column.name}: {example!r} is neither a number nor an ISO time such as 2024-05-01T12:00:00Z"
            )
        placed = written.cast(pl.String).str.contains(r"(?:Z|:\d\d(?:\.\d+)? ?[+-]\d\d(?::?\d\d)?)\s*$")
        naive = "" if placed.all() else "some" if placed.any() else "all"
        if zone is None:
            _note_offsets(written.cast(pl.String), tally)
        return _dated(local, naive, tally, origin)
    middle = float(np.median(np.abs(finite))) if len(finite) else 0.0
    by_size = next(name for name, least in _BY_SIZE.items() if middle >= least)
    guessed = "s" if origin is not None else by_size
    named = unit_of(column.name)
    scale = UNITS[unit or named or guessed]
    inferred = "" if origin is not None else ", inferred from their magnitude"
    why = f", as the name of column {column.name} says" if named else inferred
    assumed = "" if unit else f"Times are assumed to be in {_WORDS[named or guessed]}{why}."
    if assumed:
        tally.note(assumed)
    if origin is not None or middle * scale < EARLIEST:
        return _own_clock(LogClock(True, scale, first, None, local, named=not unit), tally, origin, zone)
    return LogClock(True, scale, 0, local, local, named=not unit)


def unit_of(name: str) -> str | None:
    """The unit at the end of a column's name, as in start_ms."""
    ending = plain(name).rpartition("_")[2]
    return ending if ending in UNITS and len(ending) < len(name.strip()) else None


def moments(column: pl.Series, clock: LogClock) -> tuple[np.ndarray, np.ndarray]:
    """Milliseconds, and for each value whether it is FINE, MISSING, UNREADABLE, …; 0 where not fine."""
    if column.dtype.is_temporal() and column.dtype != pl.Duration:
        if clock.numbers:
            return np.zeros(len(column), np.int64), np.full(len(column), UNREADABLE, np.uint8)
        return _typed(column, clock.local)
    if not clock.numbers:
        if column.dtype != pl.String:
            column = column.cast(pl.String)
        return _iso(column.str.strip_chars(), clock.local)
    named = unit_of(column.name) if clock.named and column.dtype != pl.Duration else None
    values = _numbers(column) * (UNITS[named] if named else clock.scale)
    status = np.where(np.isfinite(values), FINE, NOT_A_TIME).astype(np.uint8)
    bare = np.isnan(values)
    if bare.any():
        odd = column.filter(pl.Series(bare)).cast(pl.String).str.strip_chars().str.to_lowercase()
        words = odd.is_null() | odd.is_in(_NOTHING)
        status[bare] = np.select(
            [words.to_numpy(), (odd == "nan").fill_null(False).to_numpy()], [MISSING, NOT_A_TIME], UNREADABLE
        )
    with np.errstate(invalid="ignore"):
        status[(np.abs(values) > _BEYOND) & (status == FINE)] = NOT_A_TIME
    ms = np.rint(np.where(status == FINE, values, 0)).astype(np.int64)
    return ms + np.where(status == FINE, clock.origin, 0), status


def _numbers(column: pl.Series) -> np.ndarray:
    """Float64; NaN where there is no number."""
    if column.dtype == pl.Duration:
        column = column.dt.total_milliseconds()
    if column.dtype == pl.String:
        column = column.str.strip_chars()
    elif not column.dtype.is_numeric():
        return np.full(len(column), np.nan)
    return column.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()


def _iso(column: pl.Series, local: str) -> tuple[np.ndarray, np.ndarray]:
    missing = (column.is_null() | column.str.to_lowercase().is_in(_NOTHING)).to_numpy()
    ms, status = np.zeros(len(column), np.int64), np.where(missing, MISSING, UNREADABLE).astype(np.uint8)
    for style in _order(column):
        open_rows = np.flatnonzero(status == UNREADABLE)
        if not len(open_rows):
            break
        texts = column if len(open_rows) == len(column) else column[open_rows]
        read, fine = _typed(_read_as(texts, style), local)
        good = open_rows[fine == FINE]
        ms[good], status[good] = read[fine == FINE], FINE
        status[open_rows[fine == NEVER_WAS]] = NEVER_WAS
    return ms, status


def _order(column: pl.Series) -> list[str]:
    """The formats, in the order of their frequency in the first texts: most logs have one."""
    head = column.head(50).drop_nulls()
    return sorted(_FORMATS, key=lambda style: -_read_as(head, style).count())


def _read_as(texts: pl.Series, style: str) -> pl.Series:
    """Null where a text is of another style."""
    return texts.str.to_datetime(style, strict=False, time_unit="ms", time_zone="UTC" if "%#z" in style else None)


def _typed(column: pl.Series, local: str) -> tuple[np.ndarray, np.ndarray]:
    status = np.where(column.is_null().to_numpy(), MISSING, FINE).astype(np.uint8)
    if column.dtype == pl.Time:
        return np.zeros(len(column), np.int64), np.full(len(column), UNREADABLE, np.uint8)
    dated = column.cast(pl.Datetime("ms")) if column.dtype == pl.Date else column.dt.cast_time_unit("ms")
    if getattr(dated.dtype, "time_zone", None) is None and local != "UTC":
        # The hour that occurs twice when clocks are set back: its first time (see folds.py).
        dated = dated.dt.replace_time_zone(local, ambiguous="earliest", non_existent="null")
        status[dated.is_null().to_numpy() & (status == FINE)] = NEVER_WAS
    numbers = dated.to_physical()
    lost = numbers.is_null().to_numpy() & (status == FINE)
    ms = numbers.fill_null(0).to_numpy().astype(np.int64)
    status[lost | ((np.abs(ms) > _BEYOND) & (status == FINE))] = NOT_A_TIME
    return np.where(status == FINE, ms, 0), status


def _origin(text: str, local: str) -> int:
    ms, status = _iso(pl.Series([str(text).strip()]), local)
    if status[0] != FINE:
        raise InvalidInput("origin", text, "an ISO time such as 2024-05-01T12:00:00Z")
    return int(ms[0])


def _own_clock(clock: LogClock, tally: Tally, origin: str | None, zone: str | None) -> LogClock:
    if origin is not None:
        return clock._replace(zone=clock.local)
    if zone is not None:
        raise FedtideError(
            f"zone = {zone!r}: the times of {tally.source} have no date; give origin, the date of time 0"
        )
    tally.note("Times have no date: days are counted from time 0, and weekdays are unknown.")
    return clock


def _dated(local: str, naive: str, tally: Tally, origin: str | None) -> LogClock:
    if origin is not None:
        raise FedtideError(f"origin = {origin!r}: the times of {tally.source} have dates")
    if naive:
        tally.note(f"Times written without a zone are assumed to be in {local}.")
    return LogClock(False, 1.0, 0, local, local, naive)


def _note_offsets(written: pl.Series, tally: Tally) -> None:
    """Notes offsets from UTC, as days begin at midnight of UTC unless `zone` is given."""
    offsets = written.str.extract(r"\d ?([+-]\d\d:?\d\d)\s*$").drop_nulls().unique().sort().to_list()
    offsets = [offset for offset in offsets if offset.strip("+-").replace(":", "") != "0000"]
    if offsets:
        shown = ", ".join(offsets[:3]) + (", …" if len(offsets) > 3 else "")
        tally.note(f"Times are given at {shown}; days are counted in UTC unless zone is given.")
