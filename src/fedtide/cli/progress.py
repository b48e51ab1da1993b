"""Progress bars, and Ctrl-C between segments: inside compiled code it might be lost or crash the process."""

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import typer
from rich.progress import TaskID

from fedtide.cli.faults import STOPPED
from fedtide.simulation import bars

if TYPE_CHECKING:
    from fedtide.simulation.progress import Progress as Report


class LabelledBars(bars.Bars):
    """One bar per label, added when it begins; each warning is printed once."""

    def __init__(self, unit: str = "") -> None:
        super().__init__(logging.WARNING, unit)
        self._bars: dict[str, TaskID] = {}
        self._shown: set[str] = set()

    def __call__(self, label: str, done: int, total: int) -> None:
        if not self._bars:  # not earlier: a start that fails prints its error only
            self._progress.start()
        if label not in self._bars:
            self._bars[label] = self._progress.add_task(label, total=total)
        self._progress.update(self._bars[label], completed=done)

    def emit(self, record: logging.LogRecord) -> None:
        if (text := record.getMessage()) not in self._shown:
            self._shown.add(text)
            super().emit(record)


@contextmanager
def announced(what: str, after: float = 3.0) -> Iterator[None]:
    """Prints what is being done if the block takes longer than this many seconds."""
    timer = threading.Timer(after, typer.echo, (f"{what} …",), {"err": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def interruptible(shown: "AbstractContextManager[Report]", within: float | None = None) -> "Iterator[Report]":
    """Shows the bars and yields a function that updates them; after Ctrl-C its next call raises KeyboardInterrupt.

    A second Ctrl-C ends the process immediately (the last checkpoint remains). With `within`, SIGTERM is treated as
    Ctrl-C, and the process ends after that many seconds even if the function is not called before: for commands that
    have written all that they keep.
    """
    stopping, timers = False, []

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal stopping
        if stopping:
            os._exit(STOPPED)
        stopping = True
        typer.echo("stopping after this segment (press Ctrl-C again to stop immediately)", err=True)
        if within is not None:
            typer.echo("what is finished has been kept; the same command continues from there", err=True)
            timer = threading.Timer(within, os._exit, (STOPPED,))
            timer.daemon = True
            timer.start()
            timers.append(timer)

    with shown as show:

        def progress(label: str, done: int, total: int) -> None:
            show(label, done, total)
            if stopping:
                raise KeyboardInterrupt

        signals = [signal.SIGINT] if within is None else [signal.SIGINT, signal.SIGTERM]
        before = {number: signal.signal(number, remember) for number in signals}
        try:
            yield progress
        finally:
            for timer in timers:
                timer.cancel()
            for number, handler in before.items():
                signal.signal(number, handler)
