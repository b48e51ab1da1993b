"""What a simulation returns."""

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtide.errors import CheckpointError, FedtideError
from fedtide.files import alone, atomic, vacant
from fedtide.simulation.records import Columns, client_frame, round_frame

if TYPE_CHECKING:
    import polars


FILES = ("rounds.parquet", "clients.parquet", "models.safetensors", "run.json")
"""What a finished run's folder holds, in the order in which it is written."""


class Result:
    """Two tables, the final models, and all that is needed to say how they came about.

    `rounds` has a row for each method, seed and round; `clients` one for each method, seed, round and client (no rows
    where clients were not recorded); `models` the final parameters, {label: float[seeds, d]}; `about` is plain data.
    """

    def __init__(
        self,
        about: dict[str, Any],
        models: dict[str, np.ndarray],
        rounds: "Sequence[Columns] | polars.DataFrame",
        clients: "Sequence[Columns] | polars.DataFrame",
    ):
        self.about, self.models = about, models
        self._rounds, self._clients = rounds, clients

    @cached_property
    def rounds(self) -> "polars.DataFrame":
        return round_frame(self._rounds) if isinstance(self._rounds, list) else self._rounds  # pyright: ignore

    @cached_property
    def clients(self) -> "polars.DataFrame":
        return client_frame(self._clients) if isinstance(self._clients, list) else self._clients  # pyright: ignore

    def attendance(self, label: str) -> tuple[np.ndarray, np.ndarray]:
        """Who was there and who was invited under a method: bool[seeds, rounds, clients]. Clients must be recorded."""
        if not self._recorded:
            reason = "this run did not record clients; run it with record_clients=True"
            raise FedtideError(f"attendance({label!r}): {reason}")
        seeds, rounds, clients = len(self.about["seeds"]), self.about["rounds"], self.about["problem"]["clients"]
        if isinstance(self._clients, list):  # stretches in their order
            parts = [part for part in self._clients if part and part["method"] == label]
            found = [
                np.concatenate([part[column].reshape(seeds, -1, clients) for part in parts], axis=1)
                for column in ("active", "invited")
            ]
        else:
            own = self.clients.filter(self.clients["method"] == label).sort("seed", "round", "client")
            found = [own[column].to_numpy().reshape(seeds, rounds, clients) for column in ("active", "invited")]
        return found[0], found[1]

    @property
    def _recorded(self) -> bool:
        return any(self._clients) if isinstance(self._clients, list) else not self.clients.is_empty()

    def summary(self, baseline: str | None = None) -> "polars.DataFrame":
        """One row a method: final, time-average and worst-decile accuracy, and the paired difference to `baseline`."""
        from fedtide.report import summary

        return summary(self.rounds, self.clients, baseline=baseline)

    def table(self, baseline: str | None = None) -> str:
        """The summary as a table to print."""
        from fedtide.report.table import markdown

        return markdown(self.summary(baseline))

    def report(self, path: Path | str, baseline: str | None = None) -> Path:
        """Writes the report, one self-contained HTML file."""
        from fedtide.report import write

        write(path, self.rounds, self.clients, self.about, baseline=baseline)
        return Path(path)

    def save(self, folder: Path | str) -> Path:
        """Writes tables, models and description into a folder; each file is whole or not there."""
        with alone(Path(folder), "a run is going on in it"):
            return self.write(Path(folder))

    def write(self, folder: Path) -> Path:
        """`save`, for the process that holds the folder."""
        from safetensors.numpy import save_file

        for name, frame in (("rounds", self.rounds), ("clients", self.clients)):
            with atomic(folder / f"{name}.parquet") as temporary:
                frame.write_parquet(temporary)
        with atomic(folder / "models.safetensors") as temporary:
            save_file({label: np.ascontiguousarray(w) for label, w in self.models.items()}, temporary)
        write_about(folder, self.about)
        return folder

    @staticmethod
    def load(folder: Path | str) -> "Result":
        """Reads what `save` wrote, or a finished run's folder."""
        import polars as pl
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        folder = Path(folder)
        about = read_about(folder)
        if not about["finished"]:
            raise FedtideError(f"{folder}: this run has not finished; go on with: fedtide resume {folder}")
        try:
            tables = [pl.read_parquet(folder / f"{name}.parquet") for name in ("rounds", "clients")]
            models = load_file(folder / "models.safetensors")
        except (OSError, pl.exceptions.PolarsError, SafetensorError) as error:
            raise CheckpointError(f"{folder}: a table or the models cannot be read ({error})") from error
        return Result(about, models, *tables)

    def __repr__(self) -> str:
        labels = ", ".join(method["label"] for method in self.about["methods"])
        return f"Result({labels}; {len(self.about['seeds'])} seeds, {self.about['rounds']} rounds)"


def write_about(folder: Path, about: dict[str, Any]) -> None:
    with atomic(folder / "run.json") as temporary:
        temporary.write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_about(folder: Path) -> dict[str, Any]:
    path = folder / "run.json"
    if not path.exists():
        if folder.is_dir() and vacant(folder):
            how = f"fedtide run CONFIG.toml --out {folder}, or in Python without resume"
            raise FedtideError(f"{folder}: no run has begun in it; start one: {how}")
        raise FedtideError(f"{folder}: not a run's folder (it has no run.json)")
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path}: damaged ({error})") from error
    known = isinstance(about, dict) and {"seeds", "rounds", "methods"} <= set(about)
    if not known or not isinstance(about.get("finished"), bool):
        raise CheckpointError(f"{path}: not the description of a run")
    return about
