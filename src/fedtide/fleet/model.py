"""The fitted fleet: one readable TOML and one Parquet table."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedtide.availability.daily import between_hours
from fedtide.fleet.log import Account
from fedtide.fleet.slots import Slots

if TYPE_CHECKING:
    import polars as pl

HABIT = "habit"  # the column of devices with the harmonics of their habits


class Distribution(NamedTuple):
    """The population: π ~ Beta(a, b), relaxation time τ ~ lognormal(median, σ); a share is never available."""

    beta: tuple[float, float]
    beta_se: tuple[float, float]
    hours: tuple[float, float]  # median of τ in hours, σ of log τ
    hours_se: tuple[float, float]
    never: float  # share of devices that are never available
    never_se: float
    negative: int = 0  # devices with significantly (1 %) negative correlation, which this family does not include


class Profile(NamedTuple):
    """The shared clock: P(available at time t) = π_k (1 + s_k d(t)), 1 + d = (1 + hour[h]) (1 + weekday[w])."""

    share: np.ndarray  # [24] share of the observed devices that were available, by hour of the day
    share_se: np.ndarray  # [24]
    hour: np.ndarray  # [24] relative to the mean over the day, minus 1; at the middles of hours, linear in between
    weekday: np.ndarray | None  # [7] from Monday, relative, minus 1; None if the record is too short

    def relative(self, seconds: np.ndarray, weekdays: np.ndarray | None) -> np.ndarray:
        """d of rounds that begin these seconds after midnight, on these days of the week."""
        factor = 1 + between_hours(self.hour, seconds)
        if self.weekday is not None and weekdays is not None:
            factor = factor * (1 + self.weekday[weekdays])
        return factor - 1


class Cluster(NamedTuple):
    """Devices that are correlated beyond the shared clock."""

    name: str
    members: tuple[int, ...]  # numbers of devices
    correlation: float  # mean signed correlation of pairs of members, clock removed
    null: tuple[float, float]  # 95 % of the largest such value among independent devices: low, high
    coupling: float  # share r of the members' latent variance that is common: see `process.Fleet`
    hours: float  # relaxation time of the common part


MOST_BOUNDS = 200  # of classes of lengths


class Lengths(NamedTuple):
    """Lengths of stays, or of absences, of a typical device: share[i] of them last hours[i] to hours[i + 1]."""

    hours: tuple[float, ...]
    share: tuple[float, ...]


class Habits(NamedTuple):
    """Variation of daily habits: the j-th harmonic of a device has log odds of N(0, (sigma/j)²); see `waves`."""

    sigma: float
    sigma_se: float


class FleetModel(NamedTuple):
    """A fitted fleet. `devices` has one row per device, in the order of the record."""

    source: str
    devices: "pl.DataFrame"
    record: np.ndarray  # int8 [rounds, devices]: 1 available, 0 unavailable, −1 not observed
    round_seconds: int
    start: int
    zone: str | None
    distribution: Distribution
    profile: Profile
    clusters: tuple[Cluster, ...]
    pair_correlation: tuple[float, float, float]  # mean signed correlation of pairs, clock removed; its null: low, high
    account: Account  # of the reading, and notes on the fit
    pair_correlation_with_clock: float = 0.0  # mean signed correlation of pairs, the shared clock included
    stays: Lengths | None = None  # both None: geometric, as of a chain
    absences: Lengths | None = None
    habits: Habits | None = None  # None: all follow the same clock

    @property
    def slots(self) -> Slots:
        """The record with its clock."""
        return Slots(self.record, tuple(self.devices["device"]), self.round_seconds, self.start, self.zone)

    @property
    def habit(self) -> np.ndarray | None:
        """[N, columns] harmonics of each device's habits; None if there are none."""
        return np.array(self.devices[HABIT].to_list()) if HABIT in self.devices.columns else None

    def save(self, folder: Path | str) -> Path:
        """Writes `fleet.toml` and `devices.parquet` into the folder, for `load_model`; returns the TOML's path."""
        from fedtide.fleet.storage import save_model

        return save_model(self, folder)

    def __repr__(self) -> str:
        rounds, devices = self.record.shape
        return f"FleetModel({self.source!r}; {devices:,} devices, {rounds:,} rounds of {self.round_seconds:,} s)"
