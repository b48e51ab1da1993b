"""`reproduce` runs a study and returns its results, which are small enough to store.

Verdicts (`claims`) and figures (`page`) are computed later from the results alone.
"""

import functools
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from fedtide.errors import FedtideError
from fedtide.experiments.build import Experiment, build, build_method
from fedtide.experiments.config import Config, with_values
from fedtide.methods import Method
from fedtide.problems import Classification
from fedtide.reproduce.cells import Arrays, Cells
from fedtide.reproduce.results import (
    MEASURES,
    Activity,
    CaseResult,
    Estimates,
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
from fedtide.tuning.plan import Plan, plan
from fedtide.tuning.space import Space, is_number
from fedtide.tuning.space import with_values as with_settings
from fedtide.tuning.trials import edge, try_all
from fedtide.tuning.tune import run_trials
from fedtide.types import Population

POINTS = 50  # points stored of each curve
_BINS = 40  # time bins in which invitations are counted
_GRID = 72  # points per side of a plane of decision regions

Values = tuple[Any, ...]
"""A setting: a value for each axis of a search space."""


class MethodToRun(NamedTuple):
    """A method as it is run."""

    method: Method
    tuned: Tuned | None = None  # None if it runs as written


def reproduce(planned: StudyPlan, progress: Progress | None = None, cells: Path | None = None) -> Results:
    """Runs all cases of a planned study.

    Every case is tuned on separate data draws with separate seeds, and then run on `draws` other data draws, each with
    its own seeds. All methods see the same data, availability, minibatches and initial models, so every difference
    between methods is paired. `progress` is called with (the current step, rounds completed, rounds in total). With a
    folder for `cells`, the numbers of each step are kept there, and a study that was stopped continues from them.
    """
    kept = Cells(cells, planned)
    return Results(
        name=planned.name,
        scale=planned.scale,
        note=planned.study.scales[planned.scale].note,
        draws=planned.draws,
        cases=[_case(planned, panel, kept, progress or (lambda what, done, total: None)) for panel in planned.panels],
        seconds=round(kept.seconds, 1),
        hardware=describe.hardware(),
        versions=describe.versions(),
    )


def _case(planned: StudyPlan, panel: CaseConfig, cells: Cells, progress: Progress) -> CaseResult:
    before, study = cells.seconds, planned.study
    config, what = panel.config, panel.label or planned.name
    experiments = [_drawn(config, draw) for draw in range(planned.draws)]
    chosen = _chosen(planned, panel, cells, lambda done, total: progress(f"{what}: tuning", done, total))
    methods = [c.method for c in chosen.values()]
    problems = _of_one_shape([e.problem for e in experiments])
    seeds, first, run = _seeds(config), experiments[0], config.run

    def trained(draw: int, problem: Any) -> EvaluationRecord:
        def report(done: int, total: int) -> None:
            progress(what, draw * total + done, total * len(problems))

        return try_all(
            config, problem, first.availability, methods, rounds=run.rounds, seeds=_own_seeds(config, draw), skew=False,
            progress=report,
        )  # fmt: skip

    records = []
    for i, problem in enumerate(problems):
        arrays = cells(panel, f"draw {i}", lambda i=i, problem=problem: trained(i, problem)._asdict())
        records.append(EvaluationRecord._make(arrays[field] for field in EvaluationRecord._fields))
    record = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1, dtype=np.float64), *records)
    evaluated = [*range(run.evaluate_every, run.rounds, run.evaluate_every), run.rounds]
    kept = np.unique(np.linspace(0, len(evaluated) - 1, POINTS).round().astype(int)).tolist()
    availability = config.availability.model_dump(exclude_unset=True)
    if "path" in availability:
        availability["path"] = Path(availability["path"]).name  # the file name without its folder
    shown: dict[str, Any] = {}
    recorded = {label: chosen[label].method for label in study.inclusion if label in chosen}
    if recorded:
        shown |= _attendance(panel, experiments, recorded, cells, "activity" in study.shows)
    if "estimates" in study.shows and run.history:
        method = chosen[study.reference].method
        own_seeds = [seed for draw in range(planned.draws) for seed in _own_seeds(config, draw)]
        shown["estimates"] = Estimates(
            **cells(panel, f"estimates of {study.reference}", lambda: _errors(config, first, method, own_seeds))
        )
    if "regions" in study.shows:
        shown["regions"] = _regions(config, first, chosen, seeds[:1])
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
        seconds=round(cells.seconds - before, 1),
    )


def _drawn(config: Config, draw: int) -> Experiment:
    """The experiment on one data draw."""
    return build(with_values(config, "problem", seed=draw))


def _seeds(config: Config) -> list[int]:
    seeds = config.run.seeds
    if not isinstance(seeds, int):
        raise FedtideError(f"{config.origin.source}: run.seeds = {list(seeds)}: must be a number of seeds")
    return list(range(seeds))


def _own_seeds(config: Config, draw: int) -> list[int]:
    """The seeds of the runs on a data draw: no two runs share a seed."""
    seeds = _seeds(config)
    return [draw * len(seeds) + seed for seed in seeds]


def _of_one_shape(problems: list[Any]) -> list[Any]:
    """The problems padded to the same size, so that all draws share compiled programs."""
    if not all(isinstance(problem, Classification) for problem in problems):
        return problems
    train, test = (max(len(getattr(problem, name)) for problem in problems) for name in ("y", "test_y"))
    return [problem.padded(train, test) for problem in problems]


def _chosen(
    planned: StudyPlan, panel: CaseConfig, cells: Cells, progress: Callable[[int, int], None]
) -> dict[str, MethodToRun]:
    """The methods to run, by label; each tuned method with its best setting out of the same number of trials."""
    study, config = planned.study, panel.config
    draws = [_drawn(config, planned.draws + i) for i in range(study.tuning_draws)]  # no method is compared on these
    chosen = {label: MethodToRun(method) for label, method in draws[0].methods.items()}
    if study.tune is None or config.tune.trials == 1:
        return chosen
    tuned = list(chosen)[: panel.tuned]
    asked = [study.shared] if study.shared in tuned else tuned
    draws = [draw._replace(methods={label: draw.methods[label] for label in tuned}) for draw in draws]
    spaces, found = _searched(planned, panel, cells, draws, asked, progress)
    for label in set(tuned) - set(found):
        if [axis.name for axis in spaces[label].axes] != [axis.name for axis in spaces[asked[0]].axes]:
            raise FedtideError(f"{config.origin.source}: shared: {label} does not have the arguments of {asked[0]}")
    for index, label in enumerate(tuned):
        axes, (values, score, trials) = spaces[label].axes, found.get(label) or found[asked[0]]
        choice = with_settings(config.methods[index], axes, values)
        chosen[label] = MethodToRun(
            build_method(config, index, choice, draws[0].problem.sizes),
            Tuned(
                settings={axis.name: value for axis, value in zip(axes, values, strict=True)},
                score=float(_rounded(score, 5)) if math.isfinite(score) else None,
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
        problems = _of_one_shape([one.problem for one in plans])
        plans = [one._replace(problem=problem) for one, problem in zip(plans, problems, strict=True)]
        for i, label in enumerate(labels):

            def report(done: int, total: int, before: int = i) -> None:
                progress(before * total + done, total * len(labels))

            cell = functools.partial(cells, panel, f"tuning {label}, {left} extensions left")
            scores[label] |= _scores(cell, plans, label, scores[label], report)
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


def _scores(
    cell: Callable[[Callable[[], Arrays]], Arrays],
    plans: list[Plan],
    label: str,
    known: Mapping[Values, float],
    progress: Callable[[int, int], None],
) -> dict[Values, float]:
    """The scores of a method's new settings, averaged over the data draws; nan if one diverged on a draw."""
    new = tuple(values for values in plans[0].spaces[label].trials if values not in known)

    def tried() -> dict[str, np.ndarray]:
        scores = []
        for i, one in enumerate(plans):

            def report(_: str, done: int, total: int, before: int = i) -> None:
                progress(before * total + done, total * len(plans))

            spaces = one.spaces | {label: one.spaces[label]._replace(trials=new)}
            scores.append(run_trials(one._replace(spaces=spaces), label, skew=False, progress=report).score)
        return {"score": np.mean(scores, axis=0)}

    return dict(zip(new, cell(tried)["score"].tolist(), strict=True)) if new else {}


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


def _measured(record: EvaluationRecord, kept: list[int]) -> dict[str, Any]:
    """Curves and measures of a method as fields of `MethodResult`."""
    tested = np.isfinite(record.test_accuracy).any() or record.class_accuracy.size > 0
    measured: dict[str, Any] = {
        "diverged": (~np.isfinite(record.objective).all(axis=-1)).tolist(),
        "objective_curve": _rounded(record.objective.mean(axis=0)[kept], 5),
    }
    if tested:
        measured["test_loss_curve"] = _rounded(record.test_loss.mean(axis=0)[kept], 5)
        measured["curve"] = _rounded(record.test_accuracy[:, kept], 4)
    if record.class_accuracy.size:
        measured["classes_curve"] = _rounded(record.class_accuracy.mean(axis=0)[kept], 4)
    for name, measure in MEASURES.items():
        if measure.compute is not None and (tested or measure.kind == "objective"):
            values = measure.compute(record)
            measured |= {name: _rounded(values, measure.digits)} if values.size else {}
    return measured


def _attendance(
    panel: CaseConfig, experiments: list[Experiment], methods: dict[str, Method], cells: Cells, by_client: bool
) -> dict[str, Any]:
    """The fields `inclusion` and, if it is asked for, `activity` of a case."""
    run, first = panel.config.run, experiments[0]

    def recorded(draw: int, problem: Any) -> Arrays:
        result = simulate(
            problem, first.availability, methods, rounds=run.rounds, seeds=_own_seeds(panel.config, draw),
            evaluate_every=run.rounds, history=run.history, record_clients=True,
        )  # fmt: skip
        arrays = {"active": result.attendance(next(iter(methods)))[0]}
        for i, method in enumerate(methods):
            arrays |= {f"invited {i}": result.attendance(method)[1], f"weight {i}": result.weights(method)}
        return arrays

    parts = [
        cells(panel, f"attendance, draw {i}", functools.partial(recorded, i, problem))
        for i, problem in enumerate(_of_one_shape([e.problem for e in experiments]))
    ]
    arrays = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    clusters = getattr(first.availability, "clusters", None)
    of_clients = np.array(
        first.availability.classes() if clusters is None else [f"cluster {c}" for c in np.asarray(clusters)]
    )
    kinds = list(dict.fromkeys(of_clients.tolist()))
    bins = np.linspace(0, run.rounds, min(_BINS, run.rounds) + 1).round().astype(int)[:-1]
    lengths = np.diff([*bins, run.rounds])[:, None]
    importance = np.repeat([e.problem.importance for e in experiments], len(_seeds(panel.config)), axis=0)

    def over_time(rounds: np.ndarray) -> np.ndarray:
        shares = np.add.reduceat(rounds, bins, axis=1).astype(float) / lengths
        return _rounded([shares[..., of_clients == kind].mean((0, 2)) for kind in kinds], 4)

    def by_kind(rounds: np.ndarray) -> np.ndarray:
        return np.array([rounds[..., of_clients == kind].sum((1, 2)) for kind in kinds])

    active = arrays["active"]  # bool[runs, rounds, clients], as the arrays of each method
    found = {method: (arrays[f"invited {i}"], arrays[f"weight {i}"]) for i, method in enumerate(methods)}
    rounds_available = by_kind(active).astype(float)
    rounds_available[rounds_available == 0] = np.nan  # a kind that is never available has no inclusion rate
    shares = {method: by_kind(invited) / rounds_available for method, (invited, _) in found.items()}
    weights = {method: weight.mean(1) / importance for method, (_, weight) in found.items()}  # [runs, clients]
    fields: dict[str, Any] = {
        "inclusion": Inclusion(
            kinds=kinds,
            rounds=(bins + 1).tolist(),
            methods={
                method: Invited(
                    invited=over_time(invited),
                    share=_rounded(shares[method], 4),
                    weight=_rounded([weights[method][:, of_clients == kind].mean(1) for kind in kinds], 4),
                )
                for method, (invited, _) in found.items()
            },
            present=over_time(active),
        )
    }
    if by_client:
        fields["activity"] = Activity(
            clients=of_clients.tolist(),
            methods={
                method: ["".join(map(str, row)) for row in (active[0].astype(int) + invited[0]).T.tolist()]
                for method, (invited, _) in found.items()
            },
        )
    return fields


def _errors(config: Config, experiment: Experiment, method: Method, seeds: list[int]) -> dict[str, np.ndarray]:
    """Mean absolute errors of a method's estimates after the observed rounds, for each seed."""
    process, problem, estimator = experiment.availability, experiment.problem, method.estimator
    population = Population(jnp.asarray(problem.importance), jnp.asarray(problem.sizes))
    truth = np.asarray(process.availability), np.asarray(process.correlation)

    def step(state: Any, available: jax.Array) -> tuple[Any, Any]:
        estimate, state = estimator.update(state, available)
        return state, (estimate.availability, estimate.correlation)

    rows = []
    for seed in seeds:
        trace = jnp.asarray(process.sample(seed, config.run.history))
        _, estimates = jax.lax.scan(step, estimator.init(population), trace)
        rows.append([np.abs(values[-1] - true).mean() for values, true in zip(estimates, truth, strict=True)])
    errors = _rounded(np.transpose(rows), 4)
    return {"availability": errors[0], "correlation": errors[1]}


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
