"""Statistics of the records, with intervals over seeds.

Under a seed, all methods have the same traces, minibatches and initial model, so differences are paired by seed: the
interval of a difference is that of the mean of paired differences, which is narrower than the intervals of the two
methods suggest.
"""

import polars as pl

from fedtide.errors import InvalidInput, one_of
from fedtide.statistics import Estimated, Metric, interval


def metric(rounds: pl.DataFrame) -> Metric:
    """The metric that methods are compared by: test accuracy if the problem has one, otherwise the objective."""
    return "accuracy" if rounds["test_accuracy"].cast(pl.Float64).is_finite().any() else "objective"


def labels(rounds: pl.DataFrame) -> list[str]:
    """The methods in order of appearance."""
    return rounds["method"].unique(maintain_order=True).to_list()


def chosen_baseline(rounds: pl.DataFrame, baseline: str | None) -> str:
    """The baseline, by default the first method."""
    known = labels(rounds)
    if not known:
        raise InvalidInput("rounds", "an empty table", "a table with at least one evaluated round")
    if baseline is None:
        return known[0]
    if baseline not in known:
        raise InvalidInput("baseline", baseline, one_of(baseline, known))
    return baseline


def evaluations(rounds: pl.DataFrame) -> pl.DataFrame:
    """The evaluated rounds: `value` is the metric, `diverged` marks runs whose objective became infinite or NaN."""
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
    """One row per method and seed: `final`, `average`, `worst_decile`, `objective`, and whether it `diverged`."""
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
    """Mean of method − baseline over the seeds on which neither diverged, from a table of `per_seed`."""
    finished = seeds.filter(~pl.col("diverged") & pl.col(column).is_not_null())
    both = finished.filter(pl.col("method") == method).join(finished.filter(pl.col("method") == baseline), on="seed")
    return interval((both[column] - both[f"{column}_right"]).to_numpy())


def summary(rounds: pl.DataFrame, clients: pl.DataFrame | None = None, baseline: str | None = None) -> pl.DataFrame:
    """One row per method: its final and average metric, its worst-served clients, and its difference to the baseline.

    `final` is the metric at the last evaluation and `average` its mean over the evaluated rounds after round 0, each
    a mean over seeds with a 95 % bootstrap interval over seeds (`_low`, `_high`; null for one seed). `difference`
    and `average_difference` are their paired differences to the baseline (the first method unless chosen), over the
    seeds on which neither method diverged. `worst_decile` is the accuracy of the tenth of the clients with the lowest
    accuracy, `objective` the training objective, both final. `seeds` and `diverged` are the numbers of seeds that
    finished and diverged; the latter are excluded everywhere. Accuracies are fractions of 1. Problems without an
    accuracy are compared by the objective (`metric`): lower is better.
    """
    base = chosen_baseline(rounds, baseline)
    kind = metric(rounds)
    seeds = per_seed(rounds)
    unknown = kind == "accuracy" and seeds["worst_decile"].is_null().all()
    if unknown and clients is not None and not clients.is_empty():
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
    """One row per method and seed: mean final accuracy of the tenth of the clients with the lowest accuracy."""
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


def _columns(name: str, estimate: Estimated) -> dict[str, float | None]:
    return {name: estimate.mean, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


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
