"""The account of a log while it is read: every row is counted exactly once."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NoReturn
from zoneinfo import ZoneInfo

import numpy as np

from fedtide.errors import FedtideError
from fedtide.fleet.log import Account, Issue

LEFT_OUT = "left out"
EXAMPLES = 3  # of each kind of issue
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Tally:
    """Counts rows, issues and notes. `rows` = used + the issues that are "left out", by construction of `used`."""

    def __init__(self, source: str, word: str = "row"):
        self.source = source
        self.word = word  # the unit of row numbers: "line" or "row"
        self.zone: str | None = None  # of the dates in examples; None if the clock has no dates
        self.devices: Sequence[str] = ()  # names by number, for examples
        self.rows = 0
        self.notes: list[str] = []
        self._issues: dict[tuple[str, str], tuple[int, tuple[str, ...]]] = {}

    def add(self, kind: str, count: int, done: str, examples: Iterable[str] = ()) -> None:
        """Adds to a kind of issue; the first three examples are kept."""
        if count:
            before, shown = self._issues.get((kind, done), (0, ()))
            if len(shown) < EXAMPLES:
                shown = (*shown, *examples)[:EXAMPLES]
            self._issues[kind, done] = (before + int(count), shown)

    def mark(self, kind: str, mask: np.ndarray, done: str, show: Callable[[int], str]) -> None:
        """An issue of the rows in the mask; `show` describes the row at a position."""
        places = np.flatnonzero(mask)
        self.add(kind, len(places), done, (f"{self.word} {show(int(i))}" for i in places[:EXAMPLES]))

    def note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)

    def moment(self, ms: int) -> str:
        """A time of an example: a date, or seconds of the log's own clock."""
        if self.zone is not None:
            with contextlib.suppress(OverflowError, ValueError):  # before the year 1
                moment = (_EPOCH + timedelta(milliseconds=ms)).astimezone(ZoneInfo(self.zone))
                return moment.isoformat(timespec="milliseconds" if ms % 1000 else "seconds")
        return f"{ms / 1000:.10g} s"

    def issues(self) -> tuple[Issue, ...]:
        return tuple(Issue(kind, count, done, shown) for (kind, done), (count, shown) in self._issues.items())

    def absorb(self, other: "Tally", prefix: str) -> None:
        """Adds the issues of another table, whose rows do not count as left out of this one."""
        for issue in other.issues():
            done = "not used" if issue.done == LEFT_OUT else issue.done
            self.add(f"{prefix}: {issue.kind}", issue.count, done, issue.examples)
        for sentence in other.notes:
            self.note(f"{prefix}: {sentence}")

    def account(self, form: str) -> Account:
        left_out = sum(issue.count for issue in self.issues() if issue.done == LEFT_OUT)
        return Account(self.source, form, self.rows, self.rows - left_out, self.issues(), tuple(self.notes))

    def fail(self, words: str) -> NoReturn:
        """The one-line error that names the file."""
        raise FedtideError(f"{self.source}: {' '.join(words.split())}")

    def nothing_left(self) -> NoReturn:
        kinds = "; ".join(f"{issue.count} {issue.kind}" for issue in self.issues() if issue.done == LEFT_OUT)
        self.fail(f"none of its {self.rows} rows can be used" + (f" ({kinds})" if kinds else ""))


def lasting(ms: int) -> str:
    """A measured length of time: `1.5 hours`, from two days on `2.25 days`."""
    return f"{ms / 86_400_000:.3g} days" if ms >= 172_800_000 else f"{ms / 3_600_000:.3g} hours"
