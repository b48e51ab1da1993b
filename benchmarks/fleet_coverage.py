"""Coverage of the 95 % intervals of fitted devices and of the fleet's distribution.

python benchmarks/fleet_coverage.py [--fleets 20] [--json out.json]

Fleets of known chains (π ~ Beta(2.4, 8.2), τ ~ lognormal(1.5 h, 0.56), rounds of 30 minutes, a share of devices that
is never available) are simulated at several sizes with a fifth of the entries missing, fitted, and compared with the
truth. `band` is two standard errors, over the fleets, of the coverage of π.
"""

import argparse
import itertools

import numpy as np
from common import print_table, write_json

from fedtide.fleet.fitting.chain import posterior
from fedtide.fleet.fitting.counts import count
from fedtide.fleet.fitting.population import population

HOURS = 0.5
BETA, TIME = (2.4, 8.2), (1.5, 0.56)


def measure(fleets: int) -> list[dict[str, object]]:
    """One row per number of devices, number of rounds, and share of devices that are never available."""
    sizes = itertools.product((1, 5, 20, 100, 400), (50, 300, 1000), (0.0, 0.15))
    return [_row(devices, rounds, never, fleets) for devices, rounds, never in sizes]


def _row(devices: int, rounds: int, never: float, fleets: int) -> dict[str, object]:
    covered: dict[str, list[float]] = {name: [] for name in ("π", "λ", "Beta a", "Beta b", "hours", "σ")}
    for seed in range(fleets if devices >= 100 else 4 * fleets):
        generator = np.random.default_rng([seed, devices, rounds])
        pi = np.where(generator.random(devices) < never, 0, generator.beta(*BETA, devices))
        lam = np.exp(-HOURS / (TIME[0] * np.exp(TIME[1] * generator.standard_normal(devices))))
        counts = count(_simulate(pi, lam, rounds, generator))
        fleet = population(counts.pairs, HOURS)
        fitted = posterior(counts.pairs, fleet.prior, HOURS, fleet.others)
        covered["π"].append(((fitted.availability_low <= pi) & (pi <= fitted.availability_high)).mean())
        covered["λ"].append(((fitted.correlation_low <= lam) & (lam <= fitted.correlation_high)).mean())
        d = fleet.distribution
        truth = (*BETA, *TIME)
        for name, value, error, true in zip(
            list(covered)[2:], (*d.beta, *d.hours), (*d.beta_se, *d.hours_se), truth, strict=True
        ):
            # On the logarithmic scale, because these are positive and skewed.
            covered[name].append(abs(np.log(value / true)) < 1.96 * error / value)
    row: dict[str, object] = {"devices": devices, "rounds": rounds, "never": never}
    row |= {name: float(np.mean(values)) for name, values in covered.items()}
    spread = np.std(covered["π"], ddof=1) / len(covered["π"]) ** 0.5
    return row | {"band": f"±{2 * spread:.3f}"}


def _simulate(pi: np.ndarray, lam: np.ndarray, rounds: int, generator: np.random.Generator) -> np.ndarray:
    drawn, state = generator.random(len(pi)), np.empty((rounds, len(pi)), np.int8)
    for t in range(rounds):
        state[t] = drawn < pi
        drawn = np.where(generator.random(len(pi)) < lam, drawn, generator.random(len(pi)))
    state[generator.random(state.shape) < 0.2] = -1
    return state


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--fleets", type=int, default=20, help="fleets per size; four times as many with fewer than 100 devices"
    )
    parser.add_argument("--json", help="write the numbers to this file")
    options = parser.parse_args()
    rows = measure(options.fleets)
    print_table("Share of 95 % intervals that contain the truth", rows)
    write_json(options.json, {"fleet_coverage": rows})


if __name__ == "__main__":
    main()
