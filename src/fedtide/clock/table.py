"""Devices from a file."""

from pathlib import Path
from typing import Any

import numpy as np

from fedtide.clock.devices import NUMBERS, Devices
from fedtide.clock.jitter import Jitter, Steady
from fedtide.errors import FedtideError, did_you_mean
from fedtide.kinds import kinds_checked


@kinds_checked
def device_table(path: Path, jitter: Jitter = Steady()) -> Devices:
    """Devices from a CSV or Parquet file with one row per client, in the order of the clients.

    Its columns are fields of `Devices`: seconds_per_step, download, upload, latency. Those that it lacks keep their
    default.
    """
    import polars as pl

    path = Path(path)
    try:
        frame = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise FedtideError(f"{path}: cannot be read as a table ({str(error).splitlines()[0]})") from error
    for column in frame.columns:
        if column not in NUMBERS:
            raise FedtideError(f"{path}: unknown column '{column}'; {did_you_mean(column, NUMBERS)}")
    columns: dict[str, Any] = {}
    for name in frame.columns:
        if not frame[name].dtype.is_numeric() or frame[name].null_count():
            raise FedtideError(f"{path}: column '{name}' is {frame[name].dtype}; must be a number in every row")
        columns[name] = frame[name].to_numpy().astype(np.float64)
    return Devices(**columns, jitter=jitter)
