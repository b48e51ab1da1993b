"""The result of a simulation."""

import hashlib
import json
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtide.errors import CheckpointError, FedtideError, check_one_of, require
from fedtide.files import alone, atomic, vacant, write_text
from fedtide.simulation.models import read_models, unravelled, write_models

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes


FILES = ("rounds.parquet", "clients.parquet", "population.parquet", "models.safetensors", "run.json")
"""The files of a finished run, in the order in which they are written."""


_BY_CLIENT = {"availability": "availability", "correlation": "correlation", "class": "classes"}
"""The columns of `population.parquet` and the entries of `about["availability"]` that have a value for each client."""


@dataclass(eq=False, repr=False)
class Result:
    """Two tables, the final models, and a description of the run.

    `rounds` has a row for each method, seed and round; `clients` one for each method, seed, round and client (no rows
    where clients were not recorded); `models` the final parameters, {label: float[seeds, d]}; `about` is plain data.
    """

    about: dict[str, Any]
    models: dict[str, np.ndarray]
    rounds: "polars.DataFrame"
    clients: "polars.DataFrame"

    def params(self, label: str, seed: int | None = None, like: Any = None) -> Any:
        """The trained parameters of a method and seed (the first one unless given), as the model's `init` returns them.

        Nested dictionaries and lists of NumPy arrays. A model with another structure, such as an equinox module, needs
        `like`, parameters from its `init`.
        """
        seeds = self.about["seeds"]
        check_one_of("label", label, self.models)
        require(seed is None or seed in seeds, "seed", seed, f"one of {', '.join(map(str, seeds))}")
        row = self.models[label][0 if seed is None else seeds.index(seed)]
        return unravelled(row, self.about["problem"]["arrays"], like)

    def attendance(self, label: str) -> tuple[np.ndarray, np.ndarray]:
        """(available, invited) clients under a method: bool[seeds, rounds, clients]. Clients must be recorded."""
        return self._by_client(label, "active"), self._by_client(label, "invited")

    def weights(self, label: str) -> np.ndarray:
        """The weights q of a method, 0 where a client is not invited: float[seeds, rounds, clients]. Clients must be
        recorded."""
        return self._by_client(label, "weight")

    def _by_client(self, label: str, column: str) -> np.ndarray:
        if self.clients.is_empty():
            reason = "this run did not record clients; run it with record_clients=True"
            raise FedtideError(f"attendance({label!r}): {reason}")
        seeds, clients = len(self.about["seeds"]), self.about["problem"]["clients"]
        # Stable, so that the seeds of a round remain in their order, which need not be increasing.
        own = self.clients.filter(method=label).sort("round", maintain_order=True)
        return own[column].to_numpy().reshape(-1, seeds, clients).swapaxes(0, 1)

    def summary(self, baseline: str | None = None) -> "polars.DataFrame":
        """One row per method: final, average and worst-decile accuracy, and the paired difference to `baseline`."""
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

    def plot(self, measure: str | None = None, ax: "Axes | None" = None) -> "Axes":
        """Draws a column of `rounds` against rounds (default: accuracy if there is one, otherwise the objective).

        Lines are means over seeds, bands span the middle 80 % of them. Returns the matplotlib axes: `ax`, or new ones.
        """
        from fedtide.report.curves import plot

        return plot(self.rounds, measure, ax)

    def save(self, folder: Path | str) -> Path:
        """Writes tables, models and description into a folder, each file atomically."""
        with alone(Path(folder), "a run is using it"):
            return self.write(Path(folder))

    def write(self, folder: Path) -> Path:
        """`save`, for the process that holds the folder."""
        for name, frame in (("rounds", self.rounds), ("clients", self.clients)):
            with atomic(folder / f"{name}.parquet") as temporary:
                frame.write_parquet(temporary)
        with atomic(folder / "population.parquet") as temporary:
            _population(self.about).write_parquet(temporary)
        arrays = self.about["problem"]["arrays"]
        write_models(folder / "models.safetensors", self.models, arrays, self.about["seeds"])
        write_about(folder, self.about)
        return folder

    @staticmethod
    def load(folder: Path | str) -> "Result":
        """Reads what `save` wrote, or a finished run's folder."""
        import polars as pl

        folder = Path(folder)
        about = read_about(folder)
        if not about["finished"]:
            raise FedtideError(f"{folder}: this run has not finished; continue it with: fedtide resume {folder}")
        try:
            tables = [pl.read_parquet(folder / f"{name}.parquet") for name in ("rounds", "clients")]
            if not isinstance(about.get("importance"), list):  # as in folders of earlier versions
                about = _with_population(about, pl.read_parquet(folder / "population.parquet"))
            labels = [method["label"] for method in about["methods"]]
            whole = [{"path": [], "shape": [about["problem"]["parameters"]]}]  # where a run did not store the names
            layout = about["problem"].setdefault("arrays", whole)
            models = read_models(folder / "models.safetensors", labels, layout)
        except (OSError, pl.exceptions.PolarsError, ValueError, LookupError, TypeError) as error:
            raise CheckpointError(f"{folder}: a table or the models cannot be read ({error})") from error
        return Result(about, models, *tables)

    def _repr_html_(self) -> str:
        """In a notebook: the table of `summary` and the main figure of the report."""
        from fedtide.report.curves import learning
        from fedtide.report.table import html
        from fedtide.summaries import chosen_baseline

        figure = learning(self.rounds, chosen_baseline(self.rounds, None)).wide
        return f'<p>{escape(repr(self))}</p>{html(self.summary())}<div style="max-width: 50em">{figure}</div>'

    def __repr__(self) -> str:
        labels = ", ".join(method["label"] for method in self.about["methods"])
        return f"Result({labels}; {len(self.about['seeds'])} seeds, {self.about['rounds']} rounds)"


def write_about(folder: Path, about: dict[str, Any]) -> None:
    """Writes `run.json`; what it says of each client is in `population.parquet`, except for a digest of the importance,
    by which a resumed run is recognised."""
    process = {key: value for key, value in about["availability"].items() if key not in _BY_CLIENT.values()}
    plain = about | {"importance": importance_digest(about), "availability": process}
    write_text(folder / "run.json", json.dumps(plain, indent=1, ensure_ascii=False) + "\n")


def importance_digest(about: dict[str, Any]) -> str:
    """A digest of the clients' importance, whether the description holds it or only its digest."""
    values = about.get("importance")
    return values if isinstance(values, str) else hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16]


def _population(about: dict[str, Any]) -> "polars.DataFrame":
    """A row for each client: its target importance, and what is known of its availability."""
    import polars as pl

    process, clients = about["availability"], len(about["importance"])
    known = {column: process.get(key) or [None] * clients for column, key in _BY_CLIENT.items()}
    schema = {"client": pl.Int64, "importance": pl.Float64, **dict.fromkeys(_BY_CLIENT, pl.Float64), "class": pl.String}
    return pl.DataFrame({"client": range(clients), "importance": about["importance"], **known}, schema)


def _with_population(about: dict[str, Any], table: "polars.DataFrame") -> dict[str, Any]:
    lists = {key: None if table[name].is_null().all() else table[name].to_list() for name, key in _BY_CLIENT.items()}
    return about | {"importance": table["importance"].to_list(), "availability": about["availability"] | lists}


def read_about(folder: Path) -> dict[str, Any]:
    path = folder / "run.json"
    if not path.exists():
        if folder.is_dir() and vacant(folder):
            how = f"fedtide run CONFIG.toml --out {folder}, or in Python without resume"
            raise FedtideError(f"{folder}: no run has begun in it; start one with {how}")
        raise FedtideError(f"{folder}: not the folder of a run (it has no run.json)")
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path}: damaged ({error})") from error
    known = isinstance(about, dict) and {"seeds", "rounds", "methods"} <= set(about)
    if not known or not isinstance(about.get("finished"), bool):
        raise CheckpointError(f"{path}: not the description of a run")
    return about
