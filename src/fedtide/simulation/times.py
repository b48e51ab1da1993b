"""Columns of the records that only a run with a clock has."""

from typing import TYPE_CHECKING

import numpy as np

from fedtide.errors import FedtideError
from fedtide.simulation.events import MOST_SLOTS
from fedtide.simulation.timed import StepRecord

if TYPE_CHECKING:
    import polars


def with_times(
    frame: "polars.DataFrame", record: StepRecord, slot: float, sizes: tuple[int, int]
) -> "polars.DataFrame":
    """The table of rounds with the time and the work of each server step, from arrays [R, B, E].

    `slot` is in seconds, `sizes` are the bytes of a download and of an upload.
    """
    import polars as pl

    steps = {name: np.asarray(values).ravel() for name, values in record._asdict().items()}
    count = {name: values.astype(np.int64) for name, values in steps.items() if values.dtype.kind in "iu"}
    return frame.with_columns(
        pl.Series("seconds", (count["slot"] + 1) * slot - steps["left"].astype(np.float64)),
        *(pl.Series(name, count[name]) for name in ("starts", "arrived", "lost", "late")),
        *(pl.Series(name, steps[name].astype(np.float32)) for name in ("age", "worked", "wasted")),
        pl.Series("downloaded", count["starts"] * sizes[0]),
        pl.Series("uploaded", count["arrived"] * sizes[1]),
    ).with_columns(pl.col("age").fill_nan(None))


def before_times(frame: "polars.DataFrame") -> "polars.DataFrame":
    """The rows of round 0, with the same columns."""
    import polars as pl

    whole, real = ("starts", "arrived", "lost", "late"), ("age", "worked", "wasted")
    return frame.with_columns(
        pl.lit(0.0).alias("seconds"),
        *(pl.lit(None, pl.Int64).alias(name) for name in whole),
        *(pl.lit(None, pl.Float32).alias(name) for name in real),
        *(pl.lit(None, pl.Int64).alias(name) for name in ("downloaded", "uploaded")),
    )


def refuse_endless(label: str, seeds: list[int], first: int, record: StepRecord) -> None:
    """Raises where a server step was given up; `first` is the first round, from 0."""
    slots = np.asarray(record.slots).reshape(len(seeds), -1)
    if (slots >= MOST_SLOTS).any():
        seed, step = np.argwhere(slots >= MOST_SLOTS)[0]
        reason = f"the server step did not end within {MOST_SLOTS:,} slots of availability"
        raise FedtideError(f"{label}, seed {seeds[seed]}, round {first + 1 + step}: {reason}; give the barrier a limit")
