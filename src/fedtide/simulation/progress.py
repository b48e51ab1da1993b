"""Reports of a run's progress."""

import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext

from fedtide.errors import require

Progress = Callable[[str, int, int], None]
"""Called before a method's first segment and after each one: (label, rounds done, total rounds)."""


def reporter(wanted: bool | Progress | None, labels: Iterable[str], rounds: int) -> AbstractContextManager[Progress]:
    """The function to call: the user's, one that draws bars (True), or one that does nothing (False).

    None: bars in a notebook, or if standard error is a terminal.
    """
    allowed = "True, False, None or a function (label, rounds done, total rounds)"
    require(wanted is None or isinstance(wanted, bool) or callable(wanted), "progress", wanted, allowed)
    if callable(wanted):
        return nullcontext(wanted)
    notebook = _in_notebook()
    if wanted is False or (wanted is None and not notebook and not (sys.stderr and sys.stderr.isatty())):
        return nullcontext(lambda label, done, total: None)
    if notebook:
        from fedtide.simulation.notebook import NotebookProgress

        return NotebookProgress(rounds)
    from fedtide.simulation.bars import RoundsProgress

    return RoundsProgress(labels, rounds)


def _in_notebook() -> bool:
    """Whether the code runs in a Jupyter kernel, rather than in IPython on a terminal."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")
