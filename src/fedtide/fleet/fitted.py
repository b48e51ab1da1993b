"""From a log to a fitted and diagnosed fleet: what `fedtide fleet fit` does."""

import hashlib
import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from pydantic import TypeAdapter, ValidationError

from fedtide.errors import CheckpointError, FedtideError
from fedtide.files import write_text
from fedtide.fleet import Diagnosis, Fleet, FleetModel, Log, advise, diagnose, discretise, fit, load_model, resemble
from fedtide.fleet.diagnosis.findings import plain
from fedtide.fleet.storage import TOML
from fedtide.kinds import kinds_checked

GENERATED = 99
"""Number of generated fleets that are compared with the record."""

_DIAGNOSIS = "diagnosis.json"

Progress = Callable[[str, int, int], None]
"""Called with the current step, how many are done, and the total."""


class _StoredDiagnosis(NamedTuple):
    """What diagnosis.json holds."""

    diagnosis: Diagnosis
    advice: dict[str, list[Any]]
    model: str | None = None  # digest of the TOML that was diagnosed


class FittedFleet(NamedTuple):
    """A fitted model, its diagnosis, and advice on the round length."""

    model: FleetModel
    diagnosis: Diagnosis
    advice: pl.DataFrame

    @staticmethod
    def load(folder: str | Path) -> "FittedFleet":
        """Reads what `save` wrote."""
        path = Path(folder) / _DIAGNOSIS
        model = load_model(folder)
        try:
            written = TypeAdapter(_StoredDiagnosis).validate_json(path.read_bytes())
        except OSError as error:
            raise FedtideError(f"{path}: {error.strerror or error}; run fedtide fleet fit first") from error
        except ValidationError as error:
            first = error.errors()[0]
            reason = ".".join(map(str, first["loc"])) + f": {first['msg']}"
            raise CheckpointError(f"{path}: not what fedtide fleet fit writes ({reason})") from error
        edited = written.model not in (None, _digest(Path(folder)))
        return FittedFleet(model, written.diagnosis._replace(edited=edited), pl.DataFrame(written.advice))

    def save(self, folder: str | Path) -> None:
        """Writes `fleet.toml` and `devices.parquet` (the model) and `diagnosis.json`."""
        folder = Path(folder)
        self.model.save(folder)
        written = _StoredDiagnosis(self.diagnosis, self.advice.to_dict(as_series=False), _digest(folder))
        write_text(folder / _DIAGNOSIS, json.dumps(plain(written), ensure_ascii=False) + "\n")

    def report(self, path: str | Path, about: dict[str, Any] | None = None) -> Path:
        """Writes the page: words, figures and tables in one HTML file.

        The model is taken to be in the page's folder unless `about` has another.
        """
        from fedtide.fleet.page.page import render

        about = {"folder": Path(path).parent.as_posix()} | (about or {})
        return write_text(path, render(self.model, self.diagnosis, self.advice, about))

    def __repr__(self) -> str:
        return f"FittedFleet({self.model!r}; {len(self.diagnosis.findings)} findings)"


@kinds_checked
def fit_fleet(
    log: Log, round_seconds: int, *, simulated: int = 199, seed: int = 0, progress: Progress | None = None
) -> FittedFleet:
    """Fits a log at one round length, tests the model, and compares generated fleets with the record.

    Findings are tested against `simulated` fleets of independent chains with the record's missing entries.
    """
    report = progress or (lambda what, done, total: None)
    report("reading rounds", 0, 1)
    slots, advice = discretise(log, round_seconds), advise(log)
    report("reading rounds", 1, 1)
    report("fitting", 0, 1)
    model = fit(slots, source=log.account.source, account=log.account, seed=seed)
    report("fitting", 1, 1)
    found = diagnose(model, simulated=simulated, seed=seed, progress=lambda done, total: report("testing", done, total))
    process, generated = Fleet.of(model), []
    for i in range(GENERATED):
        report("generating", i, GENERATED)
        generated.append(process.sample(seed + i, len(model.record)))
    report("generating", GENERATED, GENERATED)
    checks, curves = resemble(model, generated)
    return FittedFleet(model, found._replace(checks=checks, curves=curves), advice)


def _digest(folder: Path) -> str:
    """A digest of the numbers in the model's TOML, independent of its layout, to detect later edits."""
    table = tomllib.loads((folder / TOML).read_text("utf-8"))
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()
