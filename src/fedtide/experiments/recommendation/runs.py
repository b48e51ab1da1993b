"""The runs behind a recommendation: all methods tuned alike, then run on the record and on generated fleets."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import polars as pl
from jax import Array

from fedtide.availability import Process
from fedtide.availability.base import Numbers, lag_one
from fedtide.experiments.build import Experiment, build_method
from fedtide.experiments.config import Config, MethodChoice, Run
from fedtide.experiments.trials import LATE
from fedtide.experiments.tuning import Tuning, carry_out, plan
from fedtide.methods import Method
from fedtide.report import statistics
from fedtide.simulation import Result, simulate
from fedtide.streams import Stream
from fedtide.types import part

RECORDED, GENERATED = "recorded", "generated"
HORIZONS = (0.25, 0.5, 1.0)

Progress = Callable[[str, int, int], None]
"""(what is being done, rounds done, rounds in all)."""


@part
class Drawn(Process):
    """Rounds drawn beforehand: seed `seeds[r]` replays `rounds[r]`, of bool [runs, rounds, clients].

    The record, generated fleets and what-if fleets become runs of one compiled program, and all methods share what was
    drawn. Seeds ascend.
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
    """Rounds [runs, rounds, clients], the run of each seed."""
    order = np.argsort(seeds)
    return Drawn(rounds[order], np.asarray(seeds, np.uint32)[order], rounds.shape[-1])


class Tuned(NamedTuple):
    """What tuning chose."""

    tuning: Tuning
    methods: dict[str, Method]
    choices: dict[str, MethodChoice]  # as a configuration writes them


class Runs(NamedTuple):
    """What the runs with the chosen settings gave."""

    ends: pl.DataFrame  # setting, horizon, method, seed, diverged, final, worst_decile
    rounds: pl.DataFrame  # on the record: the evaluated rounds
    devices: pl.DataFrame  # on the record: method, client, accuracy, there, included
    methods: dict[str, dict[str, Any]]  # as `Result.about` describes them
    parameters: int


def tuned(config: Config, experiment: Experiment, progress: Progress) -> Tuned:
    """Every method of the configuration with the best of its trials, on fleets from the generator."""
    planned = plan(config, experiment)
    progress(next(iter(experiment.methods)), 0, planned.rounds * config.tune.trials)  # compiling takes a while
    here = np.stack([experiment.availability.sample(s, config.run.history + planned.rounds) for s in planned.seeds])
    found = carry_out(
        planned._replace(experiment=experiment._replace(availability=drawn(here, planned.seeds))), progress=progress
    )
    choices = dict(zip(experiment.methods, found.config.methods, strict=True))
    methods = {
        label: build_method(config, i, choice, experiment.problem.sizes)
        for i, (label, choice) in enumerate(choices.items())
    }
    return Tuned(found, methods, choices)


def draw(settings: Mapping[str, Process], seeds: int, run: Run, progress: Progress) -> np.ndarray:
    """Who is there, with every setting's fleet under as many seeds: bool [settings · seeds, rounds, clients]."""
    rounds, found = run.history + run.rounds, []
    for process in settings.values():
        for seed in range(seeds):
            progress("fleets", len(found) * rounds, len(settings) * seeds * rounds)
            found.append(process.sample(seed, rounds))
    progress("fleets", len(found) * rounds, len(found) * rounds)
    return np.stack(found)


def evaluated(
    problem: Any,
    settings: Sequence[str],
    here: np.ndarray,
    methods: Mapping[str, Method],
    run: Run,
    progress: Progress,
) -> Runs:
    """Every method on the drawn rounds of every setting; the first setting is the record.

    Under a seed of a setting all methods meet the same rounds, minibatches and initial model.
    """
    process, seeds = drawn(here, range(len(here))), len(here) // len(settings)
    ends, curves, devices, described, parameters = [], [], [], {}, 0
    for label, method in methods.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # runs that diverge are told of with the result
            result = simulate(
                problem, process, {label: method}, rounds=run.rounds, seeds=len(here), history=run.history,
                evaluate_every=run.evaluate_every, chunk=run.chunk, record_clients=True,
                progress=progress,
            )  # fmt: skip
        values = statistics.evaluations(result.rounds)
        ends += [_ends(values, setting, i * seeds, seeds, run.rounds) for i, setting in enumerate(settings)]
        curves.append(result.rounds.filter(pl.col("seed") < seeds, pl.col("objective").is_not_null()))
        devices.append(_devices(result, label, seeds, run.rounds))
        described[label] = result.about["methods"][0]
        parameters = result.about["problem"]["parameters"]
    return Runs(pl.concat(ends), pl.concat(curves), pl.concat(devices), described, parameters)


def _ends(values: pl.DataFrame, setting: str, first: int, seeds: int, rounds: int) -> pl.DataFrame:
    """How each run of a setting stands after a part of the rounds: the mean of the last fifth of its evaluations."""
    own = values.filter(pl.col("seed") >= first, pl.col("seed") < first + seeds, pl.col("round") > 0)
    found = []
    for horizon in HORIZONS:
        until = own.filter(pl.col("round") <= max(horizon * rounds, own["round"].min()))  # pyright: ignore
        late = math.ceil(LATE * until["round"].n_unique())
        found.append(
            until.sort("round")
            .group_by("method", "seed", maintain_order=True)
            .agg(
                (~pl.col("objective").is_finite()).any().alias("diverged"),
                pl.col("value").tail(late).mean().alias("final"),
                pl.col("worst_decile").fill_nan(None).tail(late).mean(),
            )
            .select(
                pl.lit(setting).alias("setting"),
                pl.lit(horizon).alias("horizon"),
                "method",
                pl.col("seed") - first,
                "diverged",
                "final",
                "worst_decile",
            )
            .sort("seed")
        )
    return pl.concat(found)


def _devices(result: Result, label: str, seeds: int, rounds: int) -> pl.DataFrame:
    """Each client on the record: its accuracy at the end, how often it was there, how often its update counted."""
    clients = result.clients.filter(pl.col("seed") < seeds)
    tested = clients.filter(pl.col("test_accuracy").is_not_null())
    moments = tested["round"].unique().sort()
    late = moments.tail(math.ceil(LATE * max(len(moments), 1))).to_list()
    accuracy = tested.filter(pl.col("round").is_in(late)).group_by("client").agg(pl.col("test_accuracy").mean())
    return (
        clients.group_by("client")
        .agg(
            pl.col("active").mean().alias("there"),
            (pl.col("invited") & (pl.col("weight") != 0)).mean().alias("included"),
        )
        .join(accuracy, on="client", how="left")
        .select(
            pl.lit(label).alias("method"),
            "client",
            pl.col("test_accuracy").cast(pl.Float64).alias("accuracy"),
            "there",
            "included",
        )
        .sort("client")
    )
