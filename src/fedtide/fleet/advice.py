"""The length of a round: what a log says about each choice."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from fedtide.errors import FedtideError, require, whole
from fedtide.fleet.fitting.counts import count
from fedtide.fleet.log import Log
from fedtide.fleet.reading.spans import spans_of, window_of
from fedtide.fleet.rounds import discretise
from fedtide.fleet.slots import AWAY, HERE, state_runs
from fedtide.kinds import kinds_checked
from fedtide.text import decimal, duration

LENGTHS = (60, 120, 300, 600, 900, 1800, 3600, 7200)  # seconds
_ENTRIES = 3 * 10**7  # of the matrix that is evaluated, at most
_ENOUGH = 200  # rounds: λ of a chain with π = ½ is then known to about ±0.1
_STAY = 0.9


@kinds_checked
def advise(log: Log, lengths: Sequence[int] = LENGTHS) -> pl.DataFrame:
    """One row per round length (seconds), computed from the log; for large logs from a random sample of devices.

    rounds, rounds_a_day; devices: how many were evaluated, of `fleet`; available: mean share of the observed devices
    that are available; number: how many that is of the whole fleet; correlation: median λ = P(on|on) − P(on|off) over
    devices, from counts; stay: share of the devices available when a round begins that are available until it ends;
    away_rounds: mean number of rounds until a device that left returns (of absences within the record); enough: whether
    the record has at least 200 rounds of this length.
    """
    lengths = sorted({whole("lengths", length, 1) for length in lengths})
    require(bool(lengths), "lengths", lengths, "at least one round length in seconds")
    span = int(log.windows["end"].max()) - int(log.windows["start"].min())  # pyright: ignore[reportArgumentType]
    rows = [_row(log, length, span // (1000 * length)) for length in lengths if span > 3000 * length]
    if not rows:
        raise FedtideError(f"lengths: the log spans {span / 1000:g} s, too short for rounds of {lengths[0]} s")
    return pl.DataFrame(rows)


@kinds_checked
def advised_length(table: pl.DataFrame) -> int:
    """The recommended round length (seconds): the longest in which 90 % of the devices that begin a round complete it.

    Among lengths for which the record has enough rounds, if there are any; the shortest where no device stays.
    """
    rows = table.sort("round_seconds").to_dicts()
    rows = [row for row in rows if row["enough"]] or rows[:1]
    good = [row["round_seconds"] for row in rows if row["stay"] is not None and row["stay"] >= _STAY]
    return good[-1] if good else rows[0]["round_seconds"]


@kinds_checked
def advice_in_words(table: pl.DataFrame) -> list[str]:
    """The table of `advise` in a few sentences."""
    rows = table.sort("round_seconds").to_dicts()
    correlated = [row for row in rows if row["correlation"] is not None]
    staying = [row for row in rows if row["stay"] is not None]
    good = [row for row in staying if row["stay"] >= _STAY]
    short = [row for row in rows if not row["enough"]]
    words = []
    if correlated:
        few = [correlated[i] for i in sorted({0, len(correlated) // 2, len(correlated) - 1})]
        values = ", ".join(f"{decimal(row['correlation'])} at {duration(row['round_seconds'])}" for row in few)
        words.append(f"λ depends on the round length; its median over devices is {values}.")
    if good:
        words += _about(good[-1], staying)
    elif staying:
        best = max(staying, key=lambda row: row["stay"])
        words.append(
            f"At no length are {_STAY:.0%} of the devices that are available at the beginning of a round still"
            f" available at its end; at {duration(best['round_seconds'])} it is {best['stay']:.0%}. Expect unfinished"
            " work."
        )
    if short:
        words.append(
            f"From {duration(short[0]['round_seconds'])} on, the record has fewer than {_ENOUGH} rounds"
            f" ({short[0]['rounds']}), so the numbers are uncertain."
        )
    if rows and rows[0]["devices"] < rows[0]["fleet"]:
        sampled = min(row["devices"] for row in rows)
        words.append(f"Computed on a random sample of at least {sampled} of {rows[0]['fleet']} devices.")
    return words


def _about(chosen: dict[str, Any], staying: list[dict[str, Any]]) -> list[str]:
    """The longest good length, and what a longer one would change."""
    words = [
        f"The longest round in which at least {_STAY:.0%} of the devices that are available at its beginning are still"
        f" available at its end is {duration(chosen['round_seconds'])} ({chosen['stay']:.0%}):"
        f" {chosen['rounds_a_day']:.4g} rounds per day, {chosen['number']:.3g} available devices on average."
    ]
    if chosen["away_rounds"] is not None:
        words[0] += f" A device that leaves returns after {chosen['away_rounds']:.3g} rounds on average."
    longer = next((row for row in staying if row["round_seconds"] >= 2 * chosen["round_seconds"]), None)
    if longer is not None:
        change = (
            f"In rounds of {duration(longer['round_seconds'])}, {longer['stay']:.0%} would be available until the end"
        )
        if chosen["correlation"] is not None and longer["correlation"] is not None:
            change += f" and λ would be {decimal(longer['correlation'])} instead of {decimal(chosen['correlation'])}"
        words.append(f"{change}.")
    return words


def _row(log: Log, length: int, rounds: int) -> dict[str, float | int | bool | None]:
    fleet = len(log.devices)
    most = max(1, _ENTRIES // max(rounds, 1))
    part = log if fleet <= most else _sample(log, most)
    slots = discretise(part, length)
    here, seen = int((slots.state == HERE).sum()), int(slots.observed.sum())
    share = here / seen if seen else None
    correlation = count(slots.state).correlation()  # nan where a state has no next round
    return {
        "round_seconds": length,
        "rounds": slots.rounds,
        "rounds_a_day": 86_400 / length,
        "devices": len(part.devices),
        "fleet": fleet,
        "available": share,
        "number": None if share is None else share * fleet,  # not observed does not mean unavailable
        "correlation": None if np.isnan(correlation).all() else float(np.nanmedian(correlation)),
        "stay": _stay(part, 1000 * length),
        "away_rounds": _away(slots.state.T),
        "enough": slots.rounds >= _ENOUGH,
    }


def _sample(log: Log, most: int) -> Log:
    kept = np.sort(np.random.default_rng([0, len(log.devices)]).choice(len(log.devices), most, replace=False))
    place = pl.DataFrame({"device": kept.astype(np.uint32), "place": np.arange(most, dtype=np.uint32)})

    def only(table: pl.DataFrame) -> pl.DataFrame:
        return table.join(place, on="device").drop("device").rename({"place": "device"}).sort("device", "start")

    return log._replace(
        devices=tuple(log.devices[i] for i in kept), intervals=only(log.intervals), windows=only(log.windows)
    )


def _stay(log: Log, step: int) -> float | None:
    """The share of rounds throughout which a device is available, of those at whose beginning it is and whose end is
    observed."""
    if not log.intervals.height:
        return None
    spans, windows = spans_of(log.intervals), spans_of(log.windows)
    begin, end, observed = spans.start, spans.end, windows.end[window_of(spans, windows)]
    begun = _multiples(begin, np.minimum(end - 1, observed - step), step)
    kept = _multiples(begin, end - step, step)
    return float(kept.sum() / begun.sum()) if begun.sum() else None


def _multiples(low: np.ndarray, high: np.ndarray, step: int) -> np.ndarray:
    """The number of multiples of the step in [low, high]."""
    return np.maximum(high // step + (-low) // step + 1, 0)


def _away(state: np.ndarray) -> float | None:
    """Mean length of the runs of AWAY between two runs of HERE."""
    runs, length, _ = state_runs(state)
    inner = (runs[1:-1] == AWAY) & (runs[:-2] == HERE) & (runs[2:] == HERE)
    return float(length[1:-1][inner].mean()) if inner.any() else None
