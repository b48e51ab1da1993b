"""A log as rounds: which devices were available, unavailable or not observed when each began."""

import datetime
from functools import cached_property
from zoneinfo import ZoneInfo

import numpy as np

HERE, AWAY, UNKNOWN = 1, 0, -1
DAY = 86_400  # seconds


def state_runs(state: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(state, length in rounds, device) of the runs of equal states in a matrix [devices, rounds], device after device;
    an unknown run separates two devices."""
    line = np.pad(state, ((0, 0), (0, 1)), constant_values=UNKNOWN).ravel()
    first = np.flatnonzero(np.r_[True, line[1:] != line[:-1]])
    return line[first], np.diff(first, append=len(line)), first // (state.shape[1] + 1)


class Slots:
    """A matrix of rounds × devices: 1 available when the round begins, 0 unavailable, −1 not observed."""

    def __init__(self, state: np.ndarray, devices: tuple[str, ...], round_seconds: int, start: int, zone: str | None):
        self.state = state  # int8 [rounds, devices]
        self.devices = devices
        self.round_seconds = round_seconds
        self.start = start  # seconds, of the log's clock, at which round 0 begins
        self.zone = zone  # as in Log

    @property
    def rounds(self) -> int:
        return self.state.shape[0]

    @cached_property
    def observed(self) -> np.ndarray:
        """bool [rounds, devices]."""
        return self.state != UNKNOWN

    @cached_property
    def seconds(self) -> np.ndarray:
        """[rounds] seconds since midnight on the clock of days."""
        return self._local % DAY

    @cached_property
    def hours(self) -> np.ndarray:
        """[rounds] the hour of the day, 0 … 23, in which each round begins."""
        return (self.seconds // 3600).astype(int)

    @cached_property
    def weekdays(self) -> np.ndarray | None:
        """[rounds] 0 for Monday … 6 for Sunday; None where the log's clock has no date."""
        return None if self.zone is None else (self._local // DAY + 3) % 7  # 1970 began on a Thursday

    @cached_property
    def _local(self) -> np.ndarray:
        moments = self.start + self.round_seconds * np.arange(self.rounds, dtype=np.int64)
        if self.zone in (None, "UTC"):
            return moments
        # The offset changes with the season at most a few times: look it up once an hour.
        zone, hours = ZoneInfo(self.zone), moments // 3600
        starts, position = np.unique(3600 * hours, return_inverse=True)
        local = (datetime.datetime.fromtimestamp(start, zone).replace(tzinfo=datetime.UTC) for start in starts.tolist())
        return moments + (np.array([int(moment.timestamp()) for moment in local]) - starts)[position]
