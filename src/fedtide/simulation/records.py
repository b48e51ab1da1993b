"""Records: two tables, as columns of NumPy arrays until somebody wants a data frame."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtide.simulation.measures import SCALARS, EvaluationRecord
from fedtide.simulation.replica import Stretch
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
        **{name: np.asarray(getattr(evaluation, name), np.float32) for name in SCALARS},
    }


def round_rows(label: str, seeds: Sequence[int], span: Span, stretch: Stretch) -> Columns:
    """One row a seed and round, from arrays [R, B, E]."""
    shape = (len(seeds), span.blocks, span.rounds)
    found = {name: getattr(stretch.evaluation, name, np.nan) for name in SCALARS}  # nan: no evaluation in the stretch
    records = {name: np.asarray(value).ravel() for name, value in stretch.rounds._asdict().items()}
    return {
        "method": label,
        "seed": np.repeat(np.asarray(seeds, np.int64), span.length),
        "round": np.tile(span.first + 1 + np.arange(span.length, dtype=np.int64), len(seeds)),
        **{name: v.astype(np.int64 if v.dtype.kind in "iu" else np.float32) for name, v in records.items()},
        "evaluated": _last_of_block(shape, span.evaluates, False).ravel(),
        **{name: _last_of_block(shape, value, np.nan).ravel() for name, value in found.items()},
    }


def client_rows(label: str, seeds: Sequence[int], span: Span, active: np.ndarray, stretch: Stretch) -> Columns:
    """One row a seed, round and client, from arrays [R, B, E, N]; `active` is [R, rounds, N]."""
    if not stretch.clients:
        return {}
    clients = active.shape[-1]
    shape = (len(seeds), span.blocks, span.rounds, clients)
    found = stretch.by_client or Evaluation(np.nan, False, np.nan, np.nan)  # pyright: ignore[reportArgumentType]
    record = stretch.clients
    return {
        "method": label,
        "seed": np.repeat(np.asarray(seeds, np.int64), span.length * clients),
        "round": np.tile(np.repeat(span.first + 1 + np.arange(span.length, dtype=np.int64), clients), len(seeds)),
        "client": np.tile(np.arange(clients, dtype=np.int64), len(seeds) * span.length),
        "active": active.ravel(),
        "invited": np.asarray(record.invited).ravel(),
        "trained": np.asarray(record.trained).ravel(),
        "weight": np.asarray(record.weight, np.float32).ravel(),
        "loss": np.asarray(record.loss, np.float32).ravel(),
        "tested": _last_of_block(shape, found.tested, False).ravel(),
        "test_loss": _last_of_block(shape, found.test_loss, np.nan).ravel(),
        "test_accuracy": _last_of_block(shape, found.test_accuracy, np.nan).ravel(),
    }


def _last_of_block(shape: tuple[int, ...], values: Any, elsewhere: bool | float) -> np.ndarray:
    """[R, B, E, …] that holds the values [R, B, …] in the last round of each block."""
    spread = np.full(shape, elsewhere, bool if isinstance(elsewhere, bool) else np.float32)
    spread[:, :, -1] = values
    return spread


def round_frame(parts: Sequence[Columns]) -> "polars.DataFrame":
    """The table of rounds; null where a value does not exist (a diverged value is nan)."""
    import polars as pl

    frame = _frame(parts)
    if frame.is_empty():
        return frame
    trained = pl.col("round") > 0
    return (
        frame.with_columns(
            *(pl.when(pl.col("evaluated")).then(pl.col(c)).alias(c) for c in SCALARS),
            *(pl.when(trained).then(pl.col(c)).alias(c) for c in ("available", "invited", "weight", "step")),
            pl.when(trained & (pl.col("invited") > 0)).then(pl.col("loss")).alias("loss"),
        )
        .with_columns(pl.col("skew").fill_nan(None))
        .drop("evaluated")
    )  # no skew: the method does not look at losses


def client_frame(parts: Sequence[Columns]) -> "polars.DataFrame":
    """The table of rounds and clients; null where a value does not exist (a diverged value is nan).

    Where clients were not recorded it has its columns, and no rows.
    """
    import polars as pl

    frame = _frame([part for part in parts if part])
    if frame.is_empty():
        numbers = dict.fromkeys(("weight", "loss", "test_loss", "test_accuracy"), pl.Float32)
        keys = {"method": pl.String, **dict.fromkeys(("seed", "round", "client"), pl.Int64)}
        return pl.DataFrame(schema=keys | dict.fromkeys(("active", "invited"), pl.Boolean) | numbers)
    return frame.with_columns(
        pl.when(pl.col("trained")).then(pl.col("loss")).alias("loss"),
        *(pl.when(pl.col("tested")).then(pl.col(c)).alias(c) for c in ("test_loss", "test_accuracy")),
    ).drop("trained", "tested")


def _frame(parts: Sequence[Columns]) -> "polars.DataFrame":
    import polars as pl

    frames = []
    for part in parts:
        arrays = {name: values for name, values in part.items() if name != "method"}
        frames.append(pl.DataFrame(arrays).select(pl.lit(part["method"]).alias("method"), pl.all()))
    return pl.concat(frames) if frames else pl.DataFrame()
