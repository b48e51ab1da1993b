"""`tune`: the same number of trials for every method, judged on data that no trial trained on."""

import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fedtide import text as words
from fedtide.experiments.build import build_method, located
from fedtide.experiments.config import Config, MethodChoice, loads
from fedtide.files import atomic, write_text
from fedtide.methods import Method
from fedtide.simulation import describe
from fedtide.simulation.cells import Cells
from fedtide.simulation.measures import EvaluationRecord
from fedtide.simulation.progress import Progress
from fedtide.tomls import dumps, toml
from fedtide.tuning import page
from fedtide.tuning.plan import Plan, plan
from fedtide.tuning.space import with_values
from fedtide.tuning.trials import MEASURES, MethodTrials, outcomes, try_all

FILES = ("trials.parquet", "tuning.html", "tuned.toml")
"""The files of a tuning, in the order in which they are written."""


class Tuning(NamedTuple):
    """The trials and the chosen configuration."""

    plan: Plan
    trials: pl.DataFrame  # a row for each method, trial and seed
    text: str  # the chosen configuration
    seconds: float
    command: str | None = None

    @property
    def config(self) -> Config:
        """The chosen configuration, to build."""
        return loads(self.text, "tuned.toml")

    @property
    def outcomes(self) -> list[MethodTrials]:
        """The trials by method, ranked."""
        return outcomes(self.plan.spaces, self.plan.measure, self.trials)

    @property
    def warnings(self) -> list[str]:
        """Values at the edge of a list, methods that always diverge."""
        return page.warnings(self.plan, self.outcomes)

    def save(self, folder: str | Path) -> None:
        """Writes `trials.parquet`, `tuning.html` and, last, `tuned.toml`."""
        trials, html, chosen = (Path(folder) / name for name in FILES)
        with atomic(trials) as temporary:
            self.trials.write_parquet(temporary)
        write_text(html, page.render(self.plan, self.trials, self.text, self.seconds, self.command))
        write_text(chosen, self.text)


def tune(
    config: Config, *, progress: Progress | None = None, command: str | None = None, cells: Path | None = None
) -> Tuning:
    """Tries settings for every method of a configuration and chooses the best ones.

    Every method gets `tune.trials` trials (see `[tune]` in the configuration), each on every tuning seed. Under one
    seed, all methods use the same clients, minibatches and initial model. Plain numbers are a batch axis of one
    compiled program; any other value needs a compilation of its own. The score of a trial is the mean over seeds of
    the mean over the last fifth of the evaluations. A trial that diverges under any seed is ranked last; among equal
    scores the smaller rate is chosen. `progress` is called with (label, rounds done, total rounds), counting the rounds
    of all trials. `command` is shown on the page. With a folder for `cells`, each trial is kept there as soon as it is
    finished, and a tuning that was stopped continues from them.
    """
    planned = plan(config)
    return carry_out(planned, progress=progress, command=command, cells=cells_of(planned, cells))


def cells_of(planned: Plan, folder: Path | None) -> Cells:
    """The finished trials in a folder. Not the contents of data files, but all else decides them: the configuration and
    the versions."""
    return Cells(folder, located(planned.config), describe.versions())


def finished(planned: Plan, cells: Cells) -> int:
    """The number of trials that need not run again."""
    return sum(name in cells for label in planned.spaces for name in _names(planned, label))


def carry_out(
    planned: Plan, *, progress: Progress | None = None, command: str | None = None, cells: Cells | None = None
) -> Tuning:
    """Runs a planned tuning, except for the trials that `cells` contains."""
    cells = cells or Cells(None)
    table = pl.concat([_table(planned, label, progress, cells) for label in planned.spaces], how="diagonal_relaxed")
    text = _chosen(planned, outcomes(planned.spaces, planned.measure, table))
    return Tuning(planned, table, text, round(cells.seconds, 2), command)


class Trials(NamedTuple):
    """The trials of one method, in the order of its space."""

    methods: list[Method]
    evaluations: EvaluationRecord  # [trials, seeds, evaluations, …]
    diverged: np.ndarray  # [trials, seeds]
    score: np.ndarray  # [trials]: the mean over seeds, nan where one of them diverged
    rank: np.ndarray  # [trials]: from 1 (best), equal scores in their order; 0 where a seed diverged


def run_trials(
    planned: Plan, label: str, *, skew: bool = True, progress: Progress | None = None, cells: Cells | None = None
) -> Trials:
    """Runs and ranks all trials of one method of a planned tuning, except for those that `cells` contains."""
    config, own, measure = planned.config, planned.spaces[label], planned.measure
    index = list(planned.spaces).index(label)
    choices = [with_values(config.methods[index], own.axes, values) for values in own.trials]
    methods = [build_method(config, index, choice, planned.problem.sizes) for choice in choices]
    result = _evaluations(planned, label, methods, skew, progress, cells or Cells(None))
    values = measure.final(result)
    diverged = ~np.isfinite(result.objective).all(axis=-1) | ~np.isfinite(values)
    score = np.where(diverged.any(axis=1), np.nan, values.mean(axis=1))
    rank = np.empty(len(score), np.int64)
    rank[np.argsort(-score if measure.highest else score, kind="stable")] = np.arange(1, len(score) + 1)  # nan last
    return Trials(methods, result, diverged, score, np.where(np.isnan(score), 0, rank))


def _evaluations(
    planned: Plan, label: str, methods: list[Method], skew: bool, progress: Progress | None, cells: Cells
) -> EvaluationRecord:
    """[trials, seeds, evaluations, …]: those in `cells`, and the others, which are kept there one by one."""
    names = _names(planned, label)
    found = [cells.read(name) for name in names]
    left = [i for i, arrays in enumerate(found) if arrays is None]
    total, clock = planned.rounds * len(names), time.monotonic()

    def report(done: int, of: int) -> None:
        if progress is not None:
            progress(label, total - of + done, total)

    def keep(at: int, evaluations: EvaluationRecord) -> None:
        nonlocal clock
        arrays, before, clock = evaluations._asdict(), clock, time.monotonic()
        found[left[at]] = arrays
        cells.write(names[left[at]], arrays, clock - before)

    if left:
        try_all(
            planned.config, planned.problem, planned.experiment.availability, [methods[i] for i in left],
            rounds=planned.rounds, seeds=planned.seeds, skew=skew, progress=report, finished=keep,
        )  # fmt: skip
    else:
        report(0, 0)
    trials = [arrays for arrays in found if arrays is not None]
    return EvaluationRecord._make(np.stack([arrays[field] for arrays in trials]) for field in EvaluationRecord._fields)


def _names(planned: Plan, label: str) -> list[str]:
    """The trials of one method in words that say everything about their settings."""
    own = planned.spaces[label]
    return [
        f"{label}: " + ", ".join(f"{axis.name} = {toml(value)}" for axis, value in zip(own.axes, values, strict=True))
        for values in own.trials
    ]


def _table(planned: Plan, label: str, progress: Progress | None, cells: Cells) -> pl.DataFrame:
    """All trials of one method: one row per trial and seed."""
    own, result = planned.spaces[label], run_trials(planned, label, progress=progress, cells=cells)
    measures = [one for one in MEASURES.values() if planned.measure.held_out or not one.held_out]
    tried, seeds = len(own.trials), len(planned.seeds)
    table = {
        "method": [label] * (tried * seeds),
        "trial": np.repeat(np.arange(tried), seeds),
        **{
            axis.name: _column([values[i] for values in own.trials for _ in planned.seeds])
            for i, axis in enumerate(own.axes)
        },
        "seed": np.tile(planned.seeds, tried),
        **{one.column: one.final(result.evaluations).ravel() for one in measures},
        "diverged": result.diverged.ravel(),
        "score": np.repeat(result.score, seeds),
        "rank": pl.Series(np.repeat(result.rank, seeds)).replace(0, None),
    }
    return pl.DataFrame(table).with_columns(pl.col("score").fill_nan(None))


def _column(values: list[Any]) -> pl.Series:
    """Values of one argument: unchanged if they have one type, otherwise as text."""
    kinds = {type(value) for value in values}
    if kinds == {int, float}:
        return pl.Series([float(value) for value in values])
    return pl.Series(values if len(kinds) == 1 and kinds <= {bool, int, float, str} else [toml(v) for v in values])


def _chosen(planned: Plan, result: list[MethodTrials]) -> str:
    """The chosen configuration as TOML, with comments on how it was chosen."""
    measure, config = planned.measure, planned.config
    tables = {key: value for key, value in located(config).items() if key not in ("methods", "tune")}
    head = [
        "Chosen by fedtide tune; tuning.html shows all trials.",
        f"For each method, the best of {words.count(config.tune.trials, 'trial')}. {page.how(planned)}",
        f"Tuning seeds: {', '.join(map(str, planned.seeds))}.",
    ]
    chosen = []
    for choice, outcome in zip(config.methods, result, strict=True):
        own = planned.spaces[outcome.method]
        if outcome.chosen is not None:  # by its number: the table of trials may hold values as text
            choice = with_values(choice, own.axes, own.trials[outcome.chosen.number])
        chosen.append((choice, [page.sentence(outcome, measure), *([page.advice(outcome)] if outcome.edges else [])]))
    return chosen_toml(head, tables, chosen)


def chosen_toml(head: Sequence[str], tables: dict[str, Any], methods: Sequence[tuple[MethodChoice, list[str]]]) -> str:
    """A configuration as TOML, with comments at the top and above each method."""

    def comments(texts: Sequence[str]) -> list[str]:
        return [f"# {line}" for text in texts for line in textwrap.wrap(words.clean(text), 86)]

    lines = [*comments(head), "", dumps(tables)]
    for choice, texts in methods:
        entry = {key: value for key, value in choice.model_dump(exclude_unset=True).items() if key != "tune"}
        lines += ["[[methods]]", *comments(texts), dumps(entry, inline=True)]
    return "\n".join(lines).rstrip("\n") + "\n"
