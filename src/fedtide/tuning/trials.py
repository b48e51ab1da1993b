"""Trials: settings of methods on one federation; those that differ only in plain numbers share a compiled program."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from fedtide import text as words
from fedtide.availability import Process
from fedtide.experiments.config import Config, Tune
from fedtide.experiments.place import Place
from fedtide.methods import Method
from fedtide.simulation.measures import EvaluationRecord
from fedtide.simulation.setup import fitted
from fedtide.simulation.sweep import sweep
from fedtide.statistics import Metric
from fedtide.tuning.space import Space, is_number

if TYPE_CHECKING:
    import polars

FINAL_WINDOW = 0.2
"""The length of the final window that a trial is scored on, as a share of its evaluations."""

_FIRST_SEED = 1_000_000  # far from the usual seeds of runs


class Measure(NamedTuple):
    """A measure for choosing settings."""

    field: str  # of the evaluations
    column: str  # of the table of trials
    words: str  # its name for readers
    kind: Metric  # for formatting
    highest: bool  # whether more is better
    held_out: bool  # whether on held-out samples

    def final(self, result: EvaluationRecord) -> np.ndarray:
        """[trials, seeds] the mean over the final window."""
        return final(np.asarray(getattr(result, self.field), np.float64))


MEASURES = {
    "objective": Measure("objective", "objective", "training objective", "objective", False, False),
    "tail_loss": Measure(
        "tail_loss", "tail_loss", "training loss of the worst tenth of the clients", "objective", False, False
    ),
    "accuracy": Measure("test_accuracy", "validation_accuracy", "validation accuracy", "accuracy", True, True),
    "worst_decile": Measure(
        "worst_decile", "validation_worst_decile", "validation accuracy of the worst-served tenth of the clients",
        "accuracy", True, True,
    ),
    "loss": Measure("test_loss", "validation_loss", "validation loss", "objective", False, True),
}  # fmt: skip
"""Measures by their names in configurations."""


def try_all(
    config: Config,
    problem: Any,
    availability: Process,
    methods: Sequence[Method],
    *,
    rounds: int,
    seeds: Sequence[int],
    skew: bool = True,
    progress: Callable[[int, int], None] | None = None,
    finished: Callable[[int, EvaluationRecord], None] = lambda at, evaluations: None,
) -> EvaluationRecord:
    """Evaluations of methods of any structure: arrays [methods, seeds, evaluations, …].

    `progress` is called with (rounds done, total rounds) over all methods, `finished` with the position and the
    evaluations of each method as soon as it has run.
    """
    run, order, parts = config.run, [], []
    for members in alike([fitted(method, problem) for method in methods]):

        def report(name: str, now: int, of: int, before: int = rounds * len(order)) -> None:
            if progress is not None:
                progress(before + now, rounds * len(methods))

        def kept(part: EvaluationRecord, left: Iterator[int] = iter(members)) -> None:
            for i, at in enumerate(itertools.islice(left, len(part.objective))):
                finished(at, jax.tree.map(lambda values, i=i: values[i], part))

        result = sweep(
            problem, availability, [methods[i] for i in members], rounds=rounds, seeds=seeds,
            evaluate_every=run.evaluate_every, history=run.history, chunk=run.chunk, skew=skew, progress=report,
            finished=kept,
        )  # fmt: skip
        parts.append(result)
        order += members
    back = np.argsort(order)
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[back], *parts)


def tuning_seeds(config: Config) -> list[int]:
    """Separate seeds for tuning: a method must not be judged by the runs on which its settings were chosen."""
    run, wanted = config.run.seeds, config.tune.seeds
    taken = set(run if isinstance(run, tuple) else range(run))
    if isinstance(wanted, int):
        free = (seed for seed in range(_FIRST_SEED, 2**32) if seed not in taken)
        return [next(free) for _ in range(wanted)]
    if taken & set(wanted):
        shared = ", ".join(str(seed) for seed in sorted(taken & set(wanted))[:5])
        place = Place(config.origin.source).key("tune").key("seeds")
        raise place.error(f"{shared} in [run] as well; must be {Tune.model_fields['seeds'].description}")
    return list(wanted)


def final_window(evaluations: int) -> int:
    """The number of evaluations in the final window."""
    return math.ceil(FINAL_WINDOW * evaluations)


def final(values: np.ndarray, axis: int = -1) -> np.ndarray:
    """The mean over the final window."""
    return np.take(values, range(-final_window(values.shape[axis]), 0), axis).mean(axis)


def edge(value: Any, tried: Sequence[Any]) -> str | None:
    """The end of the sorted values at which a value is: "smallest", "largest" or None."""
    if len(tried) < 2:
        return None
    return "smallest" if value == tried[0] else "largest" if value == tried[-1] else None


def alike(methods: Sequence[Method]) -> list[list[int]]:
    """Positions of the methods that one compiled program can run."""
    groups: dict[Any, list[int]] = {}
    for i, method in enumerate(methods):
        leaves, structure = jax.tree.flatten(method)
        groups.setdefault((structure, tuple(np.shape(leaf) for leaf in leaves)), []).append(i)
    return list(groups.values())


class Trial(NamedTuple):
    """One setting of a method, with its results on all seeds."""

    number: int
    values: dict[str, Any]
    score: float | None  # None where it diverged under a seed
    by_seed: list[float | None]
    rank: int | None  # 1 for the chosen trial


class MethodTrials(NamedTuple):
    """The trials of one method."""

    method: str
    arguments: list[str]  # the arguments that have a list of values
    trials: list[Trial]
    note: str  # how the trials were selected

    @property
    def ranked(self) -> list[Trial]:
        """By rank; diverged trials last."""
        return sorted(self.trials, key=lambda t: (t.rank is None, t.rank or 0, t.number))

    @property
    def chosen(self) -> Trial | None:
        """The best trial; None where every trial diverged."""
        return next((trial for trial in self.trials if trial.rank == 1), None)

    @property
    def diverged(self) -> int:
        return sum(trial.score is None for trial in self.trials)

    @property
    def edges(self) -> list[str]:
        """The chosen numbers at an end of their list: "rate = 0.5 is the largest value tried"."""
        result = []
        for name, value in self.chosen.values.items() if self.chosen else ():
            tried = {trial.values[name] for trial in self.trials}
            if all(is_number(one) for one in tried) and (end := edge(value, sorted(tried))):
                result.append(f"{name} = {words.setting(value)} is the {end} value tried")
        return result


def outcomes(spaces: Mapping[str, Space], measure: Measure, table: "polars.DataFrame") -> list[MethodTrials]:
    """The table of trials by method."""
    result = []
    for label, space in spaces.items():
        arguments, own = [axis.name for axis in space.axes], []
        for rows in table.filter(method=label).partition_by("trial"):
            first = rows.row(0, named=True)
            by_seed = [None if lost else x for lost, x in rows.select("diverged", measure.column).iter_rows()]
            values = {name: first[name] for name in arguments}
            own.append(Trial(first["trial"], values, first["score"], by_seed, first["rank"]))
        result.append(MethodTrials(label, arguments, own, space.note))
    return result
