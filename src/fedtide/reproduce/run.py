"""`reproduce` runs a study and returns its results, which are small enough to store.

Verdicts (`claims`) and figures (`page`) are computed later from the results alone.
"""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from fedtide.errors import FedtideError
from fedtide.experiments.build import Experiment, build
from fedtide.experiments.config import Config, with_values
from fedtide.methods import Method
from fedtide.problems import Classification
from fedtide.reproduce.results import (
    MEASURES,
    CaseResult,
    Inclusion,
    Invited,
    MethodResult,
    ProblemSize,
    Regions,
    Results,
    Tuned,
)
from fedtide.reproduce.study import CaseConfig, StudyPlan
from fedtide.simulation import describe, simulate
from fedtide.simulation.measures import EvaluationRecord
from fedtide.simulation.progress import Progress
from fedtide.tuning.plan import plan
from fedtide.tuning.trials import edge, try_all
from fedtide.tuning.tune import run_trials

POINTS = 50  # points stored of each curve
_BINS = 40  # time bins in which invitations are counted
_GRID = 72  # points per side of a plane of decision regions


class MethodToRun(NamedTuple):
    """A method as it is run."""

    method: Method
    tuned: Tuned | None = None  # None if it runs as written


def reproduce(planned: StudyPlan, progress: Progress | None = None) -> Results:
    """Runs all cases of a planned study.

    Every case is tuned on a separate data draw with separate seeds, and then run on `draws` other data draws, each with
    its own seeds. All methods see the same data, availability, minibatches and initial models, so every difference
    between methods is paired. `progress` is called with (the current step, rounds completed, rounds in total).
    """
    begun = time.monotonic()
    return Results(
        name=planned.name,
        scale=planned.scale,
        note=planned.study.scales[planned.scale].note,
        draws=planned.draws,
        cases=[_case(planned, panel, progress or (lambda what, done, total: None)) for panel in planned.panels],
        seconds=round(time.monotonic() - begun, 1),
        hardware=describe.hardware(),
        versions=describe.versions(),
    )


def _case(planned: StudyPlan, panel: CaseConfig, progress: Progress) -> CaseResult:
    begun = time.monotonic()
    config, what = panel.config, panel.label or planned.name
    experiments = [_drawn(config, draw) for draw in range(planned.draws)]
    chosen = _chosen(planned, panel, lambda done, total: progress(f"{what}: tuning", done, total))
    methods = [c.method for c in chosen.values()]
    problems = _of_one_shape([e.problem for e in experiments])
    seeds, first, run = _seeds(config), experiments[0], config.run
    records = []
    for draw, problem in enumerate(problems):

        def report(done: int, total: int, before: int = draw) -> None:
            progress(what, before * total + done, total * len(problems))

        own = [draw * len(seeds) + seed for seed in seeds]
        records.append(
            try_all(config, problem, first.availability, methods, rounds=run.rounds, seeds=own, skew=False,
                    progress=report)
        )  # fmt: skip
    record = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1, dtype=np.float64), *records)
    evaluated = [*range(run.evaluate_every, run.rounds, run.evaluate_every), run.rounds]
    kept = np.unique(np.linspace(0, len(evaluated) - 1, POINTS).round().astype(int)).tolist()
    recorded = {label: chosen[label].method for label in planned.study.inclusion if label in chosen}
    shown: dict[str, Any] = {}
    if recorded:
        shown["inclusion"] = _inclusion(config, first, recorded, seeds)
    if "regions" in planned.study.shows:
        shown["regions"] = _regions(config, first, chosen, seeds[:1])
    availability = config.availability.model_dump(exclude_unset=True)
    if "path" in availability:
        availability["path"] = Path(availability["path"]).name  # the file name without its folder
    return CaseResult(
        label=panel.label,
        value=panel.value,
        problem=ProblemSize(
            name=config.problem.name,
            data=config.problem.arguments.get("data"),
            clients=len(first.problem.sizes),
            samples=int(np.sum(first.problem.sizes)),
            parameters=int(sum(np.size(p) for p in jax.tree.leaves(first.problem.init(jax.random.key(0))))),
        ),
        availability=availability,
        local=config.local.model_dump(exclude_none=True),
        seeds=len(seeds),
        draw=np.repeat(np.arange(planned.draws), len(seeds)).tolist(),
        rounds=[evaluated[i] for i in kept],
        methods=[
            MethodResult(
                label=label,
                written=config.methods[i].model_dump(exclude_unset=True, exclude={"tune"}),
                tuned=choice.tuned,
                **_measured(jax.tree.map(lambda values, i=i: values[i], record), kept),
            )
            for i, (label, choice) in enumerate(chosen.items())
        ],
        **shown,
        seconds=round(time.monotonic() - begun, 1),
    )


def _drawn(config: Config, draw: int) -> Experiment:
    """The experiment on one data draw."""
    return build(with_values(config, "problem", seed=draw))


def _seeds(config: Config) -> list[int]:
    seeds = config.run.seeds
    if not isinstance(seeds, int):
        raise FedtideError(f"{config.origin.source}: run.seeds = {list(seeds)}: must be a number of seeds")
    return list(range(seeds))


def _of_one_shape(problems: list[Any]) -> list[Any]:
    """The problems padded to the same size, so that all draws share compiled programs."""
    if not all(isinstance(problem, Classification) for problem in problems):
        return problems
    train, test = (max(len(getattr(problem, name)) for problem in problems) for name in ("y", "test_y"))
    return [problem.padded(train, test) for problem in problems]


def _chosen(planned: StudyPlan, panel: CaseConfig, progress: Callable[[int, int], None]) -> dict[str, MethodToRun]:
    """The methods to run, by label; each tuned method with its best setting out of the same number of trials."""
    config = panel.config
    own = _drawn(config, planned.draws)  # a data draw on which no method is compared
    chosen = {label: MethodToRun(method) for label, method in own.methods.items()}
    if planned.study.tune is None or config.tune.trials == 1:
        return chosen
    tuning = plan(config, own._replace(methods=dict(list(own.methods.items())[: panel.tuned])))
    for i, (label, space) in enumerate(tuning.spaces.items()):

        def report(label: str, done: int, total: int, before: int = i) -> None:
            progress(before * total + done, total * len(tuning.spaces))

        result = run_trials(tuning, label, skew=False, progress=report)
        best = int(np.argmax(result.rank == 1))  # the first if all diverged
        score = float(_rounded(result.score[best], 5))
        tuned = Tuned(
            settings={axis.name: value for axis, value in zip(space.axes, space.trials[best], strict=True)},
            score=score if math.isfinite(score) else None,
            edges=[a.name for a, x in zip(space.axes, space.trials[best], strict=True) if edge(x, a.values)],
            trials=len(space.trials),
        )
        chosen[label] = MethodToRun(result.methods[best], tuned)
    return chosen


def _measured(record: EvaluationRecord, kept: list[int]) -> dict[str, Any]:
    """Curves and measures of a method as fields of `MethodResult`."""
    tested = np.isfinite(record.test_accuracy).any() or record.class_accuracy.size > 0
    measured: dict[str, Any] = {
        "diverged": (~np.isfinite(record.objective).all(axis=-1)).tolist(),
        "objective_curve": _rounded(record.objective.mean(axis=0)[kept], 5),
    }
    if tested:
        measured["curve"] = _rounded(record.test_accuracy[:, kept], 4)
    if record.class_accuracy.size:
        measured["classes_curve"] = _rounded(record.class_accuracy.mean(axis=0)[kept], 4)
    for name, measure in MEASURES.items():
        if measure.compute is not None and (tested or measure.kind == "objective"):
            values = measure.compute(record)
            measured |= {name: _rounded(values, measure.digits)} if values.size else {}
    return measured


def _inclusion(config: Config, experiment: Experiment, methods: dict[str, Method], seeds: list[int]) -> Inclusion:
    """Available and invited clients over time, by kind of client."""
    run = config.run
    result = simulate(
        experiment.problem, experiment.availability, methods, rounds=run.rounds, seeds=seeds,
        evaluate_every=run.rounds, history=run.history, record_clients=True,
    )  # fmt: skip
    of_clients = np.array(experiment.availability.classes())
    kinds = list(dict.fromkeys(of_clients.tolist()))
    first = np.linspace(0, run.rounds, min(_BINS, run.rounds) + 1).round().astype(int)[:-1]
    lengths = np.diff([*first, run.rounds])[:, None]

    def over_time(rounds: np.ndarray) -> np.ndarray:
        shares = np.add.reduceat(rounds, first, axis=1).astype(float) / lengths
        return _rounded([shares[..., of_clients == kind].mean((0, 2)) for kind in kinds], 4)

    def by_kind(rounds: np.ndarray) -> np.ndarray:
        return np.array([rounds[..., of_clients == kind].sum((1, 2)) for kind in kinds])

    attendance = {label: result.attendance(label) for label in methods}  # (active, invited) [seeds, rounds, clients]
    active, _ = next(iter(attendance.values()))
    return Inclusion(
        kinds=kinds,
        rounds=(first + 1).tolist(),
        methods={
            label: Invited(
                invited=over_time(invited), share=_rounded(by_kind(invited) / np.maximum(by_kind(active), 1), 4)
            )
            for label, (active, invited) in attendance.items()
        },
        present=over_time(active),
    )


def _regions(config: Config, experiment: Experiment, chosen: dict[str, MethodToRun], seeds: list[int]) -> Regions:
    """Predictions of the final models on a grid over the plane of the samples."""
    problem: Any = experiment.problem
    run, points = config.run, np.asarray(problem.x, np.float64)
    if points.ndim != 2 or points.shape[1] != 2:
        raise FedtideError(
            f"{config.origin.source}: shows = ['regions']: samples have shape {points.shape[1:]}; must be (2,)"
        )
    margin = 0.1 * np.ptp(points, axis=0)
    low, high = points.min(axis=0) - margin, points.max(axis=0) + margin
    x, y = (np.linspace(low[i], high[i], _GRID) for i in (0, 1))
    grid = np.stack(np.meshgrid(x, y), -1).reshape(-1, 2).astype(np.float32)
    result = simulate(
        problem, experiment.availability, {label: c.method for label, c in chosen.items()}, rounds=run.rounds,
        seeds=seeds, evaluate_every=run.rounds, history=run.history, record_clients=False,
    )  # fmt: skip
    _, unravel = ravel_pytree(problem.init(jax.random.key(0)))
    answers = {}
    for label in chosen:
        logits = problem.model.apply(unravel(result.models[label][0]), grid)
        rows = np.asarray(logits.argmax(axis=-1)).reshape(_GRID, _GRID)
        answers[label] = ["".join(map(str, row)) for row in rows]
    some = np.random.default_rng([0]).permutation(len(points))[:300]
    return Regions(
        low=low,
        high=high,
        answers=answers,
        points=points[some].round(3),
        classes=np.asarray(problem.y)[some].tolist(),
    )


def _rounded(values: Any, digits: int) -> np.ndarray:
    """Numbers rounded to significant digits; nan if they are not finite."""
    values = np.asarray(values, np.float64)
    finite = np.where(np.isfinite(values), values, np.nan)
    return np.vectorize(lambda x: float(f"{x:.{digits}g}"), otypes=[float])(finite)
