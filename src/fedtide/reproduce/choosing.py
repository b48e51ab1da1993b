"""The settings of the tuned methods of a case: the best of the same number of trials for every method."""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fedtide.errors import FedtideError
from fedtide.experiments.build import Experiment, build_method
from fedtide.experiments.config import Config, with_values
from fedtide.methods import Method
from fedtide.reproduce.draws import drawn, of_one_shape, rounded
from fedtide.reproduce.results import Tuned
from fedtide.reproduce.study import CaseConfig, StudyPlan
from fedtide.simulation.cells import Arrays, Cells
from fedtide.tuning.plan import Plan, plan
from fedtide.tuning.space import Space, is_number
from fedtide.tuning.space import with_values as with_settings
from fedtide.tuning.trials import edge
from fedtide.tuning.tune import run_trials

Values = tuple[Any, ...]
"""A setting: a value for each axis of a search space."""


class MethodToRun(NamedTuple):
    """A method as it is run."""

    method: Method
    tuned: Tuned | None = None  # None if it runs as written


def chosen_settings(
    planned: StudyPlan, panel: CaseConfig, cells: Cells, progress: Callable[[int, int], None]
) -> dict[str, MethodToRun]:
    """The methods to run, by label; each tuned method with its best setting out of the same number of trials."""
    study, config = planned.study, panel.config
    draws = [drawn(config, planned.draws + i) for i in range(study.tuning_draws)]  # no method is compared on these
    chosen = {label: MethodToRun(method) for label, method in draws[0].methods.items()}
    if study.tune is None or config.tune.trials == 1:
        return chosen
    tuned = list(chosen)[: panel.tuned]
    asked = [panel.shared] if panel.shared in tuned else tuned
    draws = [draw._replace(methods={label: draw.methods[label] for label in tuned}) for draw in draws]
    spaces, found = _searched(planned, panel, cells, draws, asked, progress)
    for label in tuned if panel.shared in tuned else ():
        if [axis.name for axis in spaces[label].axes] != [axis.name for axis in spaces[asked[0]].axes]:
            raise FedtideError(f"{config.origin.source}: shared: {label} does not have the arguments of {asked[0]}")
    for index, label in enumerate(tuned):
        axes, (values, score, trials) = spaces[label].axes, found.get(label) or found[asked[0]]
        choice = with_settings(config.methods[index], axes, values)
        chosen[label] = MethodToRun(
            build_method(config, index, choice, draws[0].problem.sizes),
            Tuned(
                settings={axis.name: value for axis, value in zip(axes, values, strict=True)},
                score=float(rounded(score, 5)) if math.isfinite(score) else None,
                edges=[axis.name for axis, value in zip(axes, values, strict=True) if edge(value, axis.values)],
                trials=trials,
            ),
        )
    return chosen


class _Best(NamedTuple):
    """The best setting of a method out of so many trials."""

    values: Values
    score: float
    trials: int


def _searched(
    planned: StudyPlan,
    panel: CaseConfig,
    cells: Cells,
    draws: list[Experiment],
    labels: list[str],
    progress: Callable[[int, int], None],
) -> tuple[dict[str, Space], dict[str, _Best]]:
    """(the last search space, the best setting) of each method; lists are extended if a best value is at their end."""
    config, left = panel.config, planned.study.extensions
    scores: dict[str, dict[Values, float]] = {label: {} for label in labels}
    while True:
        plans = [plan(config, draw) for draw in draws]
        problems = of_one_shape([one.problem for one in plans])
        plans = [one._replace(problem=problem) for one, problem in zip(plans, problems, strict=True)]
        new = {label: tuple(v for v in plans[0].spaces[label].trials if v not in scores[label]) for label in labels}
        tries = [(label, draw) for draw in range(len(plans)) for label in labels if new[label]]
        found = cells.each(
            {
                f"tuning {label}, draw {draw}, {left} extensions left": functools.partial(
                    _scores, plans[draw], label, new[label], functools.partial(_report, progress, i, len(tries))
                )
                for i, (label, draw) in enumerate(tries)
            }
        )
        for label in labels:
            # A setting that diverged on a draw has the score nan.
            own = [arrays["score"] for (of, _), arrays in zip(tries, found.values(), strict=True) if of == label]
            scores[label] |= dict(zip(new[label], np.mean(own, axis=0).tolist(), strict=True)) if own else {}
        highest, spaces = plans[0].measure.highest, plans[0].spaces
        best = {label: _best({v: own[v] for v in spaces[label].trials}, highest) for label, own in scores.items()}
        edges = {
            (axis.name, end)
            for label, own in best.items()
            for axis, value in zip(spaces[label].axes, own.values, strict=True)
            if (end := edge(value, axis.values))
        }
        wider = _extended(config, edges) if left else None
        if wider is None:
            return spaces, best
        config, left = wider, left - 1


def _report(progress: Callable[[int, int], None], before: int, of: int, done: int, total: int) -> None:
    """The progress of one of several parts of equal length."""
    progress(before * total + done, of * total)


def _scores(one: Plan, label: str, new: tuple[Values, ...], progress: Callable[[int, int], None]) -> Arrays:
    """The scores of a method's new settings on a data draw; nan if one diverged."""
    spaces = one.spaces | {label: one.spaces[label]._replace(trials=new)}
    trials = run_trials(
        one._replace(spaces=spaces), label, skew=False, progress=lambda _, done, total: progress(done, total)
    )
    return {"score": trials.score}


def _best(scores: dict[Values, float], highest: bool) -> _Best:
    """The setting with the best score; among equal scores, or if all diverged, the one with the smaller rate."""
    worst = -math.inf if highest else math.inf
    ranked = {values: worst if math.isnan(score) else score for values, score in sorted(scores.items())}
    values = (max if highest else min)(ranked, key=lambda values: ranked[values])
    return _Best(values, scores[values], len(scores))


def _extended(config: Config, edges: set[tuple[str, str]]) -> Config | None:
    """The configuration with a further value in the lists of [tune.space] at whose end a chosen value is.

    The step is the ratio of the two values at that end. None if there is nothing to extend: every method has the same
    number of trials, so a list is extended for all methods or for none.
    """
    lists = {name: values for name, values in config.tune.space.items() if isinstance(values, list)}
    if config.tune.trials != math.prod(map(len, lists.values())):
        return None
    wider = dict(lists)
    for name, end in sorted(edges):
        values = lists.get(name, [])
        values = sorted(values) if all(map(is_number, values)) else []
        if len(values) > 1 and values[0] > 0:
            last, before = (values[0], values[1]) if end == "smallest" else (values[-1], values[-2])
            wider[name] = sorted([*wider[name], float(f"{last * last / before:.2g}")])
    if wider == lists:
        return None
    trials = math.prod(map(len, wider.values()))
    return with_values(config, "tune", space=config.tune.space | wider, trials=trials)
