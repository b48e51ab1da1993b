"""What the records say, with intervals over seeds.

Every method meets the same traces, minibatches and initial model under a seed, so methods are compared seed by seed:
the interval of a difference is that of the mean of paired differences, which is narrower than the methods' own
intervals suggest.
"""

import warnings
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from fedtide.errors import InvalidInput, one_of

Metric = Literal["accuracy", "objective"]


class Estimated(NamedTuple):
    """A mean over seeds and its 95 % interval; None where there is nothing to say."""

    mean: float | None
    low: float | None
    high: float | None


def metric(rounds: pl.DataFrame) -> Metric:
    """What methods are judged by: test accuracy where the problem has one, otherwise the objective."""
    return "accuracy" if rounds["test_accuracy"].cast(pl.Float64).is_finite().any() else "objective"


def labels(rounds: pl.DataFrame) -> list[str]:
    """The methods in order of appearance."""
    return rounds["method"].unique(maintain_order=True).to_list()


def chosen_baseline(rounds: pl.DataFrame, baseline: str | None) -> str:
    """The baseline, or the first method where none is chosen."""
    known = labels(rounds)
    if not known:
        raise InvalidInput("rounds", "an empty table", "a table with at least one evaluated round")
    if baseline is None:
        return known[0]
    if baseline not in known:
        raise InvalidInput("baseline", baseline, one_of(baseline, known))
    return baseline


def interval(values: np.ndarray) -> Estimated:
    """The mean and its 95 % bootstrap interval (BCa); one value has no interval, equal values one of no width."""
    values = np.asarray(values, np.float64)
    if values.size == 0:
        return Estimated(None, None, None)
    mean = float(values.mean())
    if values.size == 1:
        return Estimated(mean, None, None)
    if np.ptp(values) <= 1e-12 * np.abs(values).max():
        return Estimated(mean, mean, mean)
    from scipy.stats import bootstrap

    for method in ("BCa", "percentile"):  # BCa is not defined where every resample is on one side of the mean
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = bootstrap(
                (values,), np.mean, n_resamples=9999, method=method, rng=np.random.default_rng(0)
            ).confidence_interval
        if np.isfinite(found).all():
            return Estimated(mean, float(found.low), float(found.high))
    return Estimated(mean, None, None)


def student(values: np.ndarray, confidence: float = 0.95) -> Estimated:
    """The mean of the finite values and its interval by Student's t: a bootstrap of a handful would be too narrow."""
    from scipy.stats import t

    values = np.asarray(values, np.float64)
    values = values[np.isfinite(values)]
    if values.size == 0:
        return Estimated(None, None, None)
    mean = float(values.mean())
    if values.size == 1:
        return Estimated(mean, None, None)
    half = float(t.ppf((1 + confidence) / 2, values.size - 1) * values.std(ddof=1) / np.sqrt(values.size))
    return Estimated(mean, mean - half, mean + half)


def evaluations(rounds: pl.DataFrame) -> pl.DataFrame:
    """The evaluated rounds: `value` is the metric, `diverged` marks runs whose objective left the finite numbers."""
    column = "test_accuracy" if metric(rounds) == "accuracy" else "objective"
    evaluated = pl.col("objective").is_not_null() | pl.col("test_accuracy").is_not_null()
    numbers = pl.col("objective", "test_loss", "test_accuracy", "worst_decile").cast(pl.Float64)
    return (
        rounds.filter(evaluated)
        .with_columns(numbers)
        .with_columns(
            (~pl.col("objective").is_finite()).fill_null(False).any().over("method", "seed").alias("diverged"),
            pl.when(pl.col(column).is_finite()).then(pl.col(column)).alias("value"),
        )
        .sort("round", maintain_order=True)
    )


def per_seed(rounds: pl.DataFrame) -> pl.DataFrame:
    """One row a method and seed: `final`, `average`, `worst_decile` and `objective`, and whether it `diverged`."""
    return (
        evaluations(rounds)
        .group_by("method", "seed", maintain_order=True)
        .agg(
            pl.col("diverged").first(),
            pl.col("round").last(),
            pl.col("value").last().alias("final"),
            pl.col("value").filter(pl.col("round") > 0).mean().alias("average"),
            pl.col("worst_decile").fill_nan(None).last(),
            pl.col("objective").last(),
        )
        .sort("seed", maintain_order=True)
    )


def paired(seeds: pl.DataFrame, method: str, baseline: str, column: str = "final") -> Estimated:
    """Mean of method − baseline over the seeds that both finished, from a table of `per_seed`."""
    finished = seeds.filter(~pl.col("diverged") & pl.col(column).is_not_null())
    both = finished.filter(pl.col("method") == method).join(finished.filter(pl.col("method") == baseline), on="seed")
    return interval((both[column] - both[f"{column}_right"]).to_numpy())


def summary(rounds: pl.DataFrame, clients: pl.DataFrame | None = None, baseline: str | None = None) -> pl.DataFrame:
    """One row a method: how it ends, how it does on the way, whom it serves worst, and how it compares.

    `final` is the metric at the last evaluation and `average` its mean over the evaluated rounds after round 0, each
    a mean over seeds with a 95 % bootstrap interval over seeds (`_low`, `_high`; null with one seed). `difference`
    and `average_difference` are their paired differences to the baseline (the first method unless chosen), over the
    seeds that neither method diverged in. `worst_decile` is the accuracy of the tenth of the clients served worst,
    `objective` the training objective, both at the end. `seeds` were finished; `diverged` were not, and count nowhere.
    Accuracies are shares of 1. Problems without an accuracy are judged by the objective (`metric`): lower is better.
    """
    base = chosen_baseline(rounds, baseline)
    kind = metric(rounds)
    seeds = per_seed(rounds)
    if kind == "accuracy" and seeds["worst_decile"].is_null().all() and has_clients(clients):
        assert clients is not None
        seeds = seeds.drop("worst_decile").join(worst_decile(clients), on=["method", "seed"], how="left")
    rows = []
    for method in labels(rounds):
        own = seeds.filter(pl.col("method") == method)
        good = own.filter(~pl.col("diverged") & pl.col("final").is_not_null())
        row = {"method": method, "metric": kind, "baseline": method == base, "round": own["round"].min()}
        row |= {"seeds": good.height, "diverged": int(own["diverged"].sum())}
        for name in ("final", "average"):
            row |= _columns(name, interval(good[name].drop_nulls().to_numpy()))
        row |= {name: good[name].mean() for name in ("worst_decile", "objective")}
        row |= _columns("difference", paired(seeds, method, base))
        row |= _columns("average_difference", paired(seeds, method, base, "average"))
        rows.append(row)
    return pl.DataFrame(rows, schema=SCHEMA)


def worst_decile(clients: pl.DataFrame) -> pl.DataFrame:
    """One row a method and seed: mean accuracy, at the end, of the tenth of the clients that are served worst."""
    tenth = (pl.len() / 10).ceil().cast(pl.Int64)
    return (
        final_clients(clients)
        .sort("test_accuracy")
        .group_by("method", "seed", maintain_order=True)
        .agg(pl.col("test_accuracy").head(tenth).mean().alias("worst_decile"))
    )


def final_clients(clients: pl.DataFrame) -> pl.DataFrame:
    """Each client's test accuracy at the last evaluation of each method and seed."""
    tested = clients.filter(pl.col("test_accuracy").is_finite())
    return tested.filter(pl.col("round") == pl.col("round").max().over("method", "seed")).select(
        "method", "seed", "client", pl.col("test_accuracy").cast(pl.Float64)
    )


def has_clients(clients: pl.DataFrame | None) -> bool:
    """Whether anything was recorded for each client."""
    return clients is not None and clients.height > 0


def _columns(name: str, found: Estimated) -> dict[str, float | None]:
    return {name: found.mean, f"{name}_low": found.low, f"{name}_high": found.high}


SCHEMA = {
    "method": pl.String,
    "metric": pl.String,
    "baseline": pl.Boolean,
    "round": pl.Int64,
    "seeds": pl.Int64,
    "diverged": pl.Int64,
    **{f"{name}{end}": pl.Float64 for name in ("final", "average") for end in ("", "_low", "_high")},
    "worst_decile": pl.Float64,
    "objective": pl.Float64,
    **{f"{name}{end}": pl.Float64 for name in ("difference", "average_difference") for end in ("", "_low", "_high")},
}
