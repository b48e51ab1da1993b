"""Callbacks: what they get after every segment, how they end a method's training, and early stopping."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedtide.errors import check_one_of, number, require, whole
from fedtide.simulation.measures import SCALARS

if TYPE_CHECKING:
    import polars


class Metrics(NamedTuple):
    """The records of one method, on all seeds, after a segment. Tables have the columns of `Result`'s."""

    label: str
    done: int  # rounds completed
    total: int  # rounds planned
    evaluations: "polars.DataFrame"  # rows of `Result.rounds` with an evaluation, from round 0 on
    rounds: "polars.DataFrame"  # rows of `Result.rounds` of this segment
    clients: "polars.DataFrame"  # rows of `Result.clients` of this segment; none if clients are not recorded
    about: dict[str, Any]  # the description of the run, as in `Result`


Callback = Callable[[Metrics], bool | None]
"""Called after every segment of every method, and once when a method is resumed, then without rows of a segment. If it
returns True, the training of this method ends. A callback that is a context manager is entered for the run."""

_HIGHER_IS_BETTER = ("test_accuracy", "worst_decile")
_MEASURES = tuple(name for name in SCALARS if name != "skew")


@contextmanager
def entered(callbacks: Callback | Sequence[Callback]) -> Iterator[Callback | None]:
    """All callbacks as one, which is True if one of them is; None if there are none."""
    wanted = "a function of fedtide.simulation.Metrics"
    require(callable(callbacks) or isinstance(callbacks, Sequence), "callbacks", callbacks, f"{wanted}, or several")
    several = [callbacks] if callable(callbacks) else list(callbacks)
    for i, callback in enumerate(several):
        require(callable(callback), f"callbacks[{i}]", callback, wanted)

    def notify(metrics: Metrics) -> bool:
        answers = [callback(metrics) for callback in several]
        for i, answer in enumerate(answers):
            allowed = "True (end the training of this method), False or None"
            require(answer is None or isinstance(answer, bool | np.bool_), f"callbacks[{i}](…)", answer, allowed)
        return any(answers)

    with ExitStack() as stack:
        for callback in several:
            if isinstance(callback, AbstractContextManager):
                stack.enter_context(callback)
        yield notify if several else None


def early_stopping(patience: int, measure: str | None = None, *, margin: float = 0.0) -> Callback:
    """A callback that ends a method's training once a measure has not improved for `patience` rounds.

    The measure is an evaluated column of `Result.rounds` (default: test accuracy if there is one, otherwise the
    objective), averaged over seeds; an improvement by `margin` or less does not count. It is checked after every
    segment, which has up to 50 rounds on a CPU and 200 on a GPU.
    """
    whole("patience", patience, 1)
    number("margin", margin, low=0)
    if measure is not None:
        check_one_of("measure", measure, _MEASURES)

    def stop(metrics: Metrics) -> bool:
        import polars as pl

        from fedtide.summaries import metric

        default = "test_accuracy" if metric(metrics.evaluations) == "accuracy" else "objective"
        name = measure or default
        sign = 1 if name in _HIGHER_IS_BETTER else -1
        best, since, last = -np.inf, 0, 0
        for last, value in metrics.evaluations.group_by("round").agg(pl.col(name).mean()).sort("round").iter_rows():
            if sign * value > best + margin:
                best, since = sign * value, last
        return last - since >= patience

    return stop
