"""Does a two-state chain describe this fleet? The answers, as data."""

from typing import Any, NamedTuple


class Finding(NamedTuple):
    """One question put to the record, with the answer and what it is based on.

    The null is what the same statistic gives on fleets simulated from the fitted chains, with the same missing
    entries. `p` is the share of them that is at least as extreme, (1 + more) / (1 + simulated).
    """

    name: str  # order, homogeneity, week, dwell, day_later, together, together_after_clock
    question: str
    sentence: str  # the answer in plain words, with its numbers
    holds: bool | None  # whether the chain is adequate in this respect at 5 %; None where the record cannot say
    statistic: float | None
    null: tuple[float, float] | None  # 95 % of the simulated values: low, high
    p: float | None
    figure: dict[str, Any]  # plain lists for the figure of this finding


class Check(NamedTuple):
    """A statistic that the generator was not fitted on: in the record, and in fleets that it generates."""

    name: str
    words: str
    recorded: float
    generated: float  # mean over generated fleets
    low: float  # 95 % of generated fleets
    high: float
    inside: bool


class Diagnosis(NamedTuple):
    """All findings, what they mean for the theory of CA-Fed, and how well the generator does."""

    findings: tuple[Finding, ...]
    theory: tuple[str, ...]  # sentences: what each assumption means for this fleet
    checks: tuple[Check, ...]
    curves: dict[str, Any]  # for figures: hourly share, run lengths, number available; recorded and generated band
    simulated: int  # fleets behind each null
    devices: int  # devices that the tests looked at
