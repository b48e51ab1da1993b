"""Robustness against unbiasedness: attackers that are always available, and honest clients that rarely are.

Twenty clients hold handwritten digits. Six of them are available in one round of ten, and only they have the digits
7, 8 and 9. The other fourteen are almost always available. The table compares no attack with one in which four of the
fourteen send their update with the opposite sign and three times as long.

    python examples/robustness.py
    python examples/robustness.py --json docs/data/robustness-cpu.json    # for the documentation
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import fedtide
from fedtide import Method, compose, methods
from fedtide.aggregation import GeometricMedian, NormClipped
from fedtide.availability import Markov
from fedtide.problems import Samples, classification, softmax_regression
from fedtide.solvers import SignFlip

CLIENTS, RARE, ATTACKERS, ROUNDS, SEEDS = 20, 6, (0, 1, 2, 3), 100, 2
RARE_DIGITS = (7, 8, 9)


def problem() -> Any:
    """Digits 0 to 6 at the common clients, 7 to 9 at the last `RARE`; a fifth of each client's images are its test."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images, rng = (images / 16).astype(np.float32), np.random.default_rng(0)
    rare = rng.permutation(np.flatnonzero(np.isin(labels, RARE_DIGITS)))
    common = rng.permutation(np.flatnonzero(~np.isin(labels, RARE_DIGITS)))
    owned = [*np.array_split(common, CLIENTS - RARE), *np.array_split(rare, RARE)]
    train, test = ([part[k] for part in (np.split(own, [len(own) // 5]) for own in owned)] for k in (1, 0))
    data = (Samples(images[np.concatenate(p)], labels[np.concatenate(p)], [len(o) for o in p]) for p in (train, test))
    return classification(softmax_regression(64, 10), *data)


def candidates(rate: float = 0.3) -> dict[str, Method]:
    unbiased = methods.unbiased(rate=rate)
    return {
        "FedAvg": methods.fedavg(rate=rate),
        "Unbiased": unbiased,
        "Unbiased, clipped": compose(unbiased, aggregation=NormClipped(norm=0.5)),
        "Median": methods.coordinate_median(rate=rate),
        "Multi-Krum": methods.krum(rate=rate, attackers=4, keep=6),
        "RFA": methods.rfa(rate=rate),
        "RFA, weights α/π̂": compose(unbiased, aggregation=GeometricMedian()),
    }


def flipped(method: Method) -> Method:
    return replace(method, solver=SignFlip(method.solver, ATTACKERS, 3.0))


def main() -> list[dict[str, Any]]:
    """One row per method: accuracy over all clients and over rarely available ones, without and with the attack."""
    fleet = Markov(np.repeat([0.95, 0.1], [CLIENTS - RARE, RARE]), np.repeat(0.5, CLIENTS))
    data, rows = problem(), []
    for name, method in candidates().items():
        row: dict[str, Any] = {"method": name}
        cases = {"no attack": method, "sign flips": flipped(method)}
        result = fedtide.simulate(data, fleet, cases, rounds=ROUNDS, seeds=SEEDS, history=50, evaluate_every=10)
        late = result.clients.filter(
            (result.clients["round"] > ROUNDS // 2) & result.clients["test_accuracy"].is_not_null()
        )
        for case in cases:
            accuracy = late.filter(late["method"] == case)
            row[case] = {
                "all": accuracy["test_accuracy"].mean(),
                "rare": accuracy.filter(accuracy["client"] >= CLIENTS - RARE)["test_accuracy"].mean(),
            }
        rows.append(row)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", help="also write the table to this file")
    file, rows = parser.parse_args().json, main()
    cases = [case for case in rows[0] if case != "method"]
    print(f"{'accuracy in %: all clients (rarely available ones)':20}")
    print(f"{'':20}" + "".join(f"{case:>16}" for case in cases))
    for row in rows:
        cells = (f"{100 * row[case]['all']:.0f} ({100 * row[case]['rare']:.0f})" for case in cases)
        print(f"{row['method']:20}" + "".join(f"{cell:>16}" for cell in cells))
    if file:
        Path(file).write_text(json.dumps({"rounds": ROUNDS, "seeds": SEEDS, "rows": rows}, indent=1) + "\n", "utf-8")
