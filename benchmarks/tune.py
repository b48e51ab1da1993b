"""Tunes the demo's learning rates: the same grid for every method, on data draws and seeds that the demo does not use.

    python benchmarks/tune.py --json tuned.json

This runs `fedtide tune` on the demo's configuration for each of two other data draws: every pair (η, η_s) of the grid
runs on five seeds, and is judged on a fifth of every client's training samples over the last fifth of the
evaluations. The pair with the best mean over both draws is chosen; a pair that diverges in any run is excluded.
"""

import argparse

import polars as pl
from common import machine, print_table, write_json

from fedtide.experiments import demo
from fedtide.experiments.config import from_tables
from fedtide.tuning import tune

RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
SERVER_RATES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
DRAWS = (1001, 1002)


def trials(rounds: int) -> pl.DataFrame:
    """All trials on all draws and seeds."""
    found = []
    for draw in DRAWS:
        written = demo().model_dump(exclude_unset=True)
        written["problem"] |= {"seed": draw}
        written["availability"] |= {"seed": draw}
        space = {"rate": list(RATES), "server_rate": list(SERVER_RATES)}
        written["tune"] = {"trials": len(RATES) * len(SERVER_RATES), "seeds": 5, "rounds": rounds, "space": space}
        found.append(tune(from_tables(written)).trials.with_columns(draw=pl.lit(draw)))
    return pl.concat(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", help="write the whole grid to this file")
    options = parser.parse_args()
    pairs = (
        trials(options.rounds)
        .group_by("method", "rate", "server_rate", maintain_order=True)
        .agg(pl.col("validation_accuracy").mean().alias("accuracy"), pl.col("diverged").any())
        .with_columns(pl.when("diverged").then(None).otherwise(pl.col("accuracy").round(4)).alias("accuracy"))
    )
    chosen = []
    for (name,), own in pairs.group_by("method", maintain_order=True):
        best = own.sort("accuracy", "rate", descending=[True, False], nulls_last=True).row(0, named=True)
        chosen.append({key: best[key] for key in ("method", "rate", "server_rate", "accuracy")})
        grid = own.pivot("server_rate", index="rate", values="accuracy")
        print_table(f"{name}: validation accuracy; rows are η, columns η_s", grid.to_dicts())
    print_table("Chosen", chosen)
    write_json(options.json, {"machine": machine(), "chosen": chosen, "grid": pairs.drop("diverged").to_dicts()})


if __name__ == "__main__":
    main()
