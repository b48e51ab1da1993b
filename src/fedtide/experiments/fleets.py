"""From a log to a fitted fleet, diagnosed: what `fedtide fleet fit` does."""

import hashlib
import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fedtide.availability import Fleet
from fedtide.errors import CheckpointError, FedtideError
from fedtide.files import atomic
from fedtide.fleet import (
    Check,
    Diagnosis,
    Finding,
    FleetModel,
    Log,
    advise,
    diagnose,
    discretise,
    fit,
    load_model,
    resemble,
)
from fedtide.fleet.storage import TOML

GENERATED = 99
"""Fleets that are generated to be compared with the record."""

_DIAGNOSIS = "diagnosis.json"

Progress = Callable[[str, int, int], None]
"""Hears (what is being done, so many done, of so many)."""


class FittedFleet(NamedTuple):
    """A fleet's model, whether it holds, and what other round lengths would give."""

    model: FleetModel
    diagnosis: Diagnosis
    advice: pl.DataFrame

    @staticmethod
    def load(folder: str | Path) -> "FittedFleet":
        """Reads what `save` wrote."""
        path = Path(folder) / _DIAGNOSIS
        model = load_model(folder)
        try:
            written = json.loads(path.read_text("utf-8"))
            found = written["diagnosis"]
            findings = tuple(Finding(**_pairs(f, "null")) for f in found["findings"])
            checks = tuple(Check(**c) for c in found["checks"])
            plain = {"findings": findings, "checks": checks, "theory": tuple(found["theory"])}
            edited = written.get("model") not in (None, _digest(Path(folder)))
            diagnosis = Diagnosis(**{**found, **plain, "edited": edited})
            return FittedFleet(model, diagnosis, pl.DataFrame(written["advice"]))
        except OSError as error:
            raise FedtideError(f"{path}: {error.strerror or error}; run fedtide fleet fit first") from error
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path}: not what fedtide fleet fit writes ({error})") from error

    def save(self, folder: str | Path) -> None:
        """Writes `fleet.toml` and `devices.parquet` (the model) and `diagnosis.json`."""
        folder = Path(folder)
        found = self.diagnosis._asdict() | {
            "findings": [f._asdict() for f in self.diagnosis.findings],
            "checks": [c._asdict() for c in self.diagnosis.checks],
        }
        self.model.save(folder)
        written = {"diagnosis": found, "advice": self.advice.to_dict(as_series=False), "model": _digest(folder)}
        with atomic(folder / _DIAGNOSIS) as temporary:
            temporary.write_text(json.dumps(written, ensure_ascii=False) + "\n", "utf-8")

    def report(self, path: str | Path, about: dict[str, Any] | None = None) -> Path:
        """Writes the page: words, figures and tables in one HTML file."""
        from fedtide.report.fleet import write

        return write(path, self.model, self.diagnosis, self.advice, about or {})


def fit_fleet(
    log: Log, round_seconds: int, *, simulated: int = 199, seed: int = 0, progress: Progress | None = None
) -> FittedFleet:
    """Fits a log at one round length, puts the model to the test, and generates fleets to compare with the record.

    Every finding is judged against `simulated` fleets of independent chains with the record's missing entries.
    """
    report = progress or (lambda what, done, total: None)
    report("reading rounds", 0, 1)
    slots, advice = discretise(log, round_seconds), advise(log)
    report("reading rounds", 1, 1)
    report("fitting", 0, 1)
    model = fit(slots, source=log.account.source, account=log.account, seed=seed)
    report("fitting", 1, 1)
    found = diagnose(model, simulated=simulated, seed=seed, progress=lambda done, total: report("testing", done, total))
    checks, curves = resemble(model, _generated(model, seed, report))
    return FittedFleet(model, found._replace(checks=checks, curves=curves), advice)


def _generated(model: FleetModel, seed: int, report: Progress) -> list[np.ndarray]:
    process = Fleet.of(model)
    rounds, found = len(model.record), []
    for i in range(GENERATED):
        report("generating", i, GENERATED)
        found.append(process.sample(seed + i, rounds))
    report("generating", GENERATED, GENERATED)
    return found


def _digest(folder: Path) -> str:
    """Of the numbers in the model's TOML, whatever its layout: they may be edited after the diagnosis."""
    table = tomllib.loads((folder / TOML).read_text("utf-8"))
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()


def _pairs(table: dict[str, Any], *names: str) -> dict[str, Any]:
    """JSON knows no tuples."""
    return table | {name: tuple(table[name]) for name in names if table[name] is not None}
