"""How long should a round be? What a log says about each length."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from fedtide.errors import FedtideError, require, whole
from fedtide.fleet.log import Log
from fedtide.fleet.reading.spans import spans_of, window_of
from fedtide.fleet.rounds import discretise
from fedtide.fleet.slots import AWAY, HERE, UNKNOWN

LENGTHS = (60, 120, 300, 600, 900, 1800, 3600, 7200)  # seconds
_ENTRIES = 3 * 10**7  # of the matrix that is looked at, at most
_ENOUGH = 200  # rounds: a chain's λ is then known to about .1 where a device comes and goes as often as not
_STAY = 0.9


def advise(log: Log, lengths: Sequence[int] = LENGTHS) -> pl.DataFrame:
    """One row a round length (seconds), from the log itself; in large logs from a random sample of devices.

    rounds, rounds_a_day; devices: how many were looked at, of `fleet`; available: mean share of the observed devices
    that is there; number: how many that is of the whole fleet; correlation: median λ = P(on|on) − P(on|off) over
    devices, by counting; stay: share of those there when a round begins that are there until it ends; away_rounds: how
    many rounds a device that left is away until it is seen again, on average (of absences that lie within the record);
    enough: whether the record has at least 200 rounds of this length.
    """
    lengths = sorted({whole("lengths", length, 1) for length in lengths})
    require(bool(lengths), "lengths", lengths, "at least one round length in seconds")
    span = int(log.windows["end"].max()) - int(log.windows["start"].min())  # pyright: ignore[reportArgumentType]
    rows = [_row(log, length, span // (1000 * length)) for length in lengths if span > 3000 * length]
    if not rows:
        raise FedtideError(f"lengths: the log spans {span / 1000:g} s, too short for rounds of {lengths[0]} s")
    return pl.DataFrame(rows)


def advised_length(table: pl.DataFrame) -> int:
    """The round length (seconds) to begin with: the longest at which 90 % of those who begin a round end it.

    Of those lengths for which the record has enough rounds, where there are such; the shortest where nobody stays.
    """
    rows = table.sort("round_seconds").to_dicts()
    rows = [row for row in rows if row["enough"]] or rows[:1]
    good = [row["round_seconds"] for row in rows if row["stay"] is not None and row["stay"] >= _STAY]
    return good[-1] if good else rows[0]["round_seconds"]


def advice_in_words(table: pl.DataFrame) -> list[str]:
    """The table of `advise` in a few sentences."""
    rows = table.sort("round_seconds").to_dicts()
    said = [row for row in rows if row["correlation"] is not None]
    words = []
    if said:
        few = [said[i] for i in sorted({0, len(said) // 2, len(said) - 1})]
        listed = ", ".join(f"{row['correlation']:.2f} at {_length(row['round_seconds'])}" for row in few)
        words.append(f"λ follows the round length: its median over devices is {listed}.")
    staying = [row for row in rows if row["stay"] is not None]
    good = [row for row in staying if row["stay"] >= _STAY]
    if good:
        words += _about(good[-1], rows)
    elif staying:
        best = max(staying, key=lambda row: row["stay"])
        words.append(
            f"At no length tried do {_STAY:.0%} of the devices that are there when a round begins stay until it ends; "
            f"at {_length(best['round_seconds'])} it is {best['stay']:.0%}. Expect work that is begun and not finished."
        )
    short = [row for row in rows if not row["enough"]]
    if short:
        words.append(
            f"From {_length(short[0]['round_seconds'])} on the record has fewer than {_ENOUGH} rounds "
            f"({short[0]['rounds']}): what it says about such rounds is uncertain."
        )
    if rows and rows[0]["devices"] < rows[0]["fleet"]:
        looked = min(row["devices"] for row in rows)
        words.append(f"These numbers are of a random sample of devices, at least {looked} of {rows[0]['fleet']}.")
    return words


def _about(chosen: dict, rows: list[dict]) -> list[str]:
    words = [
        f"The longest round of those tried in which at least {_STAY:.0%} of the devices that are there at its "
        f"beginning stay until its end is {_length(chosen['round_seconds'])} ({chosen['stay']:.0%}): "
        f"{chosen['rounds_a_day']:.4g} rounds a day, {chosen['number']:.3g} devices there on average."
    ]
    if chosen["away_rounds"] is not None:
        words[0] += f" A device that leaves is away for {chosen['away_rounds']:.3g} rounds on average."
    longer = [row for row in rows if row["round_seconds"] >= 2 * chosen["round_seconds"] and row["stay"] is not None]
    if longer:
        next_ = longer[0]
        factor = next_["round_seconds"] / chosen["round_seconds"]
        verb = "Doubling it" if factor == 2 else "Lengthening it"
        change = f"{verb} to {_length(next_['round_seconds'])} would leave {next_['stay']:.0%} until the end"
        if chosen["correlation"] is not None and next_["correlation"] is not None:
            change += f", bring λ from {chosen['correlation']:.2f} to {next_['correlation']:.2f}"
        words.append(f"{change}, and make {next_['rounds_a_day']:.4g} rounds a day of {chosen['rounds_a_day']:.4g}.")
    return words


def _row(log: Log, length: int, rounds: int) -> dict[str, float | int | bool | None]:
    fleet = len(log.devices)
    most = max(1, _ENTRIES // max(rounds, 1))
    part = log if fleet <= most else _sample(log, most)
    slots = discretise(part, length)
    state = slots.state.T
    here, seen = int((state == HERE).sum()), int((state != UNKNOWN).sum())
    share = here / seen if seen else None
    return {
        "round_seconds": length,
        "rounds": slots.rounds,
        "rounds_a_day": 86_400 / length,
        "devices": len(part.devices),
        "fleet": fleet,
        "available": share,
        "number": None if share is None else share * fleet,  # not observed is not away
        "correlation": _correlation(state),
        "stay": _stay(part, 1000 * length),
        "away_rounds": _away(state),
        "enough": slots.rounds >= _ENOUGH,
    }


def _sample(log: Log, most: int) -> Log:
    kept = np.sort(np.random.default_rng([0, len(log.devices)]).choice(len(log.devices), most, replace=False))
    place = pl.DataFrame({"device": kept.astype(np.uint32), "place": np.arange(most, dtype=np.uint32)})

    def only(table: pl.DataFrame) -> pl.DataFrame:
        return (
            table.join(place, on="device")
            .select(pl.col("place").alias("device"), "start", "end")
            .sort("device", "start")
        )

    return log._replace(
        devices=tuple(log.devices[i] for i in kept), intervals=only(log.intervals), windows=only(log.windows)
    )


def _correlation(state: np.ndarray) -> float | None:
    """Median over devices; those of which one of the two states has no next round say nothing."""
    before, after = state[:, :-1], state[:, 1:]
    pairs = [((before == a) & (after == b)).sum(axis=1) for a in (AWAY, HERE) for b in (AWAY, HERE)]
    off_off, off_on, on_off, on_on = pairs
    known = (off_off + off_on > 0) & (on_off + on_on > 0)
    if not known.any():
        return None
    stay = on_on[known] / (on_off + on_on)[known]
    return float(np.median(stay - off_on[known] / (off_off + off_on)[known]))


def _stay(log: Log, step: int) -> float | None:
    """Of the rounds at whose beginning a device is there (their end observed): those throughout which it is there."""
    if not log.intervals.height:
        return None
    spans, windows = spans_of(log.intervals), spans_of(log.windows)
    begin, end, observed = spans.start, spans.end, windows.end[window_of(spans, windows)]
    begun = _multiples(begin, np.minimum(end - 1, observed - step), step)
    kept = _multiples(begin, end - step, step)
    return float(kept.sum() / begun.sum()) if begun.sum() else None


def _multiples(low: np.ndarray, high: np.ndarray, step: int) -> np.ndarray:
    """How many multiples of the step lie in [low, high]."""
    return np.maximum(high // step + (-low) // step + 1, 0)


def _away(state: np.ndarray) -> float | None:
    """Mean length of runs of AWAY between two of HERE."""
    line = np.pad(state, ((0, 0), (0, 1)), constant_values=UNKNOWN).reshape(-1)
    first = np.flatnonzero(np.concatenate([[True], line[1:] != line[:-1]]))
    value, length = line[first], np.diff(np.append(first, len(line)))
    inner = (value[1:-1] == AWAY) & (value[:-2] == HERE) & (value[2:] == HERE)
    return float(length[1:-1][inner].mean()) if inner.any() else None


def _length(seconds: int) -> str:
    unit, word = next(pair for pair in ((3600, "hour"), (60, "minute"), (1, "second")) if seconds % pair[0] == 0)
    count = seconds // unit
    return f"{count} {word}" + ("s" if count != 1 else "")
