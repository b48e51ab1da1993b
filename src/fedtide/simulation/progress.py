"""A progress bar: method, rounds, rounds a second, time left."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(wanted: bool | Callable[[str, int, int], None]) -> Iterator[Callable[[str, int, int], None]]:
    """Yields a function (label, rounds done, rounds in all) that draws a bar on stderr, or does nothing."""
    if not isinstance(wanted, bool):
        yield wanted
        return
    if not wanted:
        yield lambda label, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        tasks = {}

        def report(label: str, done: int, total: int) -> None:
            if label not in tasks:
                tasks[label] = bar.add_task(label, total=total, completed=done, speed="compiling")
                return
            task = bar.tasks[tasks[label]]
            bar.update(task.id, completed=done)
            elapsed = task.elapsed or 0
            bar.update(task.id, speed=f"{done / elapsed:.0f} rounds/s" if elapsed > 0 else "")

        yield report
