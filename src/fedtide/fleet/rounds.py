"""A log as rounds."""

import numpy as np

from fedtide.errors import FedtideError, whole
from fedtide.fleet.log import Log
from fedtide.fleet.reading.spans import spans_of
from fedtide.fleet.reading.tally import lasting
from fedtide.fleet.slots import UNKNOWN, Slots
from fedtide.kinds import kinds_checked

MOST = 2 * 10**9  # entries of a matrix, bytes


@kinds_checked
def discretise(log: Log, round_seconds: int) -> Slots:
    """The log at the beginning of each round: 1 where an interval of the device covers it, 0 where it was
    observed and unavailable, −1 where it was not observed.

    Round r begins at start + r · round_seconds; the start is the first multiple of round_seconds, on the log's clock,
    at or after the first moment at which anything was observed.
    """
    seconds = whole("round_seconds", round_seconds, 1)
    step = 1000 * seconds
    first, last = int(log.windows["start"].min()), int(log.windows["end"].max())  # pyright: ignore[reportArgumentType]
    start = -(-first // step) * step
    rounds = max(0, -(-(last - start) // step))
    if rounds < 2:
        raise FedtideError(f"round_seconds = {seconds}: the log spans {lasting(last - first)}, under two rounds of it")
    devices = len(log.devices)
    if rounds * devices > MOST:
        raise FedtideError(
            f"round_seconds = {seconds}: {rounds} rounds of {devices} devices are {rounds * devices:.2g} entries, "
            f"more than {MOST:.0g}; take longer rounds or fewer devices"
        )
    # Intervals are within windows, so the number of both that cover a round, minus 1, is its state.
    change = np.zeros((devices, rounds + 1), np.int8)
    for device, begin, end in (spans_of(log.windows), spans_of(log.intervals)):
        for moment, by in ((begin, 1), (end, -1)):
            np.add.at(change, (device, np.clip(-((start - moment) // step), 0, rounds)), by)
    state = np.cumsum(change, axis=1, dtype=np.int8, out=change)[:, :-1] + np.int8(UNKNOWN)
    return Slots(np.ascontiguousarray(state.T), log.devices, seconds, start // 1000, log.zone)
