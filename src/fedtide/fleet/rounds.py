"""A log as rounds."""

import numpy as np

from fedtide.errors import FedtideError, whole
from fedtide.fleet.log import Log
from fedtide.fleet.reading.spans import Spans, spans_of
from fedtide.fleet.slots import AWAY, HERE, UNKNOWN, Slots

MOST = 2 * 10**9  # entries of a matrix, bytes
_AT_ONCE = 2**22  # entries that are filled at a time: their indices take eight times as much


def discretise(log: Log, round_seconds: int) -> Slots:
    """The log at the moments at which rounds begin: 1 where an interval of the device covers it, 0 where it was
    observed and away, −1 where it was not observed.

    Round r begins at start + r · round_seconds; the start is the first multiple of round_seconds, on the log's clock,
    at or after the first moment at which anything was observed.
    """
    seconds = whole("round_seconds", round_seconds, 1)
    step = 1000 * seconds
    first, last = int(log.windows["start"].min()), int(log.windows["end"].max())  # pyright: ignore[reportArgumentType]
    start = -(-first // step) * step
    rounds = max(0, -(-(last - start) // step))
    if rounds < 2:
        hours = (last - first) / 3_600_000
        raise FedtideError(
            f"round_seconds = {seconds}: the log spans {hours:.3g} hours, under two rounds of this length"
        )
    devices = len(log.devices)
    if rounds * devices > MOST:
        raise FedtideError(
            f"round_seconds = {seconds}: {rounds} rounds of {devices} devices are {rounds * devices:.2g} entries, "
            f"more than {MOST:.0g}; take longer rounds or fewer devices"
        )
    state = np.full((devices, rounds), UNKNOWN, np.int8)
    for table, value in ((log.windows, AWAY), (log.intervals, HERE)):
        _fill(state, spans_of(table), start, step, value)
    return Slots(np.ascontiguousarray(state.T), log.devices, seconds, start // 1000, log.zone)


def _fill(state: np.ndarray, spans: Spans, start: int, step: int, value: int) -> None:
    """Writes the value from the first round at or after each begin up to, without, the first at or after its end."""
    (device, begin, end), rounds = spans, state.shape[1]
    low = np.clip(-((start - begin) // step), 0, rounds)
    high = np.clip(-((start - end) // step), 0, rounds)
    length = high - low
    some = length > 0
    device, low, length = device[some].astype(np.int64), low[some], length[some]
    flat = state.reshape(-1)
    at = device * rounds + low
    limits = np.concatenate([[0], np.cumsum(length)])
    i = 0
    while i < len(at):
        j = max(i + 1, int(np.searchsorted(limits, limits[i] + _AT_ONCE, side="right")) - 1)
        if j == i + 1:
            flat[at[i] : at[i] + length[i]] = value
        else:
            offset = np.arange(limits[j] - limits[i]) - np.repeat(limits[i:j] - limits[i], length[i:j])
            flat[np.repeat(at[i:j], length[i:j]) + offset] = value
        i = j
