"""Records: the tables of rounds and of clients, segment by segment."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtide.simulation.measures import SCALARS, EvaluationRecord
from fedtide.simulation.replica import SegmentRecord
from fedtide.simulation.traces import Segment
from fedtide.types import Evaluation

if TYPE_CHECKING:
    import polars


def initial_rows(label: str, seeds: Sequence[int], evaluation: EvaluationRecord) -> "polars.DataFrame":
    """Rows of round 0: the initial models, evaluated [R]."""
    count = len(seeds)
    missing = np.full(count, np.nan, np.float32)
    columns = {
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
    return _rounds(label, columns)


def round_rows(label: str, seeds: Sequence[int], segment: Segment, record: SegmentRecord) -> "polars.DataFrame":
    """One row per seed and round, from arrays [R, B, E]."""
    shape = (len(seeds), segment.blocks, segment.rounds)
    evaluated = {name: getattr(record.evaluation, name, np.nan) for name in SCALARS}  # nan: no evaluation in the record
    records = {name: np.asarray(value).ravel() for name, value in record.rounds._asdict().items()}
    columns = {
        "seed": np.repeat(np.asarray(seeds, np.int64), segment.length),
        "round": np.tile(segment.first + 1 + np.arange(segment.length, dtype=np.int64), len(seeds)),
        **{name: v.astype(np.int64 if v.dtype.kind in "iu" else np.float32) for name, v in records.items()},
        "evaluated": _last_of_block(shape, segment.evaluates, False).ravel(),
        **{name: _last_of_block(shape, value, np.nan).ravel() for name, value in evaluated.items()},
    }
    return _rounds(label, columns)


def _rounds(label: str, columns: dict[str, np.ndarray]) -> "polars.DataFrame":
    """The columns as a table; null where a value does not exist (a diverged value is nan)."""
    import polars as pl

    trained = pl.col("round") > 0
    return (
        _of_method(label, columns)
        .with_columns(
            *(pl.when(pl.col("evaluated")).then(pl.col(c)).alias(c) for c in SCALARS),
            *(pl.when(trained).then(pl.col(c)).alias(c) for c in ("available", "invited", "weight", "step")),
            pl.when(trained & (pl.col("invited") > 0)).then(pl.col("loss")).alias("loss"),
        )
        .with_columns(pl.col("skew").fill_nan(None))  # no skew: the selection does not depend on losses
        .drop("evaluated")
    )


def client_rows(
    label: str, seeds: Sequence[int], segment: Segment, active: np.ndarray, record: SegmentRecord
) -> "polars.DataFrame":
    """One row per seed, round and client, from arrays [R, B, E, N]; `active` are the available clients.

    Null where a value does not exist (a diverged value is nan).
    """
    import polars as pl

    if not record.clients:
        return no_clients(bool(record.times))
    clients = record.clients.invited.shape[-1]
    shape = (len(seeds), segment.blocks, segment.rounds, clients)
    evaluation = record.by_client or Evaluation(np.nan, False, np.nan, np.nan)  # pyright: ignore[reportArgumentType]
    kept = record.clients
    arrivals: dict[str, np.ndarray] = {}
    if record.times:
        arrived = np.asarray(record.times[1].arrived)
        arrivals = {"arrived": arrived.ravel(), "age": np.asarray(record.times[1].age, np.int64).ravel()}
    columns = {
        "seed": np.repeat(np.asarray(seeds, np.int64), segment.length * clients),
        "round": np.tile(np.repeat(segment.first + 1 + np.arange(segment.length, dtype=np.int64), clients), len(seeds)),
        "client": np.tile(np.arange(clients, dtype=np.int64), len(seeds) * segment.length),
        "active": active.ravel(),
        "invited": np.asarray(kept.invited).ravel(),
        "trained": np.asarray(kept.trained).ravel(),
        "weight": np.asarray(kept.weight, np.float32).ravel(),
        "loss": np.asarray(kept.loss, np.float32).ravel(),
        "tested": _last_of_block(shape, evaluation.tested, False).ravel(),
        "test_loss": _last_of_block(shape, evaluation.test_loss, np.nan).ravel(),
        "test_accuracy": _last_of_block(shape, evaluation.test_accuracy, np.nan).ravel(),
        **arrivals,
    }
    return (
        _of_method(label, columns)
        .with_columns(
            pl.when(pl.col("trained")).then(pl.col("loss")).alias("loss"),
            *(pl.when(pl.col("tested")).then(pl.col(c)).alias(c) for c in ("test_loss", "test_accuracy")),
        )
        .drop("trained", "tested")
    )


def no_clients(timed: bool = False) -> "polars.DataFrame":
    """The table of clients where these are not recorded: columns, but no rows."""
    import polars as pl

    numbers = dict.fromkeys(("weight", "loss", "test_loss", "test_accuracy"), pl.Float32)
    keys = {"method": pl.String, **dict.fromkeys(("seed", "round", "client"), pl.Int64)}
    times = {"arrived": pl.Boolean, "age": pl.Int64} if timed else {}
    return pl.DataFrame(schema=keys | dict.fromkeys(("active", "invited"), pl.Boolean) | numbers | times)


def _of_method(label: str, columns: dict[str, np.ndarray]) -> "polars.DataFrame":
    import polars as pl

    return pl.DataFrame(columns).select(pl.lit(label).alias("method"), pl.all())


def _last_of_block(shape: tuple[int, ...], values: Any, elsewhere: bool | float) -> np.ndarray:
    """[R, B, E, …] with the values [R, B, …] in the last round of each block."""
    spread = np.full(shape, elsewhere, bool if isinstance(elsewhere, bool) else np.float32)
    spread[:, :, -1] = values
    return spread
