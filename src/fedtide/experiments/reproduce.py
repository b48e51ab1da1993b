"""`reproduce`: runs a study and returns its numbers as plain data, small enough to keep.

Nothing here judges or draws: `claims` and the report do that, from the numbers alone.
"""

import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from fedtide.availability import Process
from fedtide.errors import FedtideError
from fedtide.experiments.build import Experiment, build, build_method
from fedtide.experiments.config import Config
from fedtide.experiments.space import Space, space, with_values
from fedtide.experiments.study import Panel, Plan, with_problem
from fedtide.experiments.trials import JUDGED, LATE, late, ranks, scores, try_all, tuning_seeds
from fedtide.methods import Method
from fedtide.problems import Classification
from fedtide.simulation import describe, simulate
from fedtide.simulation.measures import EvaluationRecord
from fedtide.types import Problem

Progress = Callable[[str, int, int], None]
"""Hears (what is being done, rounds done, rounds in all)."""

POINTS = 50  # of a curve that are kept
_BINS = 40  # of time, in which invitations are counted
_GRID = 72  # points to a side of a plane of decisions


class Chosen(NamedTuple):
    """A method as it is run, and how it came about."""

    method: Method
    settings: dict[str, Any]  # what tuning chose; empty where it runs as written
    score: float | None  # on validation data
    edges: list[str]  # arguments whose chosen value is the smallest or largest that was tried
    trials: int


def reproduce(planned: Plan, progress: Progress | None = None) -> dict[str, Any]:
    """Runs all cases of a planned study.

    Every case is tuned on a data draw and on seeds of its own, then run on `draws` others, each with its own seeds. All
    methods meet the same data, availability, minibatches and initial models, so every difference is paired.
    """
    begun = time.monotonic()
    hear = progress or (lambda what, done, total: None)
    cases = []
    for panel in planned.panels:
        started = time.monotonic()
        found = _case(planned, panel, hear)
        cases.append({"label": panel.label, "value": panel.value, **found})
        cases[-1]["seconds"] = round(time.monotonic() - started, 1)
    changes = planned.study.scales[planned.scale]
    results = {
        "name": planned.name,
        "scale": planned.scale,
        "note": changes.note,
        "draws": planned.draws,
        "cases": cases,
        "seconds": round(time.monotonic() - begun, 1),
        "hardware": describe.hardware(),
        "versions": describe.versions(),
    }
    return json.loads(json.dumps(results))


def _case(planned: Plan, panel: Panel, progress: Progress) -> dict[str, Any]:
    config, what = panel.config, panel.label or planned.name
    experiments = [_drawn(config, draw) for draw in range(planned.draws)]
    chosen = _chosen(planned, panel, lambda done, total: progress(f"{what}: tuning", done, total))
    methods = [c.method for c in chosen.values()]
    problems = _of_one_shape([e.problem for e in experiments])
    seeds = _seeds(config)
    found = []
    for draw, problem in enumerate(problems):

        def hear(done: int, total: int, before: int = draw) -> None:
            progress(what, before * total + done, total * len(problems))

        own = [draw * len(seeds) + seed for seed in seeds]
        found.append(_run(config, problem, experiments[0].availability, methods, own, hear))
    record = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *found)
    first = experiments[0]
    every, rounds = config.run.evaluate_every, config.run.rounds
    evaluated = [min(i * every, rounds) for i in range(1, -(-rounds // every) + 1)]
    kept = np.unique(np.linspace(0, len(evaluated) - 1, POINTS).round().astype(int)).tolist()
    result = {
        "problem": {
            "name": config.problem.name,
            "data": config.problem.arguments.get("data"),
            "clients": len(first.problem.sizes),
            "samples": int(np.sum(first.problem.sizes)),
            "parameters": int(sum(np.size(p) for p in jax.tree.leaves(first.problem.init(jax.random.key(0))))),
        },
        "availability": _named(config.availability.model_dump(exclude_unset=True)),
        "local": config.local.model_dump(exclude_none=True),
        "seeds": len(seeds),
        "draw": np.repeat(np.arange(planned.draws), len(seeds)).tolist(),
        "rounds": [evaluated[i] for i in kept],
        "methods": [
            {"label": label, "written": _written(config, i), **_about(choice), **_numbers(record, i, kept)}
            for i, (label, choice) in enumerate(chosen.items())
        ],
    }
    recorded = [label for label in planned.study.inclusion if label in chosen]
    if recorded:
        result["inclusion"] = _inclusion(config, first, {label: chosen[label].method for label in recorded}, seeds)
    if "regions" in planned.study.shows:
        result["regions"] = _regions(config, first, chosen, seeds[:1])
    return result


def _run(
    config: Config,
    problem: Problem,
    availability: Process,
    methods: Sequence[Method],
    seeds: Sequence[int],
    progress: Callable[[int, int], None],
) -> EvaluationRecord:
    run = config.run
    return try_all(
        problem, availability, methods, rounds=run.rounds, seeds=seeds, evaluate_every=run.evaluate_every,
        history=run.history, chunk=run.chunk, skew=False, progress=progress,
    )  # fmt: skip


def _drawn(config: Config, draw: int) -> Experiment:
    """The experiment on one data draw."""
    return build(with_problem(config, seed=draw))


def _seeds(config: Config) -> list[int]:
    seeds = config.run.seeds
    if not isinstance(seeds, int):
        raise FedtideError(f"{config.origin.source}: run.seeds = {list(seeds)}: must be a number of seeds in a study")
    return list(range(seeds))


def _of_one_shape(problems: list[Any]) -> list[Any]:
    """The problems padded to one size, so that all draws share compiled programs."""
    if not all(isinstance(problem, Classification) for problem in problems):
        return problems
    train, test = (max(len(getattr(problem, name)) for problem in problems) for name in ("y", "test_y"))
    return [problem.padded(train, test) for problem in problems]


def _chosen(planned: Plan, panel: Panel, progress: Callable[[int, int], None]) -> dict[str, Chosen]:
    """The methods to run, by label: those to tune at their best of equally many trials."""
    config = panel.config
    own = _drawn(config, planned.draws)  # a data draw that no method is judged on
    labels = list(own.methods)
    as_written = {label: Chosen(method, {}, None, [], 0) for label, method in own.methods.items()}
    if planned.study.tune is None or config.tune.trials == 1:
        return as_written
    problem: Any = own.problem
    select = config.tune.select or ("accuracy" if hasattr(problem, "hold_out") else "objective")
    field, highest, held_out = JUDGED[select]
    seeds = tuning_seeds(config)
    if held_out:
        problem = problem.hold_out(config.tune.validation, seeds[0])
    spaces = [space(config, i, problem.sizes) for i in range(panel.tuned)]
    methods = [
        build_method(config, i, with_values(config.methods[i], tried.axes, values), problem.sizes)
        for i, tried in enumerate(spaces)
        for values in tried.trials
    ]
    found = try_all(
        problem, own.availability, methods, rounds=config.tune.rounds or config.run.rounds, seeds=seeds,
        evaluate_every=config.run.evaluate_every, history=config.run.history, chunk=config.run.chunk, skew=False,
        progress=progress,
    )  # fmt: skip
    values = late(np.asarray(getattr(found, field), np.float64))
    score = scores(values, np.logical_not(np.isfinite(found.objective).all(axis=-1)))
    chosen, first = {}, 0
    for label, own_space in zip(labels[: panel.tuned], spaces, strict=True):
        mine = slice(first, first + len(own_space.trials))
        chosen[label] = _best(methods[mine], score[mine], own_space, highest)
        first += len(own_space.trials)
    return {label: chosen.get(label, choice) for label, choice in as_written.items()}


def _best(methods: Sequence[Method], score: np.ndarray, own: Space, highest: bool) -> Chosen:
    best = int(np.argmax(ranks(score, highest) == 1)) if np.isfinite(score).any() else 0
    settings = {axis.name: value for axis, value in zip(own.axes, own.trials[best], strict=True)}
    edges = [
        axis.name
        for axis, value in zip(own.axes, own.trials[best], strict=True)
        if len(axis.values) > 1 and value in (axis.values[0], axis.values[-1])
    ]
    return Chosen(methods[best], settings, _numbers_of(score[best], 5), edges, len(own.trials))


def _named(table: dict[str, Any]) -> dict[str, Any]:
    """The table with the names of its files, not with where they lie."""
    return {key: Path(value).name if key == "path" else value for key, value in table.items()}


def _about(choice: Chosen) -> dict[str, Any]:
    if not choice.trials:
        return {"tuned": None}
    facts = {"settings": choice.settings, "score": choice.score, "edges": choice.edges, "trials": choice.trials}
    return {"tuned": facts}


def _written(config: Config, index: int) -> dict[str, Any]:
    return {k: v for k, v in config.methods[index].model_dump(exclude_unset=True).items() if k != "tune"}


def _numbers(record: EvaluationRecord, index: int, kept: list[int]) -> dict[str, Any]:
    """One method's curves and late means, for each pair of data draw and seed."""
    mine = {name: np.asarray(values[index], np.float64) for name, values in record._asdict().items()}
    accuracy, classes = mine["test_accuracy"], mine["class_accuracy"]
    tested = np.isfinite(accuracy).any() or classes.size > 0
    count = math.ceil(LATE * accuracy.shape[-1])
    found: dict[str, Any] = {
        "diverged": (~np.isfinite(mine["objective"]).all(axis=-1)).tolist(),
        "objective_curve": _numbers_of(mine["objective"].mean(axis=0)[kept], 5),
        "objective": _numbers_of(late(mine["objective"]), 5),
        "tail_loss": _numbers_of(late(mine["tail_loss"]), 5),
    }
    if tested:
        found |= {
            "curve": _numbers_of(accuracy[:, kept], 4),
            "late": _numbers_of(late(accuracy), 5),
            "average": _numbers_of(accuracy.mean(axis=-1), 5),
            "best": _numbers_of(accuracy.max(axis=-1), 5),
            "spread": _numbers_of(accuracy[:, -count:].std(axis=-1), 5),
            "worst_decile": _numbers_of(late(mine["worst_decile"]), 5),
        }
        if classes.size:
            found["classes"] = _numbers_of(late(classes, axis=-2), 4)
            found["classes_curve"] = _numbers_of(classes.mean(axis=0)[kept], 4)
    return found


def _inclusion(config: Config, experiment: Experiment, methods: dict[str, Method], seeds: list[int]) -> dict[str, Any]:
    """Who is there and who is invited over time, by kind of client."""
    run = config.run
    result = simulate(
        experiment.problem, experiment.availability, methods, rounds=run.rounds, seeds=seeds,
        evaluate_every=run.rounds, history=run.history, record_clients=True,
    )  # fmt: skip
    kinds = np.array(experiment.availability.classes())
    order = list(dict.fromkeys(kinds.tolist()))
    clients, bins = len(kinds), min(_BINS, run.rounds)
    edges = np.linspace(0, run.rounds, bins + 1).round().astype(int)[:-1]
    found: dict[str, Any] = {"kinds": order, "rounds": (edges + 1).tolist(), "methods": {}}
    for label in methods:
        active, invited = result.attendance(label)  # [seeds, rounds, clients]
        here = np.add.reduceat(active, edges, axis=1).astype(float)
        there = np.add.reduceat(invited, edges, axis=1).astype(float)
        assert active.shape == (len(seeds), run.rounds, clients)
        lengths = np.diff([*edges, run.rounds])[:, None]
        by_kind = [kinds == kind for kind in order]
        found["present"] = [_numbers_of((here / lengths)[..., of].mean((0, 2)), 4) for of in by_kind]
        found["methods"][label] = {
            "invited": [_numbers_of((there / lengths)[..., of].mean((0, 2)), 4) for of in by_kind],
            # Of the rounds in which a client of the kind was there, the share in which it was invited, by seed.
            "share": [
                _numbers_of(invited[..., of].sum((1, 2)) / np.maximum(active[..., of].sum((1, 2)), 1), 4)
                for of in by_kind
            ],
        }
    return found


def _regions(config: Config, experiment: Experiment, chosen: dict[str, Chosen], seeds: list[int]) -> dict[str, Any]:
    """What the final models answer on a grid of the plane that the samples lie in."""
    problem: Any = experiment.problem
    run, points = config.run, np.asarray(problem.x, np.float64)
    if points.ndim != 2 or points.shape[1] != 2:
        raise FedtideError(f"{config.origin.source}: shows = ['regions']: the problem's samples are not points")
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
    return {
        "low": low.tolist(),
        "high": high.tolist(),
        "answers": answers,
        "points": points[some].round(3).tolist(),
        "classes": np.asarray(problem.y)[some].tolist(),
    }


def _numbers_of(values: Any, digits: int) -> Any:
    """Plain numbers with so many significant digits; None where not finite."""
    if np.ndim(values) > 0:
        return [_numbers_of(value, digits) for value in values]
    return float(f"{values:.{digits}g}") if np.isfinite(values) else None
