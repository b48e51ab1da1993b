"""Level and power of the tests of a fleet's record. Prints tables, writes JSON.

python benchmarks/fleet_tests.py --fleets 200 --json out.json
python benchmarks/fleet_tests.py --fleets 0 --data DIR     # real phones: the matrices of flash_charging_slots.npz

A rejection rate of 5 % over 200 fleets has a standard error of 1.5 %.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from common import print_table, write_json

from fedtide.fleet.diagnosis.diagnose import examine
from fedtide.fleet.diagnosis.findings import Decided
from fedtide.fleet.slots import Slots

ROUNDS, DEVICES, SECONDS = 400, 60, 1800
NAMES = ("order", "homogeneity", "dwell", "day_later", "together", "together_after_clock")


def chains(generator: np.random.Generator, amplitude: float = 0.0, rounds: int = ROUNDS) -> np.ndarray:
    """Independent chains with π in .1 … .5 and λ in .4 … .85; `amplitude` of a daily cycle."""
    pi, lam = generator.uniform(0.1, 0.5, DEVICES), generator.uniform(0.4, 0.85, DEVICES)
    p = pi * (1 + amplitude * np.sin(2 * np.pi * np.arange(rounds) * SECONDS / 86_400))[:, None]
    here = np.empty((rounds, DEVICES), bool)
    here[0] = generator.random(DEVICES) < p[0]
    for t in range(1, rounds):
        here[t] = generator.random(DEVICES) < np.clip(p[t] + lam * (here[t - 1] - p[t - 1]), 0, 1)
    return here


def second_order(generator: np.random.Generator, lasting: float) -> np.ndarray:
    """The probability of a change is 0.2, and `lasting` times that in the round after a change."""
    here = np.zeros((ROUNDS, DEVICES), bool)
    for t in range(2, ROUNDS):
        change = np.where(here[t - 1] == here[t - 2], 0.2, 0.2 * lasting)
        here[t] = here[t - 1] ^ (generator.random(DEVICES) < change)
    return here


def constant_stays(generator: np.random.Generator) -> np.ndarray:
    """Unavailable periods are geometric; available periods last six rounds."""
    here, left = np.zeros((ROUNDS, DEVICES), bool), np.zeros(DEVICES, int)
    for t in range(ROUNDS):
        left = np.where(left > 0, left - 1, np.where(generator.random(DEVICES) < 0.1, 6, 0))
        here[t] = left > 0
    return here


def common(generator: np.random.Generator, share: float) -> np.ndarray:
    """In a `share` of the rounds, a device follows a chain that all devices have in common."""
    leader = chains(generator)[:, :1]
    return np.where(generator.random((ROUNDS, DEVICES)) < share, leader, chains(generator))


def hide(here: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Hides late beginnings, early ends and two gaps per device: about a third of all entries."""
    record, rounds = here.astype(np.int8), len(here)
    for k in range(record.shape[1]):
        record[: generator.integers(rounds // 5), k] = -1
        record[rounds - generator.integers(rounds // 5) :, k] = -1
        for begin in generator.integers(rounds, size=2):
            record[begin : begin + generator.integers(1, rounds // 10), k] = -1
    return record


CASES: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "null": lambda g: chains(g).astype(np.int8),
    "null, entries missing": lambda g: hide(chains(g), g),
    "null, 3 days": lambda g: hide(chains(g, rounds=144), g),
    "daily cycle, .2": lambda g: hide(chains(g, 0.2), g),
    "daily cycle, .4": lambda g: hide(chains(g, 0.4), g),
    "daily cycle, .8": lambda g: hide(chains(g, 0.8), g),
    "second order, half as likely": lambda g: hide(second_order(g, 0.5), g),
    "second order, a quarter as likely": lambda g: hide(second_order(g, 0.25), g),
    "stays of 6 rounds": lambda g: hide(constant_stays(g), g),
    "10 % in common": lambda g: hide(common(g, 0.1), g),
    "30 % in common": lambda g: hide(common(g, 0.3), g),
}


def study(fleets: int, simulated: int, only: str) -> Iterator[dict[str, object]]:
    """For each case, the share of fleets in which each test rejects, and for two of the tests the share of devices."""
    for number, (case, make) in enumerate(CASES.items()):
        if only not in case:
            continue
        rejected, shares = dict.fromkeys(NAMES, 0), {"order": 0.0, "homogeneity": 0.0}
        for fleet in range(fleets):
            record = make(np.random.default_rng([number, fleet]))
            for name, finding in _examined(Slots(record, (), SECONDS, 0, None), simulated, fleet).items():
                rejected[name] += finding.p <= 0.05  # not corrected for several tests
                if name in shares:
                    shares[name] += finding.statistic
        row: dict[str, object] = {"case": case}
        row |= {f"{name}, devices": value / fleets for name, value in shares.items()}
        yield row | {name: value / fleets for name, value in rejected.items()}


def _examined(slots: Slots, simulated: int, seed: int) -> dict[str, Decided]:
    """The answers that the record is sufficient for."""
    state = slots.state
    pairs = (state[1:] >= 0) & (state[:-1] >= 0)
    moved = np.minimum((pairs & (state[1:] > state[:-1])).sum(0), (pairs & (state[1:] < state[:-1])).sum(0))
    answers, _ = examine(slots, np.flatnonzero(moved), simulated=simulated, seed=seed)
    return {answer.name: answer for answer in answers if isinstance(answer, Decided) and answer.name in NAMES}


def phones(data: Path, simulated: int) -> Iterator[dict[str, object]]:
    """The statistics of the recorded phones, with the range of 95 % of the simulated fleets."""
    stored = np.load(data / "flash_charging_slots.npz", allow_pickle=False)
    origin = int(np.datetime64(str(stored["t0"]), "s").astype(int))
    for minutes in (10, 30):
        for rule in ("charging", "charging_or_battery75", "charging_or_battery50"):
            start = origin + int(stored[f"first_slot_s_{minutes}min"])
            slots = Slots(stored[f"flash_{rule}_{minutes}min"], (), 60 * minutes, start, "UTC")
            begun = time.process_time()
            findings = _examined(slots, simulated, 0)
            row: dict[str, object] = {"rule": rule, "minutes": minutes}
            for name, finding in findings.items():
                row[name] = f"{finding.statistic:.2f} ({finding.null[0]:.2f} to {finding.null[1]:.2f})"
            yield row | {"CPU seconds": time.process_time() - begun}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fleets", type=int, default=100, help="fleets per case; 0 skips the study")
    parser.add_argument("--simulated", type=int, default=99, help="simulated fleets per null distribution")
    parser.add_argument("--case", default="", help="only the cases whose names contain this text, such as null")
    parser.add_argument("--data", type=Path, help="folder with flash_charging_slots.npz, to test real phones")
    parser.add_argument("--json", help="write the numbers to this file")
    options = parser.parse_args()
    results: dict[str, object] = {"fleets": options.fleets, "simulated": options.simulated}
    if options.fleets:
        results["study"] = rows = list(study(options.fleets, options.simulated, options.case))
        print_table(f"Shares rejected at 5 %: devices, then fleets ({DEVICES} devices, {ROUNDS} rounds)", rows)
    if options.data:
        results["phones"] = rows = list(phones(options.data, 199))
        print_table("Phones: statistic (range of 95 % of simulated fleets)", rows)
    write_json(options.json, results)


if __name__ == "__main__":
    main()
