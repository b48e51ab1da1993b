"""Numbers as words, for findings."""

from collections.abc import Sequence

import numpy as np

from fedtide.fleet.contrasts import bands
from fedtide.fleet.diagnosis import Finding


def undecided(name: str, question: str, reason: str) -> Finding:
    """The record cannot say, and why."""
    return Finding(name, question, f"This record cannot say: {reason}.", None, None, None, None, {})


def length(seconds: int) -> str:
    """1800 → 30 minutes."""
    for unit, name in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds % unit == 0:
            return f"{seconds // unit} {name}{'s' if seconds > unit else ''}"
    return f"{seconds} seconds"


def percent(share: float) -> str:
    return f"{100 * share:.0f}" if share == 0 or share >= 0.01 else f"{100 * share:.1f}"


def span(low: float, high: float) -> str:
    """Two shares as "2 to 8", in per cent."""
    return f"{percent(low)} to {percent(high)}"


def strongest(recorded: dict[str, np.ndarray], null: dict[str, np.ndarray], phrases: Sequence[tuple[str, str]]) -> str:
    """The clearest of the differences between groups, as a sentence.

    `phrases`: for each group who comes and who leaves, such as ("between 0 and 6 h devices come", "… leave").
    """
    rates, chance = recorded["rates"][0], null["rates"]
    low, mean, high = bands(chance)
    far = np.nan_to_num(np.abs(rates - mean) / np.where(high > low, high - low, np.inf))
    group, state = divmod(int(np.argmax(far)), far.shape[1])
    if far[group, state] == 0:
        return ""
    low, high = low[group, state], high[group, state]
    rate = f"{rates[group, state]:.2f} times as often as on their own average ({low:.2f} to {high:.2f} by chance)"
    return f" Most clearly, {phrases[group][state]} {rate}."
