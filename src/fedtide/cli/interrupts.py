"""Ctrl-C between stretches of rounds, never inside compiled code, where it may be swallowed or crash."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import typer

from fedtide.cli.faults import STOPPED


class Interrupts:
    """Remembers the first Ctrl-C; a second one stops at once (the last checkpoint stays)."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            os._exit(STOPPED)
        self.asked = True
        typer.echo("stopping after this stretch of rounds (Ctrl-C again: at once)", err=True)

    def check(self) -> None:
        """Raises KeyboardInterrupt if Ctrl-C was pressed."""
        if self.asked:
            raise KeyboardInterrupt


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Takes Ctrl-C over while it lasts; does nothing outside the main thread, where signals cannot be handled."""
    asked = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before: Any = signal.signal(signal.SIGINT, asked)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)
