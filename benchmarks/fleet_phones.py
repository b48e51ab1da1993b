"""Real phones, from their log to the generator: does the fitted fleet agree with what is known of them?

python benchmarks/fleet_phones.py --data DIR --json out.json

DIR holds flash_charging_intervals.csv.gz and flash_charging_devices.csv (FLASH: Yang et al., WWW 2021). Three rules of
eligibility, rounds of 10 and 30 minutes.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from common import print_table, write_json

from fedtide import fleet
from fedtide.experiments.fleets import fit_fleet

RULES = ("charging", "charging_or_battery75", "charging_or_battery50")
SHOWN = ("order", "homogeneity", "day_later", "together", "together_after_clock")


def measure(data: Path, minutes: list[int], simulated: int) -> tuple[list[dict], list[dict], list[dict]]:
    """(the fits, the findings, the generator's checks), a row for each rule and round length."""
    fits, findings, checks = [], [], []
    for rule in RULES:
        log = fleet.read(
            data / "flash_charging_intervals.csv.gz", where={"kind": rule},
            windows=data / "flash_charging_devices.csv", origin="2020-01-29T18:00",
        )  # fmt: skip
        for length in minutes:
            begun = time.perf_counter()
            found = fit_fleet(log, 60 * length, simulated=simulated)
            seconds = time.perf_counter() - begun
            case = {"rule": rule, "minutes": length}
            fits.append({**case, **fitted(found.model), "seconds": seconds})
            by_name = {f.name: f for f in found.diagnosis.findings}
            findings.append({**case, **{name: by_name[name].statistic for name in SHOWN}})
            for check in found.diagnosis.checks:
                checks.append({**case, **check._asdict()})
    return fits, findings, checks


def fitted(model: fleet.FleetModel) -> dict[str, object]:
    known = model.devices.filter(model.devices["observed"] > 0)
    raw, lam = known["raw_availability"].to_numpy(), known["raw_correlation"].drop_nulls().to_numpy()
    (a, b), (hours, sigma) = model.distribution.beta, model.distribution.hours
    return {
        "devices": len(known),
        "mean_pi": float(raw.mean()),
        "pi_5_50_95": " ".join(f"{q:.2f}" for q in np.quantile(raw, [0.05, 0.5, 0.95])),
        "lambda_5_50_95": " ".join(f"{q:.2f}" for q in np.quantile(lam, [0.05, 0.5, 0.95])),
        "negative": model.distribution.negative,
        "beta": f"{a:.2f} {b:.2f}",
        "tau_hours": f"{hours:.2f} {sigma:.2f}",
        "never": model.distribution.never,
        "clusters": len(model.clusters),
        "pairs": model.pair_correlation_with_clock,
        "pairs_after_clock": model.pair_correlation[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the log")
    parser.add_argument("--minutes", type=int, nargs="+", default=[10, 30], help="round lengths")
    parser.add_argument("--simulated", type=int, default=199, help="fleets behind each test")
    parser.add_argument("--json", help="write the numbers to this file")
    options = parser.parse_args()
    fits, findings, checks = measure(options.data, options.minutes, options.simulated)
    print_table("The fitted fleets", fits)
    print_table("Findings: the statistic of each", findings)
    print_table("The generator against the record", checks)
    write_json(options.json, {"fits": fits, "findings": findings, "checks": checks})


if __name__ == "__main__":
    main()
