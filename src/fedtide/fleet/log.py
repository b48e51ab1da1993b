"""A fleet's availability log, read and put in order."""

from typing import NamedTuple

import polars as pl


class Issue(NamedTuple):
    """Something in a log that was not as it should be: how often, what was done about it, where to look."""

    kind: str  # what, in words: "rows that end before they start"
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]  # not the method of tuples
    done: str  # "left out", "merged", "kept"
    examples: tuple[str, ...] = ()  # up to three, with the number of the row


class Account(NamedTuple):
    """What became of every row of a log: `rows` = `used` + the counts of the issues whose rows were left out."""

    source: str
    form: str  # intervals, events, heartbeats or matrix
    rows: int
    used: int
    issues: tuple[Issue, ...] = ()
    notes: tuple[str, ...] = ()  # what was assumed, in sentences


class Log(NamedTuple):
    """When each device was there, and when it was observed at all.

    Times are whole milliseconds since 1970 (UTC), or since the origin of the log's own clock where `zone` is None.
    Rows are sorted by device and start; those of a device are disjoint and do not touch.
    """

    devices: tuple[str, ...]  # names, in the order of the numbers in the tables
    intervals: pl.DataFrame  # device u32, start i64, end i64: there from start up to, not including, end
    windows: pl.DataFrame  # device u32, start i64, end i64: observed; outside of them nothing is known
    zone: str | None  # the time zone in which days are counted; None where time 0 of the log has no date
    account: Account
