"""Who hears how far a run is."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext

Progress = Callable[[str, int, int], None]
"""Called before a method's first and after each of its stretches: (label, rounds done, rounds in all)."""


def reporter(wanted: bool | Progress, labels: Iterable[str], rounds: int) -> AbstractContextManager[Progress]:
    """Gives the function to call: the user's own, one that draws bars (True), or one that does nothing."""
    if not isinstance(wanted, bool):
        return nullcontext(wanted)
    if not wanted:
        return nullcontext(lambda label, done, total: None)
    from fedtide.simulation.bars import RoundsProgress

    return RoundsProgress(labels, rounds)
