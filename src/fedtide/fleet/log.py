"""The availability log of a fleet."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import polars as pl  # simulations use accounts, but not polars


class Issue(NamedTuple):
    """An irregularity in a log: how often it occurs, what was done, examples."""

    kind: str  # for example "rows that end before they start"
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]  # not the method of tuples
    done: str  # "left out", "merged", "kept"
    examples: tuple[str, ...] = ()  # up to three, with the number of the row


class Account(NamedTuple):
    """How every row of a log was handled: `rows` = `used` + the counts of the issues whose rows were left out."""

    source: str
    form: str  # intervals, events, heartbeats or matrix
    rows: int
    used: int
    issues: tuple[Issue, ...] = ()
    notes: tuple[str, ...] = ()  # assumptions, as sentences


class Log(NamedTuple):
    """When each device was available, and when it was observed.

    Times are whole milliseconds since 1970 (UTC), or since the origin of the log's own clock where `zone` is None.
    Rows are sorted by device and start; those of a device are disjoint and do not touch.
    """

    devices: tuple[str, ...]  # names, in the order of the numbers in the tables
    intervals: "pl.DataFrame"  # device u32, start i64, end i64: available from start up to, not including, end
    windows: "pl.DataFrame"  # device u32, start i64, end i64: observed
    zone: str | None  # the time zone in which days are counted; None where time 0 of the log has no date
    account: Account
