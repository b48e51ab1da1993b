"""Do devices come and go alike at all hours, and on all days of the week?"""

import numpy as np

from fedtide.fleet.contrasts import LEVEL, above, band, likelihood_ratio, pooled, rejections, transitions
from fedtide.fleet.diagnosis import Finding
from fedtide.fleet.diagnosis_words import length, percent, span, strongest, undecided
from fedtide.fleet.nulls import Evidence
from fedtide.fleet.order import figure

QUESTION = "Are the chances of coming and going the same at all hours of the day?"
WEEK_QUESTION = "Are the chances of coming and going the same at weekends?"
BLOCKS = ("between 0 and 6 h", "between 6 and 12 h", "between 12 and 18 h", "between 18 and 24 h")
DAYS = ("from Monday to Friday", "at weekends")
_LEAST_DAYS, _LEAST_WEEK = 2, 14


def measure(here: np.ndarray, found: Evidence) -> dict[str, np.ndarray]:
    """Transitions by the quarter of the day in which they end, against the same at all hours."""
    return _by(here, found, found.clock.hours // 6, len(BLOCKS)) if day_is_readable(found) else {}


def measure_week(here: np.ndarray, found: Evidence) -> dict[str, np.ndarray]:
    days = found.clock.weekdays
    return _by(here, found, days >= 5, 2) if days is not None and found.days >= _LEAST_WEEK else {}


def day_is_readable(found: Evidence) -> bool:
    return found.days >= _LEAST_DAYS and found.clock.round_seconds <= 6 * 3600


def day_is_not(found: Evidence) -> str:
    """Why the day cannot be read."""
    if found.days < _LEAST_DAYS:
        return f"the record is {found.days:.1f} days long, and two are needed to tell the hour from chance"
    return f"rounds of {length(found.clock.round_seconds)} are too long to see the day"


def _by(here: np.ndarray, found: Evidence, group: np.ndarray, groups: int) -> dict[str, np.ndarray]:
    counted = found.seen[1:] & found.seen[:-1]
    label = group[1:, None, None].astype(np.uint8)
    counts = transitions(label, here[:-1], here[:-1] != here[1:], counted, groups)
    return {"ratio": likelihood_ratio(counts), "rates": pooled(counts).ratio}


def conclude(
    recorded: dict[str, np.ndarray], null: dict[str, np.ndarray], found: Evidence, level: float = LEVEL
) -> Finding:
    if not recorded:
        return undecided("homogeneity", QUESTION, day_is_not(found))
    same = "nothing in this record speaks against chances that are the same at all hours."
    return _conclude("homogeneity", QUESTION, "over the day", same, BLOCKS, recorded, null, found, level)


def conclude_week(
    recorded: dict[str, np.ndarray], null: dict[str, np.ndarray], found: Evidence, level: float = LEVEL
) -> Finding:
    if not recorded:
        reason = "the log's clock has no date"
        if found.clock.weekdays is not None:
            reason = f"the record is {found.days:.1f} days long, and fourteen are needed"
        return undecided("week", WEEK_QUESTION, reason)
    same = "nothing in this record speaks against weekends that are like other days."
    return _conclude("week", WEEK_QUESTION, "over the week", same, DAYS, recorded, null, found, level)


def _conclude(name, question, over, same, groups, recorded, null, found: Evidence, level: float) -> Finding:
    able = found.testable
    if not able.any():
        return undecided(name, question, "no device came and went often enough")
    tests = rejections(recorded["ratio"][:, able], null["ratio"][:, able])
    p, chance = above(tests.share, tests.null), band(tests.null)
    holds = p > level
    head = (
        f"For {percent(tests.share)} % of {able.sum()} devices the chances of coming and going change {over}, by a test"
        f" at 5 % ({span(*chance)} % would by chance): "
    )
    phrases = [(f"{group} devices come", f"{group} devices leave") for group in groups]
    tail = same if holds else f"they are not constant.{strongest(recorded, null, phrases)}"
    return Finding(name, question, head + tail, holds, tests.share, chance, p, figure(recorded, null, groups, tests.p))
