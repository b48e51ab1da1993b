"""Does a two-state chain describe this fleet? The answers, as data."""

from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import BeforeValidator, PlainValidator

Name = Literal["order", "homogeneity", "week", "dwell", "day_later", "together", "together_after_clock"]
Numbers = Annotated[np.ndarray, PlainValidator(lambda values: np.asarray(values, float))]  # None becomes nan


def _earlier(stored: Any) -> Any:
    """Folders of earlier versions: other names of axes and means, names of groups, {} for nothing."""
    if not isinstance(stored, dict):
        return stored
    renamed = dict.fromkeys(("hours", "hour", "edges"), "x") | dict.fromkeys(("expected", "mean", "chain"), "middle")
    stored = {renamed.get(key, key): value for key, value in stored.items() if key != "groups"}
    if {"p", "absences"} <= stored.keys():
        stored["rates"] = {key: stored.pop(key) for key in RatesFigure._fields}
    return stored or None


Earlier = BeforeValidator(_earlier)


class Rates(NamedTuple):
    """Rates of transitions by group, relative to each device's own average."""

    recorded: Numbers
    low: Numbers  # 95 % of simulated fleets
    high: Numbers


class RecordedCurve(NamedTuple):
    """A statistic of the record over hours, hours of the day, or shares."""

    x: Numbers  # one more than values where they lie between edges
    recorded: Numbers
    low: Numbers  # 95 % of simulated, or generated, fleets
    high: Numbers
    middle: Numbers  # their mean, or what is known exactly of chains


class RatesFigure(NamedTuple):
    """Rates by the round before, the hour, the weekend or age; `words.groups` names the groups."""

    p: Numbers  # of each device
    arriving: Rates
    leaving: Rates


class RunsFigure(NamedTuple):
    """Shares of runs that last longer than x hours."""

    absences: Annotated[RecordedCurve, Earlier]
    stays: Annotated[RecordedCurve, Earlier]
    rates: RatesFigure | None = None  # by age; None where no device has transitions enough


class RecurrenceFigure(NamedTuple):
    """The correlation of a device's state with its state x hours later."""

    x: Numbers
    recorded: Numbers
    low: Numbers
    high: Numbers
    middle: Numbers
    day: float  # hours


class NumberFigure(NamedTuple):
    """The number of available devices x hours after the beginning."""

    x: Numbers
    recorded: Numbers
    low: Numbers
    high: Numbers
    middle: Numbers
    observed: Numbers
    devices: int


Figure = RatesFigure | RunsFigure | RecurrenceFigure | NumberFigure


class Curves(NamedTuple):
    """The record among generated fleets."""

    hourly: Annotated[RecordedCurve, Earlier]  # share of devices that are available, by hour of the day
    stays: Annotated[RecordedCurve, Earlier]  # share that lasts longer than x hours
    absences: Annotated[RecordedCurve, Earlier]
    number: Annotated[RecordedCurve, Earlier]  # share of rounds, by the share of devices that are available


class Clearest(NamedTuple):
    """The rate that is furthest from what chains give."""

    group: int
    state: int  # 0: of arriving, 1: of leaving
    rate: float  # relative to a device's own average
    low: float  # 95 % of simulated fleets
    high: float


class Alone(NamedTuple):
    """Devices that are tested one by one, at 5 %."""

    share: float  # that rejects
    null: tuple[float, float]
    devices: int


class Decided(NamedTuple):
    """The answer of the record to one question, in numbers; `words.finding` puts it into words."""

    name: Name
    statistic: float
    null: tuple[float, float]  # 95 % of simulated fleets
    p: float
    figure: Figure
    higher: bool = False  # than the median of simulated fleets
    alone: Alone | None = None
    clearest: Clearest | None = None
    runs: tuple[int, int] = (0, 0)  # absences and stays that were observed from beginning to end
    holds: bool = True
    excused: int = 0  # questions among which a p below 5 % is not significant; 0 where that is not so


Reason = Literal[
    "no device", "one device", "few rounds", "few changes", "few runs", "short record", "long rounds", "no date",
    "under two weeks", "few at a time",
]  # fmt: skip


class Undecided(NamedTuple):
    """The record is not sufficient to answer."""

    name: Name
    reason: Reason
    numbers: tuple[float, ...] = ()  # of the reason


class Finding(NamedTuple):
    """A question about the record, its answer, and the evidence for it.

    The null is the same statistic on fleets simulated from the fitted chains, with the same missing entries. `p` is the
    share of them that is at least as extreme, (1 + more) / (1 + simulated), for each question alone; `holds` is False
    where it is significant at 5 % for all questions together (Holm).
    """

    name: Name
    question: str
    sentence: str  # the answer with its numbers
    holds: bool | None  # whether the chain is adequate in this respect; None where the record is not sufficient
    statistic: float | None
    null: tuple[float, float] | None  # 95 % of the simulated values: low, high
    p: float | None
    figure: Annotated[Figure | None, Earlier]
    lead: str = ""  # yes or no, before the sentence where the question is shown


class Check(NamedTuple):
    """A statistic of the record, and of fleets from the generator."""

    name: str
    words: str
    recorded: float
    generated: float  # mean over generated fleets
    low: float  # 95 % of generated fleets
    high: float
    inside: bool
    fitted: bool = False  # the generator was fitted to this statistic, so agreement is expected


class Assumption(NamedTuple):
    """An assumption of CA-Fed's analysis, and what the record says of it."""

    assumption: str
    text: str


class Diagnosis(NamedTuple):
    """All findings, what they mean for the theory of CA-Fed, and how well the generator reproduces the record."""

    findings: tuple[Finding, ...]
    # Earlier versions stored one text for each assumption.
    theory: tuple[Annotated[Assumption, BeforeValidator(lambda x: ("", x) if isinstance(x, str) else x)], ...]
    checks: tuple[Check, ...]
    curves: Annotated[Curves | None, Earlier]  # None where no fleets were generated
    simulated: int  # fleets behind each null
    devices: int  # devices that were tested
    edited: bool = False  # the model's numbers were changed after this diagnosis of it


def named(value: Any) -> dict[str, Any] | None:
    """The fields of a named tuple; None for other values."""
    return value._asdict() if hasattr(value, "_asdict") else None


def plain(value: Any, fields: Callable[[Any], dict[str, Any] | None] = named) -> Any:
    """Results as JSON has them: what has `fields` as a dictionary, arrays as lists in which gaps are None."""
    if isinstance(value, np.ndarray):
        return [None if number != number else number for number in value.tolist()]
    if (own := value if isinstance(value, dict) else fields(value)) is not None:
        return {key: plain(one, fields) for key, one in own.items()}
    return [plain(one, fields) for one in value] if isinstance(value, list | tuple) else value
