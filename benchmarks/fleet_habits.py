"""How often a fit reports habits (device-specific hours) in fleets without and with them. Prints a table, writes JSON.

python benchmarks/fleet_habits.py --fleets 40 --json out.json

The fleets are synthetic: 60 devices with a daily clock, six days in rounds of 30 minutes. Among fleets without
habits, one in 60 should be reported to have them: of 40 fleets, at most 3 with probability 0.99.
"""

import argparse
import time

import numpy as np
from common import print_table, write_json

from fedtide.fleet import Fleet, Slots, fit
from fedtide.fleet.process.waves import drawn

DEVICES, ROUNDS, SECONDS = 60, 48 * 6, 1800
CLOCK = 0.4 * np.sin(2 * np.pi * np.arange(24) / 24)
# Classes of run lengths, as their bounds in hours, and the share of each: many short runs, and some very long ones.
RUNS = {
    "stays": ((0.25, 0.6, 1.5, 6.0, 12.0), (0.3, 0.3, 0.1, 0.3)),
    "absences": ((0.25, 1.0, 3.0, 10.0, 20.0), (0.2, 0.2, 0.1, 0.5)),
}
CASES: dict[str, tuple[float, dict[str, object]]] = {
    "chains": (0.0, {}),
    "long runs": (0.0, RUNS),
    "chains with habits, σ = .3": (0.3, {}),
    "chains with habits, σ = .6": (0.6, {}),
    "long runs with habits, σ = .6": (0.6, RUNS),
}


def record(sigma: float, runs: dict[str, object], seed: int) -> Slots:
    generator = np.random.default_rng([seed, 3])
    pi, hours = generator.uniform(0.2, 0.5, DEVICES), generator.uniform(1.5, 4, DEVICES)
    habit = drawn(sigma, DEVICES, generator) if sigma else None
    available = Fleet(pi, hours, CLOCK, habit=habit, **runs).sample(seed, ROUNDS)  # pyright: ignore[reportArgumentType]
    return Slots(available.astype(np.int8), tuple(map(str, range(DEVICES))), SECONDS, 0, None)


def study(fleets: int) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for case, (sigma, runs) in CASES.items():
        begun = time.process_time()
        fitted = [fit(record(sigma, runs, seed), seed=seed).habits for seed in range(fleets)]
        values = [habits.sigma for habits in fitted if habits]
        row = {"case": case, "fleets": fleets, "with habits": len(values)}
        row["mean σ of these"] = float(np.mean(values)) if values else None
        rows.append(row | {"CPU seconds per fit": (time.process_time() - begun) / fleets})
        print(row, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fleets", type=int, default=40, help="fleets per case")
    parser.add_argument("--json", help="write the numbers to this file")
    options = parser.parse_args()
    rows = study(options.fleets)
    print_table(f"Fleets with reported habits ({DEVICES} devices, {ROUNDS} rounds of {SECONDS // 60} minutes)", rows)
    write_json(options.json, {"habits": rows})


if __name__ == "__main__":
    main()
