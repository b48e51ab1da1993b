"""How well fleets that are fitted to real phones agree with their record.

python benchmarks/fleet_phones.py --data DIR --json out.json

DIR contains flash_charging_intervals.csv.gz and flash_charging_devices.csv (FLASH: Yang et al., WWW 2021). The fleets
are fitted under three eligibility rules, with rounds of 10 and 30 minutes. Besides the fit's own checks, three others
compare with the record: new devices drawn from the fleet's distributions; the lengths of completely observed runs;
and a fit on the first half of the days, against both halves.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from common import print_table, write_json

from fedtide import fleet
from fedtide.fleet import Fleet
from fedtide.fleet.diagnosis.rates import ages, runs
from fedtide.fleet.diagnosis.resemblance import quantile
from fedtide.fleet.fitted import GENERATED, fit_fleet

RULES = ("charging", "charging_or_battery75", "charging_or_battery50")
SHOWN = ("order", "homogeneity", "day_later", "together", "together_after_clock")


QUANTILES = tuple(f"{name}_{share}" for name in ("stay", "absence") for share in (10, 50, 90))


def measure(data: Path, minutes: list[int], simulated: int) -> dict[str, list[dict]]:
    """Tables with rows for each rule and round length: fits, findings, the generator's checks, and further checks."""
    tables: dict[str, list[dict]] = {
        name: [] for name in ("fits", "findings", "checks", "fresh", "whole_runs", "first_half", "second_half")
    }
    for rule in RULES:
        log = fleet.read(
            data / "flash_charging_intervals.csv.gz", where={"kind": rule},
            windows=data / "flash_charging_devices.csv", origin="2020-01-29T18:00",
        )  # fmt: skip
        for length in minutes:
            begun = time.perf_counter()
            fit = fit_fleet(log, 60 * length, simulated=simulated)
            seconds = time.perf_counter() - begun
            case = {"rule": rule, "minutes": length}
            tables["fits"].append({**case, **fitted(fit.model), "seconds": seconds})
            by_name = {f.name: f for f in fit.diagnosis.findings}
            tables["findings"].append({**case, **{name: by_name[name].statistic for name in SHOWN}})
            slots = fleet.discretise(log, 60 * length)
            others = {
                "checks": fit.diagnosis.checks, "fresh": fresh(fit.model),
                "whole_runs": whole_runs(fit.model), **halves(slots),
            }  # fmt: skip
            for name, checks in others.items():
                tables[name] += [{**case, **check._asdict()} for check in checks]
            print(
                rule, length, *(f"{name}: {outside(checks)}" for name, checks in others.items()), sep="\n  ", flush=True
            )
    return tables


def ends(record: np.ndarray) -> tuple[float, float]:
    """Shares of devices that are available in the first, and in the last, of their observed rounds."""
    seen = record >= 0
    first, last = seen.argmax(0), len(record) - 1 - seen[::-1].argmax(0)
    some = np.flatnonzero(seen.any(0))
    return float(record[first[some], some].mean()), float(record[last[some], some].mean())


def outside(checks: tuple[fleet.Check, ...]) -> str:
    missed = [f"{check.name} {check.generated / check.recorded - 1:+.0%}" for check in checks if not check.inside]
    return f"{len(checks) - len(missed)} of {len(checks)} inside; " + ", ".join(missed)


def fresh(model: fleet.FleetModel) -> tuple[fleet.Check, ...]:
    """As many new devices, drawn from the fleet's distributions, with the record's missing entries."""
    count, rounds = len(model.devices), len(model.record)
    drawn = [Fleet.of(model, count + 1, seed).sample(seed, rounds)[:, :count] for seed in range(GENERATED)]
    checks, _ = fleet.resemble(model, drawn)
    seen = model.record >= 0
    shares = np.array([available[seen].mean() for available in drawn])
    low, high = np.quantile(shares, [0.025, 0.975])
    recorded = float((model.record == 1).sum() / seen.sum())
    mean = fleet.Check(
        "share",
        "mean availability",
        recorded,
        float(shares.mean()),
        float(low),
        float(high),
        bool(low <= recorded <= high),
    )
    return mean, *checks


def halves(slots: fleet.Slots) -> dict[str, tuple[fleet.Check, ...]]:
    """A fit on the first half of the rounds, compared with the first and with the second half."""
    half, checks = slots.rounds // 2, {}
    model = fleet.fit(fleet.Slots(slots.state[:half], slots.devices, slots.round_seconds, slots.start, slots.zone))
    later = model._replace(record=slots.state[half:], start=slots.start + half * slots.round_seconds)
    for name, each in (("first_half", model), ("second_half", later)):
        process = Fleet.of(each)
        checks[name] = fleet.resemble(each, [process.sample(seed, len(each.record)) for seed in range(GENERATED)])[0]
    return checks


def whole_runs(model: fleet.FleetModel) -> tuple[fleet.Check, ...]:
    """Quantiles of the runs that were observed from beginning to end."""
    seen, process = (model.record >= 0)[:, None], Fleet.of(model)

    def look(here: np.ndarray) -> np.ndarray:
        here = here[:, None].astype(np.uint8) * seen
        ended = runs(here, seen, ages(here, seen), len(model.record))[0, :, :, 1]
        kept = 1 - np.cumsum(ended, 1) / ended.sum(1, keepdims=True)
        return np.array([quantile(kept[state], q / 100) for state in (1, 0) for q in (10, 50, 90)])

    hours = model.round_seconds / 3600
    recorded = look(model.record == 1) * hours
    drawn = np.stack([look(process.sample(seed, len(model.record))) for seed in range(GENERATED)]) * hours
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    return tuple(
        fleet.Check(
            name, "whole runs", float(mine), float(mean), float(least), float(most), bool(least <= mine <= most)
        )
        for name, mine, mean, least, most in zip(QUANTILES, recorded, drawn.mean(0), low, high, strict=True)
    )


def fitted(model: fleet.FleetModel) -> dict[str, object]:
    known = model.devices.filter(model.devices["observed"] > 0)
    raw, lam = known["raw_availability"].to_numpy(), known["raw_correlation"].drop_nulls().to_numpy()
    (a, b), (hours, sigma) = model.distribution.beta, model.distribution.hours
    return {
        "devices": len(known),
        "mean_pi": float(raw.mean()),
        "pi_5_50_95": " ".join(f"{q:.2f}" for q in np.quantile(raw, [0.05, 0.5, 0.95])),
        **dict(zip(("first_here", "last_here"), ends(model.record), strict=True)),
        "lambda_5_50_95": " ".join(f"{q:.2f}" for q in np.quantile(lam, [0.05, 0.5, 0.95])),
        "negative": model.distribution.negative,
        "beta": f"{a:.2f} {b:.2f}",
        "tau_hours": f"{hours:.2f} {sigma:.2f}",
        "never": model.distribution.never,
        "clusters": len(model.clusters),
        "habits": model.habits.sigma if model.habits else 0.0,
        "habits_se": model.habits.sigma_se if model.habits else 0.0,
        "pairs": model.pair_correlation_with_clock,
        "pairs_after_clock": model.pair_correlation[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the log")
    parser.add_argument("--minutes", type=int, nargs="+", default=[10, 30], help="round lengths")
    parser.add_argument("--simulated", type=int, default=199, help="simulated fleets per test")
    parser.add_argument("--json", help="write the numbers to this file")
    options = parser.parse_args()
    tables = measure(options.data, options.minutes, options.simulated)
    for name, rows in tables.items():
        print_table(name.replace("_", " ").capitalize(), rows)
    write_json(options.json, tables)


if __name__ == "__main__":
    main()
