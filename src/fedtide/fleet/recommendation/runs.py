"""The runs behind a recommendation: all methods with equal tuning, then on the record and on generated fleets."""

import dataclasses
import itertools
import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import polars as pl
from jax import Array

from fedtide import summaries
from fedtide.availability import Process
from fedtide.availability.base import Numbers, lag_one
from fedtide.experiments.build import Experiment, build_method, located
from fedtide.experiments.config import Config, MethodChoice, Run
from fedtide.methods import Facts, Method
from fedtide.simulation import Result, describe, simulate
from fedtide.simulation.cells import Cells
from fedtide.simulation.checkpoint import fingerprint
from fedtide.simulation.progress import Progress
from fedtide.simulation.result import read_about
from fedtide.streams import Stream
from fedtide.tuning.plan import plan
from fedtide.tuning.trials import final_window
from fedtide.tuning.tune import Tuning, carry_out
from fedtide.types import part

RECORDED, GENERATED = "recorded", "generated"
TRIALS, RUNS = "trials", "runs"
"""The folders of what is kept until a recommendation is finished."""
HORIZONS = (0.25, 0.5, 1.0)


@part
class Drawn(Process):
    """Availability drawn beforehand: seed `seeds[r]` replays `rounds[r]`, of bool [runs, rounds, clients].

    The record, generated fleets and hypothetical fleets become runs of one compiled program, and all methods share the
    draws. Seeds ascend.
    """

    rounds: Numbers
    seeds: Numbers
    clients: int

    @property
    def availability(self) -> np.ndarray:
        return np.asarray(self.rounds).mean((0, 1))

    @property
    def correlation(self) -> np.ndarray:
        here = np.asarray(self.rounds)
        return lag_one(here.mean((0, 1)), (here & np.roll(here, -1, axis=1)).mean((0, 1)))

    def init(self, stream: Stream) -> tuple[()]:
        return ()

    def step(self, state: tuple[()], stream: Stream) -> tuple[Array, tuple[()]]:
        return self.rounds[jnp.searchsorted(self.seeds, stream.seed), stream.round], state


def drawn(rounds: np.ndarray, seeds: Sequence[int]) -> Drawn:
    """Availability [runs, rounds, clients], one run per seed."""
    order = np.argsort(seeds)
    return Drawn(rounds[order], np.asarray(seeds, np.uint32)[order], rounds.shape[-1])


class TunedMethods(NamedTuple):
    """The tuned methods."""

    tuning: Tuning
    methods: dict[str, Method]
    choices: dict[str, MethodChoice]  # as a configuration writes them


class Runs(NamedTuple):
    """The results of the runs with the chosen settings."""

    ends: pl.DataFrame  # setting, horizon, method, seed, diverged, final, worst_decile
    rounds: pl.DataFrame  # on the record: the evaluated rounds
    devices: pl.DataFrame  # on the record: method, client, accuracy, available, included
    facts: dict[str, Facts]  # by method, measured on its state
    parameters: int


def tune_all(config: Config, experiment: Experiment, progress: Progress, kept: Path | None = None) -> TunedMethods:
    """Every method of the configuration with the best of its trials, on fleets from the generator.

    With a folder for what is `kept`, finished trials are read from it and written to it.
    """
    planned = plan(config, experiment)
    progress(next(iter(experiment.methods)), 0, planned.rounds * config.tune.trials)  # compiling takes a while
    rounds = config.run.history + planned.rounds
    process = drawn(np.stack([experiment.availability.sample(s, rounds) for s in planned.seeds]), planned.seeds)
    # The problem may be one of Python, and the fleet is no part of the configuration.
    inputs = fingerprint(experiment.problem, process)
    cells = Cells(None if kept is None else kept / TRIALS, located(config), describe.versions(), inputs)
    planned = planned._replace(experiment=experiment._replace(availability=process))
    tuning = carry_out(planned, progress=progress, cells=cells)
    choices = dict(zip(experiment.methods, tuning.config.methods, strict=True))
    methods = {
        label: build_method(config, i, choice, experiment.problem.sizes)
        for i, (label, choice) in enumerate(choices.items())
    }
    return TunedMethods(tuning, methods, choices)


def draw(settings: Mapping[str, Process], seeds: int, run: Run, progress: Progress) -> np.ndarray:
    """Availability under every setting, with the same number of seeds: bool [settings · seeds, rounds, clients]."""
    rounds, draws = run.history + run.rounds, []
    total = len(settings) * seeds * rounds
    for process, seed in itertools.product(settings.values(), range(seeds)):
        progress("fleets", len(draws) * rounds, total)
        draws.append(process.sample(seed, rounds))
    progress("fleets", total, total)
    return np.stack(draws)


def evaluated(
    problem: Any,
    settings: Sequence[str],
    available: np.ndarray,
    methods: Mapping[str, Method],
    run: Run,
    progress: Progress,
    kept: Path | None = None,
) -> Runs:
    """Every method on the drawn rounds of every setting; the first setting is the record.

    Under a seed of a setting all methods see the same availability, minibatches and initial model. With a folder for
    what is `kept`, runs are read from it, continued in it and written to it.
    """
    process, seeds = drawn(available, range(len(available))), len(available) // len(settings)
    ends, curves, devices, facts, parameters = [], [], [], {}, 0
    for label, method in methods.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # diverged runs are part of the result
            result = _run(problem, process, label, method, run, progress, kept)
        values = summaries.evaluations(result.rounds)
        ends += [_ends(values, setting, i * seeds, seeds, run.rounds) for i, setting in enumerate(settings)]
        curves.append(result.rounds.filter(pl.col("seed") < seeds, pl.col("objective").is_not_null()))
        devices.append(_devices(result, label, seeds))
        stated = result.about["methods"][0]["facts"]
        facts[label] = Facts(**{field.name: stated[field.name] for field in dataclasses.fields(Facts)})
        parameters = result.about["problem"]["parameters"]
    return Runs(pl.concat(ends), pl.concat(curves), pl.concat(devices), facts, parameters)


def _run(
    problem: Any, process: Drawn, label: str, method: Method, run: Run, progress: Progress, kept: Path | None
) -> Result:
    """The run of one method on all seeds of the process. Its folder is named after a digest of all that decides it."""
    options: dict[str, Any] = {
        "rounds": run.rounds,
        "seeds": process.rounds.shape[0],
        "history": run.history,
        "evaluate_every": run.evaluate_every,
        "chunk": run.chunk,
        "record_clients": True,
    }
    folder, begun = None, False
    if kept is not None:
        decides = json.dumps([label, options, describe.versions()])
        folder = kept / RUNS / fingerprint(decides, method, problem, process)[:16]
        begun = (folder / "run.json").exists()
        if begun and read_about(folder)["finished"]:
            progress(label, run.rounds, run.rounds)
            return Result.load(folder)
    return simulate(problem, process, {label: method}, **options, out=folder, resume=begun, progress=progress)


def _ends(values: pl.DataFrame, setting: str, first: int, seeds: int, rounds: int) -> pl.DataFrame:
    """The result of each run of a setting after a share of the rounds: the mean of the last fifth of evaluations."""
    own = values.filter(pl.col("seed").is_between(first, first + seeds - 1), pl.col("round") > 0)
    evaluated, tables = own["round"].unique().sort().to_numpy(), []
    for horizon in HORIZONS:
        count = max(1, int((evaluated <= horizon * rounds).sum()))
        final = final_window(count)
        tables.append(
            own.filter(pl.col("round") <= evaluated[count - 1])
            .sort("round")
            .group_by("method", "seed", maintain_order=True)
            .agg(
                (~pl.col("objective").is_finite()).any().alias("diverged"),
                pl.col("value").tail(final).mean().alias("final"),
                pl.col("worst_decile").fill_nan(None).tail(final).mean(),
            )
            .select(pl.lit(setting).alias("setting"), pl.lit(horizon).alias("horizon"), pl.all())
            .with_columns(pl.col("seed") - first)
            .sort("seed")
        )
    return pl.concat(tables)


def _devices(result: Result, label: str, seeds: int) -> pl.DataFrame:
    """Each client on the record: its final accuracy, how often it was available and how often its update had weight."""
    clients = result.clients.filter(pl.col("seed") < seeds)
    tested = clients.filter(pl.col("test_accuracy").is_not_null())
    moments = tested["round"].unique().sort()
    final = moments.tail(final_window(max(len(moments), 1))).to_list()
    accuracy = pl.col("test_accuracy").filter(pl.col("round").is_in(final)).mean()
    return (
        clients.group_by("client")
        .agg(
            accuracy.cast(pl.Float64).alias("accuracy"),
            pl.col("active").mean().alias("available"),
            (pl.col("invited") & (pl.col("weight") != 0)).mean().alias("included"),
        )
        .select(pl.lit(label).alias("method"), pl.all())
        .sort("client")
    )
