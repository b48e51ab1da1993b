"""Does a two-state chain describe this fleet? The answers, as data."""

from typing import Any, NamedTuple


class Finding(NamedTuple):
    """One question put to the record, with the answer and what it is based on.

    The null is what the same statistic gives on fleets simulated from the fitted chains, with the same missing
    entries. `p` is the share of them that is at least as extreme, (1 + more) / (1 + simulated), question by question;
    `holds` is False where that is too small for one of several questions, at 5 % for all of them together (Holm).
    """

    name: str  # order, homogeneity, week, dwell, day_later, together, together_after_clock
    question: str
    sentence: str  # the answer in plain words, with its numbers
    holds: bool | None  # whether the chain is adequate in this respect; None where the record cannot say
    statistic: float | None
    null: tuple[float, float] | None  # 95 % of the simulated values: low, high
    p: float | None
    figure: dict[str, Any]  # plain lists for the figure of this finding


class Check(NamedTuple):
    """A statistic of the record, and of fleets that the generator gives."""

    name: str
    words: str
    recorded: float
    generated: float  # mean over generated fleets
    low: float  # 95 % of generated fleets
    high: float
    inside: bool
    fitted: bool = False  # the generator was fitted on it: that it agrees says only that it was kept


class Diagnosis(NamedTuple):
    """All findings, what they mean for the theory of CA-Fed, and how well the generator does."""

    findings: tuple[Finding, ...]
    theory: tuple[str, ...]  # sentences: what each assumption means for this fleet
    checks: tuple[Check, ...]
    curves: dict[str, Any]  # for figures: hourly share, run lengths, number available; recorded and generated band
    simulated: int  # fleets behind each null
    devices: int  # devices that the tests looked at
    edited: bool = False  # the model's numbers were changed after this diagnosis of it
