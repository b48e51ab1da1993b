"""Progress bars, and Ctrl-C between segments: inside compiled code it might be lost or crash the process."""

import logging
import os
import signal
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
def interruptible(shown: "AbstractContextManager[Report]") -> "Iterator[Report]":
    """Shows the bars and yields a function that updates them; after Ctrl-C its next call raises KeyboardInterrupt.

    A second Ctrl-C ends the process immediately (the last checkpoint remains).
    """
    stopping = False

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal stopping
        if stopping:
            os._exit(STOPPED)
        stopping = True
        typer.echo("stopping after this segment (press Ctrl-C again to stop immediately)", err=True)

    with shown as show:

        def progress(label: str, done: int, total: int) -> None:
            show(label, done, total)
            if stopping:
                raise KeyboardInterrupt

        before = signal.signal(signal.SIGINT, remember)
        try:
            yield progress
        finally:
            signal.signal(signal.SIGINT, before)
