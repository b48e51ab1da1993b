"""Times of a log as whole milliseconds: epoch numbers, ISO texts, or the log's own clock."""

from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from fedtide.errors import FedtideError, InvalidInput, one_of
from fedtide.fleet.reading.tally import Tally

UNITS = {"s": 1e3, "ms": 1.0, "us": 1e-3, "ns": 1e-6}  # milliseconds in each
EARLIEST = 10**11  # milliseconds: 3 March 1973; numbers of seconds below 10⁸ are no dates
_BEYOND = 10**14  # milliseconds, over three thousand years: no time of a log
FINE, MISSING, UNREADABLE, NOT_A_TIME, NEVER_WAS = range(5)
_CLOCKS = ("%H:%M:%S%.f%#z", "%H:%M:%S%.f", "%H:%M%#z", "%H:%M", "%H:%M:%S%.f %#z")
_FORMATS = (*(f"%Y-%m-%d{gap}{clock}" for gap in ("T", " ") for clock in _CLOCKS), "%Y-%m-%d")
_NOTHING = ("", "null", "none", "na", "n/a", "-")


class Clock(NamedTuple):
    """How times are written, and what they mean."""

    numbers: bool  # numbers, else ISO texts (or typed times)
    scale: float  # milliseconds in a unit
    origin: int  # milliseconds since 1970 of time 0
    zone: str | None  # in which days are counted; None where the log's clock has no date
    local: str  # the zone of times written without one
    naive: str = ""  # whether "all" or "some" of the first times are written without one
    named: bool = False  # each column's name tells its unit, where it ends with one


def check_zone(zone: str | None) -> None:
    if zone is not None:
        try:
            ZoneInfo(zone)
        except (KeyError, OSError, ValueError, TypeError):
            raise InvalidInput("zone", zone, "a time zone such as Europe/Berlin or UTC") from None


def settle(column: pl.Series, tally: Tally, unit: str | None, origin: str | None, zone: str | None) -> Clock:
    """The clock of a log, from the first values of a time column."""
    check_zone(zone)
    if unit is not None and unit not in UNITS:
        raise InvalidInput("unit", unit, one_of(str(unit), UNITS))
    local = zone or "UTC"
    first = _origin(origin, local) if origin is not None else 0
    if column.dtype == pl.Duration:
        return _own_clock(Clock(True, 1.0, first, None, local), tally, "", origin, zone)
    if column.dtype.is_temporal():
        aware = getattr(column.dtype, "time_zone", None)
        if zone is None and aware not in (None, "UTC"):
            tally.note(f"Times are given in {aware}; days are counted in UTC: give zone.")
        clock = Clock(False, 1.0, 0, local, local, "" if aware else "all")
        return _dated(clock, tally, "" if aware else "written without a zone", origin)
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
        clock = Clock(False, 1.0, 0, local, local, naive)
        return _dated(clock, tally, "written without a zone" if naive else "", origin)
    middle = float(np.median(np.abs(finite))) if len(finite) else 0.0
    guessed = (
        "s"
        if origin is not None
        else "ns"
        if middle >= 1e17
        else "us"
        if middle >= 1e14
        else "ms"
        if middle >= 1e11
        else "s"
    )
    named = unit_of(column.name)
    scale = UNITS[unit or named or guessed]
    why = f", as the name of column {column.name} says" if named else "" if origin is not None else ", by their size"
    said = "" if unit else f"Times are taken as {_words(named or guessed)}{why}."
    if origin is not None or middle * scale < EARLIEST:
        return _own_clock(Clock(True, scale, first, None, local, named=not unit), tally, said, origin, zone)
    if said:
        tally.note(said)
    return Clock(True, scale, 0, local, local, named=not unit)


def unit_of(name: str) -> str | None:
    """The unit that the name of a column ends with, as start_ms does."""
    ending = name.strip().lower().replace(" ", "_").replace("-", "_").replace(".", "_").rpartition("_")[2]
    return ending if ending in UNITS and len(ending) < len(name.strip()) else None


def moments(column: pl.Series, clock: Clock) -> tuple[np.ndarray, np.ndarray]:
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
        read = texts.str.to_datetime(style, strict=False, time_unit="ms", time_zone="UTC" if "%#z" in style else None)
        found, fine = _typed(read, local)
        good = open_rows[fine == FINE]
        ms[good], status[good] = found[fine == FINE], FINE
        status[open_rows[fine == NEVER_WAS]] = NEVER_WAS
    return ms, status


def _order(column: pl.Series) -> list[str]:
    """The formats, those that the first texts have first: most logs have one."""
    head = column.head(50).drop_nulls()
    hits = {
        style: head.str.to_datetime(
            style, strict=False, time_unit="ms", time_zone="UTC" if "%#z" in style else None
        ).count()
        for style in _FORMATS
    }
    return sorted(_FORMATS, key=lambda style: -hits[style])


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


def _own_clock(clock: Clock, tally: Tally, said: str, origin: str | None, zone: str | None) -> Clock:
    if said:
        tally.note(said)
    if origin is None:
        if zone is not None:
            raise FedtideError(
                f"zone = {zone!r}: the times of {tally.source} have no date; give origin, the date of time 0"
            )
        tally.note("Times are the log's own clock: days are counted from its time 0, and weekdays are unknown.")
        return clock
    return clock._replace(zone=clock.local)


def _dated(clock: Clock, tally: Tally, naive: str, origin: str | None) -> Clock:
    if origin is not None:
        raise FedtideError(f"origin = {origin!r}: the times of {tally.source} have dates of their own")
    if naive:
        tally.note(f"Times {naive} are taken as {clock.local}.")
    return clock


def _note_offsets(written: pl.Series, tally: Tally) -> None:
    """Days begin at midnight of UTC where nobody says otherwise, which offsets seem to."""
    found = written.str.extract(r"\d ?([+-]\d\d:?\d\d)\s*$").drop_nulls().unique().sort().to_list()
    found = [offset for offset in found if offset.strip("+-").replace(":", "") != "0000"]
    if found:
        shown = ", ".join(found[:3]) + (", …" if len(found) > 3 else "")
        tally.note(f"Times are given at {shown}; days are counted in UTC: give zone.")


def _words(unit: str) -> str:
    return {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}[unit]
