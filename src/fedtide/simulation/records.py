"""Records: two tables, as columns of NumPy arrays until somebody wants a data frame."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtide.simulation.engine import EvaluationRecord, Stretch
from fedtide.simulation.traces import Span
from fedtide.types import Evaluation

if TYPE_CHECKING:
    import polars

Columns = dict[str, Any]
"""A table as arrays of equal length; `method` is a string that holds for every row."""


def initial_rows(label: str, seeds: Sequence[int], evaluation: EvaluationRecord) -> Columns:
    """Round 0: the initial models, evaluated [R]."""
    count = len(seeds)
    missing = np.full(count, np.nan, np.float32)
    return {
        "method": label,
        "seed": np.asarray(seeds, np.int64),
        "round": np.zeros(count, np.int64),
        "available": np.full(count, -1, np.int64),
        "invited": np.full(count, -1, np.int64),
        "weight": missing,
        "loss": missing,
        "step": missing,
        "evaluated": np.ones(count, bool),
        **{name: np.asarray(value, np.float32) for name, value in evaluation._asdict().items()},
    }


def round_rows(label: str, seeds: Sequence[int], span: Span, stretch: Stretch) -> Columns:
    """One row a seed and round, from arrays [R, B, E]."""
    shape = (len(seeds), span.blocks, span.rounds)

    def last_of_block(values: Any) -> np.ndarray:
        spread = np.full(shape, np.nan, np.float32)
        spread[..., -1] = values
        return spread.ravel()

    evaluated = np.zeros(shape, bool)
    evaluated[..., -1] = True
    records = {name: np.asarray(value).ravel() for name, value in stretch.rounds._asdict().items()}
    for name in ("available", "invited"):
        records[name] = records[name].astype(np.int64)
    return {
        "method": label,
        "seed": np.repeat(np.asarray(seeds, np.int64), span.length),
        "round": np.tile(span.first + 1 + np.arange(span.length, dtype=np.int64), len(seeds)),
        **{name: value.astype(np.float32) if value.dtype.kind == "f" else value for name, value in records.items()},
        "evaluated": evaluated.ravel(),
        **{name: last_of_block(value) for name, value in stretch.evaluation._asdict().items()},
    }


def client_rows(label: str, seeds: Sequence[int], span: Span, active: np.ndarray, stretch: Stretch) -> Columns:
    """One row a seed, round and client, from arrays [R, B, E, N]; `active` is [R, rounds, N]."""
    if not stretch.clients:
        return {}
    clients = active.shape[-1]
    shape = (len(seeds), span.blocks, span.rounds, clients)
    assert isinstance(stretch.by_client, Evaluation)

    def last_of_block(values: Any) -> np.ndarray:
        spread = np.full(shape, np.nan, np.float32)
        spread[:, :, -1] = values
        return spread.ravel()

    return {
        "method": label,
        "seed": np.repeat(np.asarray(seeds, np.int64), span.length * clients),
        "round": np.tile(np.repeat(span.first + 1 + np.arange(span.length, dtype=np.int64), clients), len(seeds)),
        "client": np.tile(np.arange(clients, dtype=np.int64), len(seeds) * span.length),
        "active": active.ravel(),
        "invited": np.asarray(stretch.clients.invited).ravel(),
        "weight": np.asarray(stretch.clients.weight, np.float32).ravel(),
        "loss": np.asarray(stretch.clients.loss, np.float32).ravel(),
        "test_loss": last_of_block(stretch.by_client.test_loss),
        "test_accuracy": last_of_block(stretch.by_client.test_accuracy),
    }


def round_frame(parts: Sequence[Columns]) -> "polars.DataFrame":
    """The table of rounds; null where a value does not exist (a diverged value is nan)."""
    import polars as pl

    frame = _frame(parts)
    if frame.is_empty():
        return frame
    evaluation = list(EvaluationRecord._fields)
    start = pl.col("round") == 0
    trained = ["available", "invited", "weight", "loss", "step"]
    return frame.with_columns(
        *(pl.when(pl.col("evaluated")).then(pl.col(c)).alias(c) for c in evaluation),
        *(pl.when(~start).then(pl.col(c)).alias(c) for c in trained),
    ).drop("evaluated")


def client_frame(parts: Sequence[Columns]) -> "polars.DataFrame":
    """The table of rounds and clients; null where a client reported nothing."""
    import polars as pl

    frame = _frame([part for part in parts if part])
    if frame.is_empty():
        return frame
    return frame.with_columns(pl.col("loss", "test_loss", "test_accuracy").fill_nan(None))


def _frame(parts: Sequence[Columns]) -> "polars.DataFrame":
    import polars as pl

    frames = []
    for part in parts:
        arrays = {name: values for name, values in part.items() if name != "method"}
        frames.append(pl.DataFrame(arrays).select(pl.lit(part["method"]).alias("method"), pl.all()))
    return pl.concat(frames) if frames else pl.DataFrame()
