"""`reproduce` runs a study and returns its results, which are small enough to store.

Verdicts (`claims`) and figures (`page`) are computed later from the results alone.
"""

import functools
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedtide.experiments.build import Experiment
from fedtide.methods import Method
from fedtide.reproduce.choosing import chosen_settings
from fedtide.reproduce.draws import drawn, of_one_shape, own_seeds, rounded, seeds_of
from fedtide.reproduce.results import MEASURES, CaseResult, Estimates, MethodResult, ProblemSize, Results
from fedtide.reproduce.shown import attendance, decision_regions, estimation_errors
from fedtide.reproduce.study import CaseConfig, StudyPlan
from fedtide.simulation import describe
from fedtide.simulation.cells import Arrays, Cells
from fedtide.simulation.measures import EvaluationRecord
from fedtide.simulation.progress import Progress
from fedtide.simulation.setup import fitted
from fedtide.tuning.trials import alike, try_all

POINTS = 50  # points stored of each curve


def reproduce(planned: StudyPlan, progress: Progress | None = None, cells: Path | None = None) -> Results:
    """Runs all cases of a planned study.

    Every case is tuned on separate data draws with separate seeds, and then run on `draws` other data draws, each with
    its own seeds. All methods see the same data, availability, minibatches and initial models, so every difference
    between methods is paired. `progress` is called with (the current step, rounds completed, rounds in total). With a
    folder for `cells`, the numbers of each step are kept there, and a study that was stopped continues from them.
    """
    cases = [_case(planned, panel, cells, progress or (lambda what, done, total: None)) for panel in planned.panels]
    return Results(
        name=planned.name,
        scale=planned.scale,
        note=planned.study.scales[planned.scale].note,
        draws=planned.draws,
        cases=cases,
        seconds=round(sum(case.seconds for case in cases), 1),
        hardware=describe.hardware(),
        versions=describe.versions(),
    )


def _cells(planned: StudyPlan, panel: CaseConfig, folder: Path | None) -> Cells:
    """The cells of a case. Not the contents of data files, but all else decides them: the configuration of the case,
    how the study tunes, and the versions."""
    study = planned.study.model_dump(mode="json", include={"tuning_draws", "extensions", "inclusion"})
    study["shared"] = panel.shared
    of_study = [planned.scale, planned.draws, study, describe.versions()]
    return Cells(folder, of_study, panel.tuned, panel.config.model_dump(mode="json"))


def _case(planned: StudyPlan, panel: CaseConfig, folder: Path | None, progress: Progress) -> CaseResult:
    study, cells = planned.study, _cells(planned, panel, folder)
    config, what = panel.config, panel.label or planned.name
    experiments = [drawn(config, draw) for draw in range(planned.draws)]
    chosen = chosen_settings(planned, panel, cells, lambda done, total: progress(f"{what}: tuning", done, total))
    problems = of_one_shape([e.problem for e in experiments])
    seeds, first, run = seeds_of(config), experiments[0], config.run

    record = _records(panel, problems, first, {label: c.method for label, c in chosen.items()}, cells, what, progress)
    evaluated = [*range(run.evaluate_every, run.rounds, run.evaluate_every), run.rounds]
    kept = np.unique(np.linspace(0, len(evaluated) - 1, POINTS).round().astype(int)).tolist()
    availability = config.availability.model_dump(exclude_unset=True)
    if "path" in availability:
        availability["path"] = Path(availability["path"]).name  # the file name without its folder
    shown: dict[str, Any] = {}
    recorded = {label: chosen[label].method for label in study.inclusion if label in chosen}
    if recorded:
        shown["inclusion"], activity = attendance(panel, experiments, recorded, cells)
        if "activity" in study.shows:
            shown["activity"] = activity
    if "estimates" in study.shows and run.history:
        method = chosen[study.reference].method
        every = [seed for draw in range(planned.draws) for seed in own_seeds(config, draw)]
        shown["estimates"] = Estimates(
            **cells(f"estimates of {study.reference}", lambda: estimation_errors(config, first, method, every))
        )
    if "regions" in study.shows:
        shown["regions"] = decision_regions(config, first, chosen, seeds[:1])
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
        seconds=round(cells.seconds, 1),
    )


def _records(
    panel: CaseConfig, problems: list[Any], first: Experiment, methods: dict[str, Method], cells: Cells, what: str,
    progress: Progress,
) -> EvaluationRecord:  # fmt: skip
    """Evaluations [methods, runs, …] of all draws, from a cell for each draw and each compiled program."""
    config, labels, rounds = panel.config, list(methods), panel.config.run.rounds
    parts, total = {}, rounds * len(labels) * len(problems)

    def trained(draw: int, members: list[str], before: int) -> Arrays:
        record = try_all(
            config, problems[draw], first.availability, [methods[label] for label in members], rounds=rounds,
            seeds=own_seeds(config, draw), skew=False, progress=lambda done, _: progress(what, before + done, total),
        )  # fmt: skip
        return record._asdict()

    begun = 0
    for draw, problem in enumerate(problems):
        for group in alike([fitted(method, problem) for method in methods.values()]):
            members = [labels[i] for i in group]
            parts[f"draw {draw}: {', '.join(members)}"] = draw, members, begun
            begun += rounds * len(members)
    found = cells.each({name: functools.partial(trained, *part) for name, part in parts.items()})
    runs: dict[str, list[Arrays]] = {label: [] for label in labels}  # by draw
    for name, (_, members, _) in parts.items():
        for i, label in enumerate(members):
            runs[label].append({field: values[i] for field, values in found[name].items()})
    fields: dict[str, Any] = {
        field: np.stack([np.concatenate([draw[field] for draw in runs[label]], dtype=np.float64) for label in labels])
        for field in EvaluationRecord._fields
    }
    return EvaluationRecord(**fields)


def _measured(record: EvaluationRecord, kept: list[int]) -> dict[str, Any]:
    """Curves and measures of a method as fields of `MethodResult`."""
    tested = np.isfinite(record.test_accuracy).any() or record.class_accuracy.size > 0
    measured: dict[str, Any] = {
        "diverged": (~np.isfinite(record.objective).all(axis=-1)).tolist(),
        "objective_curve": rounded(record.objective.mean(axis=0)[kept], 5),
    }
    if tested:
        measured["test_loss_curve"] = rounded(record.test_loss.mean(axis=0)[kept], 5)
        measured["curve"] = rounded(record.test_accuracy[:, kept], 4)
    if record.class_accuracy.size:
        measured["classes_curve"] = rounded(record.class_accuracy.mean(axis=0)[kept], 4)
    for name, measure in MEASURES.items():
        if measure.compute is not None and (tested or measure.kind == "objective"):
            values = measure.compute(record)
            measured |= {name: rounded(values, measure.digits)} if values.size else {}
    return measured
