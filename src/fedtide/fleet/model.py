"""The fitted fleet: one readable TOML and one Parquet table."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl


def between_hours(values: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Values [24, …] at the middles of hours, linear in between, at these seconds after midnight."""
    place = np.asarray(seconds) / 3600 - 0.5
    before = np.floor(place).astype(int)
    share = (place - before).reshape(-1, *(1,) * (np.ndim(values) - 1))
    return (1 - share) * values[before % 24] + share * values[(before + 1) % 24]


class Distribution(NamedTuple):
    """How devices differ: π ~ Beta(a, b), relaxation time τ ~ lognormal(median, σ); a share is never there."""

    beta: tuple[float, float]
    beta_se: tuple[float, float]
    hours: tuple[float, float]  # median of τ in hours, σ of log τ
    hours_se: tuple[float, float]
    never: float  # the share that is never there, as far as the record can tell
    never_se: float
    negative: int = 0  # devices with significantly (1 %) negative correlation: outside of this family


class Profile(NamedTuple):
    """The shared clock: P(there at time t) = π_k (1 + s_k d(t)), 1 + d = (1 + hour[h]) (1 + weekday[w])."""

    share: np.ndarray  # [24] share of the observed devices that were there, by hour of the day
    share_se: np.ndarray  # [24]
    hour: np.ndarray  # [24] relative to the mean over the day, − 1; at the middles of hours, linear in between
    weekday: np.ndarray | None  # [7] Monday first, relative, − 1; None where the record is too short to say

    def relative(self, seconds: np.ndarray, weekdays: np.ndarray | None) -> np.ndarray:
        """d of rounds that begin these seconds after midnight, on these days of the week."""
        factor = 1 + between_hours(self.hour, seconds)
        if self.weekday is not None and weekdays is not None:
            factor = factor * (1 + self.weekday[weekdays])
        return factor - 1


class Cluster(NamedTuple):
    """Devices that move together beyond the shared clock."""

    name: str
    members: tuple[int, ...]  # numbers of devices
    correlation: float  # mean signed correlation of pairs of members, clock removed
    null: tuple[float, float]  # 95 % of the largest such value for devices that are independent: low, high
    coupling: float  # share r of the members' latent variance that is common: see availability.Fleet
    hours: float  # relaxation time of what is common


MOST_BOUNDS = 200  # of classes of lengths


class Lengths(NamedTuple):
    """How long the stays, or the absences, of a typical device last: share[i] of them hours[i] to hours[i + 1]."""

    hours: tuple[float, ...]
    share: tuple[float, ...]


class Habits(NamedTuple):
    """How far devices' own days differ: the j-th of a device's waves has log odds of N(0, (sigma/j)²); see `waves`."""

    sigma: float
    sigma_se: float


class FleetModel(NamedTuple):
    """What is known about a fleet after fitting. `devices` has one row a device, in the order of the record."""

    source: str
    devices: pl.DataFrame
    record: np.ndarray  # int8 [rounds, devices]: 1 there, 0 not, −1 not observed
    round_seconds: int
    start: int
    zone: str | None
    distribution: Distribution
    profile: Profile
    clusters: tuple[Cluster, ...]
    pair_correlation: tuple[float, float, float]  # mean signed correlation of pairs, clock removed; its null: low, high
    account: dict[str, Any]  # of the reading: rows, used, issues, notes
    pair_correlation_with_clock: float = 0.0  # mean signed correlation of pairs, the shared clock included
    stays: Lengths | None = None  # None, both: as long as a chain's
    absences: Lengths | None = None
    habits: Habits | None = None  # None: as far as the record can tell, all follow the same clock

    def save(self, folder: Path | str) -> Path:
        """Writes `fleet.toml` and `devices.parquet` into the folder, for `load_model`; returns the TOML's path."""
        from fedtide.fleet.storage import save_model

        return save_model(self, folder)
