"""Progress bars: rounds done, rounds per second and time left, for each method and for all."""

import logging
from collections.abc import Iterable
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

_LOG = logging.getLogger("fedtide")


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.speed  # of the latest segments; with fewer than two, of all
        if speed is None and task.elapsed and task.completed > task.fields["first"]:
            speed = (task.completed - task.fields["first"]) / task.elapsed
        return Text("" if speed is None else f"{speed:,.0f} rounds/s", style="progress.data.speed")


class Bars(logging.Handler):
    """Progress bars on stderr, with log messages of at least this level above them."""

    def __init__(self, level: int, unit: str, *more: ProgressColumn) -> None:
        super().__init__(level)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn(f"{{task.completed:,.0f}}/{{task.total:,.0f}} {unit}".rstrip()),
            *more,
            TimeRemainingColumn(elapsed_when_finished=True),
            console=Console(stderr=True, highlight=False),
        )

    def emit(self, record: logging.LogRecord) -> None:
        self._progress.console.print(Text(record.getMessage()), soft_wrap=True)

    def __enter__(self) -> Self:
        self._before = _LOG.level
        _LOG.setLevel(self.level)
        _LOG.addHandler(self)
        return self

    def __exit__(self, *error: object) -> None:
        if self._progress.live.is_started:
            self._progress.stop()
        _LOG.removeHandler(self)
        _LOG.setLevel(self._before)


class RoundsProgress(Bars):
    """One bar per method and one for all. Called after every segment."""

    def __init__(self, labels: Iterable[str], rounds: int) -> None:
        super().__init__(logging.INFO, "rounds", _Speed())
        self._bars = {label: self._progress.add_task(label, total=rounds, start=False, first=0) for label in labels}
        self._all = self._progress.add_task("all", total=rounds * len(self._bars), visible=len(self._bars) > 1, first=0)
        self._done: dict[str, int] = {}

    def __call__(self, label: str, done: int, total: int) -> None:
        bar = self._bars[label]
        if label not in self._done:
            self._progress.reset(bar, completed=done, first=done)
            if done:  # rounds before a resume do not count for the speed
                earlier = sum(self._done.values()) + done
                self._progress.reset(self._all, completed=earlier, first=earlier)
        self._done[label] = done
        self._progress.update(bar, completed=done)
        self._progress.update(self._all, completed=sum(self._done.values()))

    def __enter__(self) -> Self:
        self._progress.start()
        return super().__enter__()
