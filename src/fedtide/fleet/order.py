"""Is a first-order chain enough? Or does it matter for how long a device has been there, or away?"""

from typing import Any

import numpy as np

from fedtide.fleet.contrasts import LEVEL, above, band, bands, likelihood_ratio, plain, pooled, rejections, transitions
from fedtide.fleet.diagnosis import Finding
from fedtide.fleet.diagnosis_words import length, percent, span, strongest, undecided
from fedtide.fleet.nulls import Evidence

QUESTION = "Is it enough to know who is here now to tell who will be here next?"
GROUPS = ("changed a round ago", "did not change a round ago")
_PHRASES = (
    ("devices that left a round ago come back", "devices that came a round ago leave"),
    (
        "devices that have been away for two rounds or more come",
        "devices that have been here for two rounds or more leave",
    ),
)


def measure(here: np.ndarray, found: Evidence) -> dict[str, np.ndarray]:
    """Second against first order, over triples of consecutive rounds that are all observed."""
    first, second, third = here[:-2], here[1:-1], here[2:]
    counted = found.seen[:-2] & found.seen[1:-1] & found.seen[2:]
    counts = transitions(first == second, second, second != third, counted, 2)
    return {"ratio": likelihood_ratio(counts), "rates": pooled(counts).ratio}


def conclude(
    recorded: dict[str, np.ndarray], null: dict[str, np.ndarray], found: Evidence, level: float = LEVEL
) -> Finding:
    able = found.testable
    if not able.any():
        return undecided("order", QUESTION, "no device came and went often enough")
    tests = rejections(recorded["ratio"][:, able], null["ratio"][:, able])
    p, chance = above(tests.share, tests.null), band(tests.null)
    holds = p > level
    head = (
        f"In rounds of {length(found.clock.round_seconds)}, {percent(tests.share)} % of {able.sum()} devices reject a"
        f" first-order chain at 5 % ({span(*chance)} % would by chance): "
    )
    if holds:
        tail = "where a device is now is all that this record shows to matter for where it is next."
    else:
        tail = f"the round before matters as well.{strongest(recorded, null, _PHRASES)}"
    return Finding(
        "order", QUESTION, head + tail, holds, tests.share, chance, p, figure(recorded, null, GROUPS, tests.p)
    )


def figure(recorded: dict[str, np.ndarray], null: dict[str, np.ndarray], groups: tuple[str, ...], p: np.ndarray):
    """Rates of arriving and leaving in each group over a device's own average, with what chains give; p of devices."""
    low, _, high = bands(null["rates"])
    shown: dict[str, Any] = {"groups": list(groups), "p": np.sort(p).tolist()}
    for state, name in enumerate(("arriving", "leaving")):
        shown[name] = {
            "recorded": plain(recorded["rates"][0, :, state]),
            "low": plain(low[:, state]),
            "high": plain(high[:, state]),
        }
    return shown
