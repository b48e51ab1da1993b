"""Progress of commands whose steps are not known beforehand."""

import logging

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


class Bars(logging.Handler):
    """A bar on stderr for each thing that is done, as it begins; what is logged meanwhile is said once."""

    def __init__(self, unit: str = "") -> None:
        super().__init__(logging.WARNING)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn(f"{{task.completed:,.0f}}/{{task.total:,.0f}} {unit}".rstrip()),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=Console(stderr=True, highlight=False),
        )
        self._bars: dict[str, TaskID] = {}
        self._said: set[str] = set()

    def __call__(self, label: str, done: int, total: int) -> None:
        if not self._bars:  # not before: an error is all that a failed start says
            self._progress.start()
        if label not in self._bars:
            self._bars[label] = self._progress.add_task(label, total=total)
        self._progress.update(self._bars[label], completed=done)

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text not in self._said:
            self._said.add(text)
            self._progress.console.print(text, markup=False, soft_wrap=True)

    def __enter__(self) -> "Bars":
        logging.getLogger("fedtide").addHandler(self)
        return self

    def __exit__(self, *error: object) -> None:
        if self._bars:
            self._progress.stop()
        logging.getLogger("fedtide").removeHandler(self)
