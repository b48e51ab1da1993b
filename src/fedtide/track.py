"""Trackers: callbacks of `simulate` that write every evaluation to TensorBoard, MLflow or Weights & Biases.

Each method and seed is a run of its own, named "LABEL, seed SEED", with the method's settings. Values that are not
finite are left out. A resumed simulation writes its evaluations again from the start.
"""

import math
import time
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fedtide.errors import FedtideError
from fedtide.simulation.callbacks import Metrics

_KEYS = ("method", "seed", "round")


class Tracker:
    """Begins a run for each method and seed, logs each evaluation once, and ends all runs with the simulation.

    A tracker for another service defines `begin`, `log` and `end`.
    """

    def __init__(self) -> None:
        self._runs: dict[tuple[str, int], Any] = {}
        self._logged: dict[tuple[str, int], int] = {}

    def begin(self, label: str, seed: int, settings: dict[str, Any]) -> Any:
        """The service's run."""
        raise NotImplementedError

    def log(self, run: Any, values: dict[int, dict[str, float]]) -> None:
        """Writes the values by round and name."""
        raise NotImplementedError

    def end(self, run: Any, failed: bool) -> None:
        raise NotImplementedError

    def __call__(self, metrics: Metrics) -> None:
        (settings,) = (m["settings"] for m in metrics.about["methods"] if m["label"] == metrics.label)
        for (seed,), rows in metrics.evaluations.group_by("seed", maintain_order=True):
            key = metrics.label, int(seed)  # pyright: ignore[reportArgumentType]
            if key not in self._runs:
                self._runs[key] = self.begin(*key, settings)
            new = {row["round"]: _finite(row) for row in rows.iter_rows(named=True)}
            self.log(self._runs[key], {t: values for t, values in new.items() if t > self._logged.get(key, -1)})
            self._logged[key] = max(new)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: BaseException | TracebackType | None) -> None:
        for run in self._runs.values():
            self.end(run, kind is not None)
        self._runs, self._logged = {}, {}


def _finite(row: dict[str, Any]) -> dict[str, float]:
    return {name: float(x) for name, x in row.items() if name not in _KEYS and x is not None and math.isfinite(x)}


def _library(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise FedtideError(f"track.{extra}: needs pip install 'fedtide[{extra}]'") from None


class _TensorBoard(Tracker):
    def __init__(self, folder: Path | str) -> None:
        super().__init__()
        self._writer, self._folder = _library("tensorboardX", "tensorboard").SummaryWriter, Path(folder)

    def begin(self, label: str, seed: int, settings: dict[str, Any]) -> Any:
        writer = self._writer(str(self._folder / label.replace("/", "-") / f"seed {seed}"))
        table = "\n".join(f"| {name} | {value} |" for name, value in settings.items())
        writer.add_text("settings", f"| Setting | Value |\n| --- | --- |\n{table}")
        return writer

    def log(self, run: Any, values: dict[int, dict[str, float]]) -> None:
        for t, row in values.items():
            for name, value in row.items():
                run.add_scalar(name, value, t)
        run.flush()

    def end(self, run: Any, failed: bool) -> None:
        run.close()


class _MLflow(Tracker):
    def __init__(self, experiment: str, uri: str | None) -> None:
        super().__init__()
        self._mlflow = _library("mlflow", "mlflow")
        self._client = self._mlflow.MlflowClient(uri)
        known = self._client.get_experiment_by_name(experiment)
        self._experiment = known.experiment_id if known else self._client.create_experiment(experiment)

    def begin(self, label: str, seed: int, settings: dict[str, Any]) -> str:
        tags = {"method": label, "seed": str(seed)}
        run = self._client.create_run(self._experiment, run_name=f"{label}, seed {seed}", tags=tags).info.run_id
        for name, value in settings.items():
            self._client.log_param(run, name, str(value))
        return run

    def log(self, run: str, values: dict[int, dict[str, float]]) -> None:
        now, metric = int(1000 * time.time()), self._mlflow.entities.Metric
        metrics = [metric(name, value, now, t) for t, row in values.items() for name, value in row.items()]
        for first in range(0, len(metrics), 1000):  # a request holds at most 1,000
            self._client.log_batch(run, metrics[first : first + 1000])

    def end(self, run: str, failed: bool) -> None:
        self._client.set_terminated(run, "FAILED" if failed else "FINISHED")


class _WandB(Tracker):
    def __init__(self, project: str, options: dict[str, Any]) -> None:
        super().__init__()
        self._wandb, self._options = _library("wandb", "wandb"), {"project": project, **options}

    def begin(self, label: str, seed: int, settings: dict[str, Any]) -> Any:
        config = {"method": label, "seed": seed, **settings}
        name = f"{label}, seed {seed}"
        return self._wandb.init(name=name, group=label, config=config, reinit="create_new", **self._options)

    def log(self, run: Any, values: dict[int, dict[str, float]]) -> None:
        for t, row in values.items():
            run.log(row, step=t)

    def end(self, run: Any, failed: bool) -> None:
        run.finish(exit_code=int(failed))


def tensorboard(folder: Path | str) -> Tracker:
    """Writes event files to FOLDER/LABEL/seed SEED, for `tensorboard --logdir FOLDER`."""
    return _TensorBoard(folder)


def mlflow(experiment: str = "fedtide", uri: str | None = None) -> Tracker:
    """Writes to an experiment of MLflow; `uri` is the tracking server or store (default: as MLflow is configured)."""
    return _MLflow(experiment, uri)


def wandb(project: str = "fedtide", **options: Any) -> Tracker:
    """Writes to a project of Weights & Biases; `options` are further arguments of `wandb.init`, such as mode or dir."""
    return _WandB(project, options)
