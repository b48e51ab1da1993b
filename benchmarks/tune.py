"""Tunes the demo's learning rates: the same grid for every method, on data draws and seeds that the demo never sees.

    python benchmarks/tune.py --json tuned.json

For each method every pair (η, η_s) of the grid runs on the demo's federation, for each of two other data draws and five
other seeds. The pair with the best mean test accuracy over the last fifth of the rounds is chosen; a pair that diverges
anywhere is out.
"""

import argparse
import itertools

import numpy as np
from common import machine, print_table, write_json

import fedtide
from fedtide.work import Steps

RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
SERVER_RATES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
METHODS = {
    "fedavg": {},
    "unbiased": {},
    "most_available": {},
    "adafed": {},
    "f3ast": {"clients": 45, "smoothing": 0.01},
    "ca_fed": {},
}


def scores(name: str, options: dict[str, object], rounds: int) -> np.ndarray:
    """Mean late accuracy of every pair [rates, server rates]; −1 where a replica diverged."""
    pairs = list(itertools.product(RATES, SERVER_RATES))
    build = fedtide.methods.find(name).build
    settings = [build(rate=a, server_rate=b, work=Steps(5, 32), **options) for a, b in pairs]
    found = []
    for draw in (1001, 1002):
        problem = fedtide.problems.find("synthetic_leaf").build(seed=draw)
        availability = fedtide.availability.find("paper_population").build(seed=draw)
        evaluation = fedtide.sweep(
            problem, availability, settings, rounds=rounds, seeds=range(1000, 1005), evaluate_every=5
        )
        late = evaluation.test_accuracy[..., -rounds // 25 :].mean(axis=-1)
        finite = np.isfinite(evaluation.objective).all(axis=-1)
        found.append(np.where(finite, late, np.nan))
    mean = np.concatenate(found, axis=1).mean(axis=1)  # nan where any replica diverged
    return np.nan_to_num(mean, nan=-1).reshape(len(RATES), len(SERVER_RATES))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", help="write the whole grid to this file")
    options = parser.parse_args()
    rows, grids = [], {}
    for name, extra in METHODS.items():
        grid = scores(name, extra, options.rounds)
        i, j = np.unravel_index(grid.argmax(), grid.shape)
        rows.append({"method": name, "rate": RATES[i], "server rate": SERVER_RATES[j], "accuracy": float(grid[i, j])})
        grids[name] = np.round(grid, 4).tolist()
        print_table(
            f"{name}: accuracy; a row for each η of {RATES}, a column for each η_s of {SERVER_RATES}",
            [
                {"η": rate, **{str(s): float(v) for s, v in zip(SERVER_RATES, line, strict=True)}}
                for rate, line in zip(RATES, grid, strict=True)
            ],
        )
    print_table("Chosen", rows)
    content = {"machine": machine(), "rates": RATES, "server_rates": SERVER_RATES, "chosen": rows, "grids": grids}
    write_json(options.json, content)


if __name__ == "__main__":
    main()
