"""Reports of a run's progress."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext

Progress = Callable[[str, int, int], None]
"""Called before a method's first segment and after each one: (label, rounds done, total rounds)."""


def reporter(wanted: bool | Progress, labels: Iterable[str], rounds: int) -> AbstractContextManager[Progress]:
    """The function to call: the user's, one that draws bars (True), or one that does nothing (False)."""
    if not isinstance(wanted, bool):
        return nullcontext(wanted)
    if not wanted:
        return nullcontext(lambda label, done, total: None)
    from fedtide.simulation.bars import RoundsProgress

    return RoundsProgress(labels, rounds)
