"""Progress: for each method and for all, rounds done, rounds per second and time left."""

import logging
from collections.abc import Iterable
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

_LOG = logging.getLogger("fedtide")


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.speed  # that of the latest stretches; before there are two, that of all
        if speed is None and task.elapsed and task.completed > task.fields["first"]:
            speed = (task.completed - task.fields["first"]) / task.elapsed
        return Text("" if speed is None else f"{speed:,.0f} rounds/s", style="progress.data.speed")


class RoundsProgress(logging.Handler):
    """Bars on stderr, and above them what the simulation logs. Called after every stretch of rounds."""

    def __init__(self, labels: Iterable[str], rounds: int) -> None:
        super().__init__(logging.INFO)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} rounds"),
            _Speed(),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=Console(stderr=True, highlight=False),
        )
        self._bars = {label: self._progress.add_task(label, total=rounds, start=False, first=0) for label in labels}
        self._all = self._progress.add_task("all", total=rounds * len(self._bars), visible=len(self._bars) > 1, first=0)
        self._done: dict[str, int] = {}

    def __call__(self, label: str, done: int, total: int) -> None:
        bar = self._bars[label]
        if label not in self._done:
            self._progress.reset(bar, completed=done, first=done)
            if done:  # what a resumed run did earlier is no speed of this one
                earlier = sum(self._done.values()) + done
                self._progress.reset(self._all, completed=earlier, first=earlier)
        self._done[label] = done
        self._progress.update(bar, completed=done)
        self._progress.update(self._all, completed=sum(self._done.values()))

    def emit(self, record: logging.LogRecord) -> None:
        self._progress.console.print(Text(record.getMessage()), soft_wrap=True)

    def __enter__(self) -> "RoundsProgress":
        self._level = _LOG.level
        _LOG.setLevel(logging.INFO)
        _LOG.addHandler(self)
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
        _LOG.removeHandler(self)
        _LOG.setLevel(self._level)
