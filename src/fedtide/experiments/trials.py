"""Trials: settings of methods on one federation. Those that differ in plain numbers only share a compiled program."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from fedtide.availability import Process
from fedtide.experiments.config import Config, Tune
from fedtide.experiments.place import Place
from fedtide.methods import Method
from fedtide.simulation.measures import EvaluationRecord
from fedtide.simulation.setup import fitted
from fedtide.simulation.sweep import sweep

JUDGED = {
    "accuracy": ("test_accuracy", True, True),
    "worst_decile": ("worst_decile", True, True),
    "loss": ("test_loss", False, True),
    "objective": ("objective", False, False),
    "tail_loss": ("tail_loss", False, False),
}
"""By name of `tune.select`: the field of the evaluations, whether more is better, whether on held-out samples."""

LATE = 0.2
"""The share of the evaluations, the last ones, that a trial is judged by."""

_FIRST_SEED = 1_000_000  # far from those that people run


def try_all(
    problem: Any,
    availability: Process,
    methods: Sequence[Method],
    *,
    rounds: int,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> EvaluationRecord:
    """Evaluations of methods of any structure: arrays [methods, seeds, evaluations, …].

    `options` are those of `fedtide.sweep`. `progress` hears (rounds done, rounds in all), all methods together.
    """
    total, done = rounds * len(methods), 0
    whole: EvaluationRecord | None = None
    for members in _groups([fitted(method, problem) for method in methods]):

        def report(name: str, now: int, of: int, before: int = done) -> None:
            if progress is not None:
                progress(before + now, total)

        found = sweep(problem, availability, [methods[i] for i in members], rounds=rounds, progress=report, **options)
        if whole is None:
            whole = jax.tree.map(lambda a: np.empty((len(methods), *a.shape[1:]), a.dtype), found)
        for values, new in zip(jax.tree.leaves(whole), jax.tree.leaves(found), strict=True):
            values[members] = new
        done += rounds * len(members)
    assert whole is not None
    return whole


def tuning_seeds(config: Config) -> list[int]:
    """The tuning's own seeds: a method must not be judged by the runs that it was chosen on."""
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


def late(values: np.ndarray, axis: int = -1) -> np.ndarray:
    """The mean over the last evaluations."""
    count = math.ceil(LATE * values.shape[axis])
    return np.take(values, range(values.shape[axis] - count, values.shape[axis]), axis).mean(axis)


def scores(values: np.ndarray, diverged: np.ndarray) -> np.ndarray:
    """One score a trial from values [trials, seeds]: the mean over seeds; nan where one of them diverged."""
    return np.where((diverged | ~np.isfinite(values)).any(axis=1), np.nan, values.mean(axis=1))


def ranks(score: np.ndarray, highest: bool) -> np.ndarray:
    """1 for the best, of equal ones the first; 0 for those that diverged (nan)."""
    order = np.argsort(np.where(np.isnan(score), np.inf, -score if highest else score), kind="stable")
    found = np.zeros(len(score), np.int64)
    found[order] = np.arange(1, len(score) + 1)
    return np.where(np.isnan(score), 0, found)


def _groups(methods: Sequence[Method]) -> list[list[int]]:
    """Positions of the methods that one compiled program can run."""
    groups: dict[Any, list[int]] = {}
    for i, method in enumerate(methods):
        leaves, structure = jax.tree.flatten(method)
        groups.setdefault((structure, tuple(np.shape(leaf) for leaf in leaves)), []).append(i)
    return list(groups.values())
