"""`tune`: the same number of trials for every method, chosen between on data that no trial trained on."""

import json
import math
import textwrap
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import polars as pl

from fedtide import types
from fedtide.experiments.build import Experiment, build, build_method, located
from fedtide.experiments.config import Config, loads
from fedtide.experiments.place import Place
from fedtide.experiments.space import Space, space, with_values
from fedtide.experiments.trials import LATE, late, ranks, scores, try_all, tuning_seeds
from fedtide.files import atomic
from fedtide.report import tuning as page
from fedtide.report import words
from fedtide.simulation import describe
from fedtide.simulation.progress import Progress
from fedtide.tomls import dumps, toml

_HELD_OUT = {"validation_accuracy": "test_accuracy", "validation_worst_decile": "worst_decile",
             "validation_loss": "test_loss"}  # fmt: skip
_TRAINING = {"objective": "objective", "tail_loss": "tail_loss"}


class Plan(NamedTuple):
    """What a tuning will do."""

    config: Config
    experiment: Experiment
    problem: types.Problem  # with validation data in place of test data, where it chooses by them
    select: str  # a name of `report.tuning.MEASURES`
    seeds: list[int]
    rounds: int
    spaces: dict[str, Space]  # by label
    note: str  # why it chooses by what it does, where nobody said so


class Tuning(NamedTuple):
    """What was tried, and what was chosen."""

    trials: pl.DataFrame  # a row for each method, trial and seed
    text: str  # the chosen configuration
    about: dict[str, Any]

    @property
    def config(self) -> Config:
        """The chosen configuration, to build."""
        return loads(self.text, "tuned.toml")

    @property
    def outcomes(self) -> list[page.Outcome]:
        """The trials by method, ranked."""
        return page.outcomes(self.trials, self.about)

    @property
    def warnings(self) -> list[str]:
        """What one should do something about: values at the edge of a list, methods that always diverge."""
        return page.warnings(self.outcomes, self.about)

    def save(self, folder: str | Path) -> None:
        """Writes `trials.parquet`, `tuning.html` and, last, `tuned.toml`."""
        folder = Path(folder)
        with atomic(folder / "trials.parquet") as temporary:
            self.trials.write_parquet(temporary)
        page.write(folder / "tuning.html", self.trials, self.about)
        with atomic(folder / "tuned.toml") as temporary:
            temporary.write_text(self.text, "utf-8")


def plan(config: Config, experiment: Experiment | None = None) -> Plan:
    """Builds (unless it is there) and checks what `tune` will run."""
    experiment = experiment or build(config)
    select, held_out, note = _selection(config, experiment.problem)
    seeds = tuning_seeds(config)
    problem: Any = experiment.problem
    if held_out:
        problem = problem.hold_out(config.tune.validation, seeds[0])
    spaces = {label: space(config, i, problem.sizes) for i, label in enumerate(experiment.methods)}
    rounds = config.tune.rounds or config.run.rounds
    return Plan(config, experiment, problem, select, seeds, rounds, spaces, note)


def tune(config: Config, *, progress: Progress | None = None, about: dict[str, Any] | None = None) -> Tuning:
    """Tries settings of every method of a configuration and chooses each one's best.

    Every method gets `tune.trials` trials (see `[tune]` in the configuration), each on every tuning seed, all methods
    on the same clients, minibatches and initial models. Plain numbers are a batch axis of one compiled program; other
    values cost a compilation each. A trial's score is the mean over seeds of the mean of the last fifth of its
    evaluations. A trial that diverges under a seed is worst; of equal ones the smaller rate is chosen. `progress` hears
    (label, rounds done, rounds in all), where the rounds of all trials count.
    """
    return carry_out(plan(config), progress=progress, about=about)


def carry_out(planned: Plan, *, progress: Progress | None = None, about: dict[str, Any] | None = None) -> Tuning:
    """`tune`, once it is planned."""
    begun = time.monotonic()
    tables = []
    for index, label in enumerate(planned.experiment.methods):
        tables.append(_tried(planned, index, label, progress))
    trials = pl.concat(tables, how="diagonal_relaxed")
    facts = _facts(planned) | (about or {})
    facts["seconds"] = round(time.monotonic() - begun, 2)
    facts = json.loads(json.dumps(facts))
    facts["chosen"] = _chosen(planned, page.outcomes(trials, facts), facts)
    return Tuning(trials, facts["chosen"], facts)


def _selection(config: Config, problem: Any) -> tuple[str, bool, str]:
    """(what to choose by, whether on held-out samples, why)."""
    place = Place(config.origin.source).key("tune").key("select")
    select, name = config.tune.select, config.problem.name
    if select is None:
        if hasattr(problem, "hold_out"):
            return "accuracy", True, ""
        tested = problem.evaluate(problem.init(jax.random.key(0))).tested
        if not np.asarray(tested).any():
            return (
                "objective",
                False,
                f"{name} has no samples to hold out: settings are chosen by the training objective.",
            )
        what = "has test data, but no hold_out(fraction, seed) that sets training samples aside to choose on"
        raise place.error(f'the problem {name} {what}; give it one, or write select = "objective"')
    held_out = page.MEASURES[select].column in _HELD_OUT
    if held_out and not hasattr(problem, "hold_out"):
        what = "has no samples to hold out; give it a method hold_out(fraction, seed)"
        raise place.error(f'"{select}": the problem {name} {what}, or write select = "objective"')
    return select, held_out, ""


def _tried(planned: Plan, index: int, label: str, progress: Progress | None) -> pl.DataFrame:
    """All trials of one method: a row for each and each seed."""
    config, own = planned.config, planned.spaces[label]
    methods = [
        build_method(config, index, with_values(config.methods[index], own.axes, values), planned.problem.sizes)
        for values in own.trials
    ]
    found = try_all(
        planned.problem, planned.experiment.availability, methods, rounds=planned.rounds, seeds=planned.seeds,
        evaluate_every=config.run.evaluate_every, history=config.run.history, chunk=config.run.chunk,
        progress=None if progress is None else lambda done, total: progress(label, done, total),
    )  # fmt: skip
    measured = _TRAINING | (_HELD_OUT if _held_out(planned) else {})
    columns = {name: late(np.asarray(getattr(found, field), np.float64)) for name, field in measured.items()}
    measure = page.MEASURES[planned.select]
    diverged = ~np.isfinite(found.objective).all(axis=-1) | ~np.isfinite(columns[measure.column])
    score = scores(columns[measure.column], diverged)
    trials, seeds = len(methods), len(planned.seeds)
    table = {
        "method": [label] * (trials * seeds),
        "trial": np.repeat(np.arange(trials), seeds),
        **{
            axis.name: _column([values[i] for values in own.trials for _ in planned.seeds])
            for i, axis in enumerate(own.axes)
        },
        "seed": np.tile(planned.seeds, trials),
        **{name: np.ravel(values) for name, values in columns.items()},
        "diverged": diverged.ravel(),
        "score": np.repeat(score, seeds),
        "rank": pl.Series(np.repeat(ranks(score, measure.highest), seeds)).replace(0, None),
    }
    return pl.DataFrame(table).with_columns(pl.col("score").fill_nan(None))


def _held_out(planned: Plan) -> bool:
    return planned.problem is not planned.experiment.problem


def _column(values: list[Any]) -> pl.Series:
    """Values of one argument: as they are where they are of one type, as text where not."""
    kinds = {bool if isinstance(v, bool) else float if isinstance(v, int | float) else type(v) for v in values}
    if kinds == {float} and any(isinstance(v, float) for v in values):
        return pl.Series([float(v) for v in values])
    return (
        pl.Series(values) if len(kinds) == 1 and kinds <= {bool, float, str} else pl.Series([toml(v) for v in values])
    )


def _facts(planned: Plan) -> dict[str, Any]:
    config = planned.config
    evaluations = -(-planned.rounds // config.run.evaluate_every)
    return {
        "title": config.title or config.origin.source,
        "command": None,
        "config": config.origin.text,
        "select": planned.select,
        "validation": config.tune.validation if _held_out(planned) else None,
        "trials": config.tune.trials,
        "seeds": planned.seeds,
        "rounds": planned.rounds,
        "evaluate_every": config.run.evaluate_every,
        "evaluations": evaluations,
        "late": math.ceil(LATE * evaluations),
        "arguments": {label: [axis.name for axis in own.axes] for label, own in planned.spaces.items()},
        "notes": {label: own.note for label, own in planned.spaces.items()},
        "problem": {"name": config.problem.name, "clients": len(planned.problem.sizes)},
        "availability": {"name": config.availability.name},
        "versions": describe.versions(),
        "hardware": describe.hardware(),
        "warnings": [planned.note] if planned.note else [],
    }


def _chosen(planned: Plan, found: list[page.Outcome], facts: dict[str, Any]) -> str:
    """The chosen configuration as TOML, with comments that say how it was chosen."""
    measure, config = page.MEASURES[planned.select], planned.config
    written = located(config)
    for key in ("methods", "tune"):
        written.pop(key, None)
    said = [
        "Chosen by fedtide tune; tuning.html shows all that was tried.",
        f"For every method: the best of {words.count(facts['trials'], 'trial')}. {page.how(facts)}",
        f"Tuning seeds: {', '.join(map(str, planned.seeds))}.",
    ]
    lines = [*(line for text in said for line in _comment(text)), "", dumps(written)]
    for choice, outcome in zip(config.methods, found, strict=True):
        own = planned.spaces[outcome.method]
        table = choice
        if outcome.chosen is not None:  # by its number: the table of trials may hold values as text
            table = with_values(choice, own.axes, own.trials[outcome.chosen.number])
        entry = {key: value for key, value in table.model_dump(exclude_unset=True).items() if key != "tune"}
        said = [page.sentence(outcome, measure), *([page.advice(outcome)] if outcome.edges else [])]
        lines += ["[[methods]]", *(line for text in said for line in _comment(text)), dumps(entry, inline=True)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(words.clean(text), 100)]
