"""The tables of a `fleet.toml`, validated as it may be edited. Errors quote descriptions as what is allowed."""

from typing import Annotated
from zoneinfo import ZoneInfo

import numpy as np
from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from fedtide.experiments.config import Table
from fedtide.fleet.model import MOST_BOUNDS

FORMAT = 2
"""Of the tables: files of another are refused. 2: run lengths by shares, devices' own hours."""

_TEXTS = Field(default=(), description="a list of texts")
_ZONE = Field(default=None, description="a time zone such as Europe/Paris")
_FURTHEST = 200_000_000_000  # seconds from 1970: calendars end in the year 9999

Count = Annotated[int, Field(ge=0, description="a whole number of 0 or more")]
Positive = Annotated[int, Field(ge=1, description="a whole number of 1 or more")]
Real = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[Real, Field(ge=0, le=1, description="a number in [0, 1]")]
Correlation = Annotated[Real, Field(ge=-1, le=1, description="a number in [-1, 1]")]
Null = Annotated[tuple[Correlation, Correlation], Field(description="2 numbers in [-1, 1]")]
Error = Annotated[Real, Field(ge=0, description="a number of 0 or more")]
Scale = Annotated[Real, Field(ge=1e-6, description="a number of 1e-06 or more")]
Hourly = Annotated[tuple[float, ...], Field(min_length=24, max_length=24, description="24 numbers")]  # nan: no rounds


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, OSError):
        raise ValueError from None
    return name


def _some(relative: tuple[float, ...]) -> tuple[float, ...]:
    if max(relative) == -1:
        raise ValueError
    return relative


class RoundsTable(Table):
    seconds: Positive
    count: Positive
    devices: Positive
    start: int = Field(ge=-_FURTHEST, le=_FURTHEST, description=f"a whole number in [{-_FURTHEST:g}, {_FURTHEST:g}]")
    zone: Annotated[str, AfterValidator(_zone)] | None = _ZONE


class AvailabilityTable(Table):
    beta: tuple[Scale, Scale] = Field(description="2 numbers of 1e-06 or more")
    beta_se: tuple[Error, Error] = Field(description="2 numbers of 0 or more")
    never: Share
    never_se: Error
    negative: Count


class PersistenceTable(Table):
    hours: Scale
    hours_se: Error
    sigma: Error
    sigma_se: Error


class ProfileTable(Table):
    hour: Annotated[tuple[Annotated[Real, Field(ge=-1, le=23)], ...], AfterValidator(_some)] = Field(
        min_length=24, max_length=24, description="24 numbers in [-1, 23], at least one above −1"
    )
    weekday: Annotated[tuple[Annotated[Real, Field(ge=-1, le=6)], ...], AfterValidator(_some)] | None = Field(
        None, min_length=7, max_length=7, description="7 numbers in [-1, 6], at least one above −1"
    )
    share: Hourly
    share_se: Hourly


class HabitsTable(Table):
    sigma: Real = Field(ge=0, le=10, description="a number in [0, 10]")
    sigma_se: Error = 0.0


class LengthsTable(Table):
    hours: tuple[Annotated[Real, Field(ge=1e-5, le=1e6)], ...] = Field(
        min_length=2,
        max_length=MOST_BOUNDS,
        description=f"2 to {MOST_BOUNDS} hours in [1e-05, 1e+06], each more than the one before",
    )
    share: tuple[Error, ...] = Field(description="shares of 0 or more, one between each two hours, not all 0")

    @field_validator("hours")
    @classmethod
    def _increasing(cls, hours: tuple[float, ...]) -> tuple[float, ...]:
        if (np.diff(hours) <= 0).any():
            raise ValueError
        return hours

    @field_validator("share")
    @classmethod
    def _between(cls, share: tuple[float, ...], info: ValidationInfo) -> tuple[float, ...]:
        if len(share) != len(info.data.get("hours", ())) - 1 or sum(share) <= 0:
            raise ValueError
        return share


class PairsTable(Table):
    correlation: Correlation
    null: Null
    with_clock: Correlation = 0.0


class ClusterTable(Table):
    name: str | None = Field(default=None, description="text")
    correlation: Correlation
    null: Null
    coupling: Share
    hours: Scale


class IssueTable(Table):
    kind: str = Field(description="text")
    count: Count
    done: str = Field(description="text")
    examples: tuple[str, ...] = _TEXTS


class AccountTable(Table):
    """How the log's rows were handled."""

    rows: Count = 0
    used: Count = 0
    form: str = Field(default="", description="text")
    issues: tuple[IssueTable, ...] = Field(default=(), description="tables, each headed [[account.issues]]")
    notes: tuple[str, ...] = _TEXTS


_TABLE = Field(description="a table")
_RUNS = Field(default=None, description="a table: stays and absences are given together")


class Written(Table):
    """All of them."""

    format: int = FORMAT
    source: str = Field(default="", description="text")
    rounds: RoundsTable = _TABLE
    availability: AvailabilityTable = _TABLE
    persistence: PersistenceTable = _TABLE
    profile: ProfileTable = _TABLE
    habits: HabitsTable | None = Field(default=None, description="a table")
    pairs: PairsTable = _TABLE
    stays: LengthsTable | None = _RUNS
    absences: LengthsTable | None = _RUNS
    clusters: tuple[ClusterTable, ...] = Field(default=(), description="tables, each headed [[clusters]]")
    account: AccountTable = Field(default=AccountTable(), description="a table")
