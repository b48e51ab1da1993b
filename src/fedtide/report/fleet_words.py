"""A fitted fleet in words: what it is like, whether a chain describes it, what the generator misses."""

import re
from collections.abc import Sequence

import numpy as np
import polars as pl

from fedtide.fleet.diagnosis import Check, Diagnosis
from fedtide.fleet.diagnosis_words import length
from fedtide.fleet.model import FleetModel
from fedtide.fleet.waves import RANGE
from fedtide.report.words import clean, count, percent

KINDS = {
    "regular": "came and went",
    "always": "here in every round that was observed",
    "seldom": "fewer than three visits, and here in under 2% of the rounds",
    "never": "not here in any round",
    "brief": "observed for less than a day, or for fewer than 20 rounds",
}
SHORT = {  # of findings
    "order": "Next round",
    "homogeneity": "Hours of the day",
    "week": "Weekends",
    "dwell": "Stays and absences",
    "day_later": "A day later",
    "together": "Number here",
    "together_after_clock": "Number here, hour removed",
}
VERDICTS = {True: "holds", False: "does not hold", None: "cannot say"}
_USES = {  # what a chain is good for if the finding holds
    "order": "who is here in the next round",
    "dwell": "how long stays and absences last",
    "homogeneity": "what happens at a given hour",
    "week": "what weekends are like",
    "day_later": "who is back a day later",
    "together": "how many are here at once",
}
_CHECKS = {  # of the generator
    "stay_10": "the shortest stays",
    "stay_50": "the usual stay",
    "stay_90": "long stays",
    "absence_10": "the shortest absences",
    "absence_50": "the usual absence",
    "absence_90": "long absences",
    "longest_absence": "the longest absence",
    "back_in_an_hour": "quick returns",
    "day_later": "being here again a day later",
    "variance_ratio": "swings of the number here",
    "number_sd": "the spread of the number here",
    "number_least": "the emptiest round",
    "hourly_deviation": "the share by hour",
}
_MOST_MISSED = 3  # told with their numbers
_SHARES = {"back_in_an_hour", "number_sd", "number_least", "hourly_deviation"}


def said(text: str) -> str:
    """A sentence in the page's manner: 5% for 5 %, a true minus, a capital at its beginning, a stop at its end."""
    text = re.sub(r"(?<![\w.])-(?=\d)", "−", re.sub(r"(?<=\d) %", "%", clean(text)))
    first = text[:1].upper() if text[:1].isascii() else text[:1]  # λ stays λ
    return text and first + text[1:] + ("" if text[-1] in ".!?" else ".")


def listed(names: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def duration(model: FleetModel) -> str:
    """6.2 days, or 20 hours."""
    hours = len(model.record) * model.round_seconds / 3600
    if hours < 48:
        return f"{hours:.3g} hours"
    return f"{hours / 24:,.0f} days" if hours >= 240 else f"{round(hours / 24, 1):g} days"


def hours(value: float) -> str:
    """1.8 hours; minutes under one, days over two."""
    if value < 1:
        return f"{60 * value:.2g} minutes"
    return f"{value:.2g} hours" if value < 48 else f"{value / 24:.2g} days"


def share(value: float) -> str:
    """A share in percent, with a decimal where it would be 0% or 100% otherwise."""
    return percent(value, 1 if 0 < value < 0.01 or 0.99 < value < 1 else 0)


def seen(model: FleetModel) -> pl.DataFrame:
    """Devices of which something is known: observed for a day or more, and here at some time."""
    return model.devices.filter(pl.col("kind").is_in(["regular", "seldom", "always"]))


def kinds(model: FleetModel) -> dict[str, int]:
    """How many devices are of each kind, in the order in which kinds are told."""
    found = dict(model.devices["kind"].value_counts().iter_rows())
    return {kind: found[kind] for kind in KINDS if found.get(kind)}


def answer(model: FleetModel) -> list[str]:
    """What the fleet is like: sentences."""
    devices = count(model.record.shape[1], "device")
    about = [f"{devices} over {duration(model)}, in rounds of {length(model.round_seconds)}."]
    return [*about, *_available(model), *_persistent(model), *_day(model), *_own_days(model), *_apart(model)]


def trust(model: FleetModel, diagnosis: Diagnosis) -> list[str]:
    """What a two-state chain can be trusted for: sentences."""
    asked = [f for f in diagnosis.findings if f.name in _USES]
    good = [_USES[f.name] for f in asked if f.holds]
    bad = [_USES[f.name] for f in asked if f.holds is False]
    chain, rounds = "two-state chain for each device", f"rounds of {length(model.round_seconds)}"
    if not good and not bad:
        return [f"This record is too small to say whether a {chain} describes the fleet in {rounds}."]
    together = several(diagnosis)
    if not bad:
        return [f"Nothing in this record speaks against a {chain} in {rounds}.", *together]
    rest = "Long-run shares π need no chain and stand; how far off the rest is, the figures show."
    if not good:
        return [f"In {rounds} a {chain} is a rough summary: it misses something of {listed(bad)}.", rest, *together]
    return [
        f"In {rounds} a {chain} can be trusted for {listed(good)}; it misses something of {listed(bad)}.",
        rest,
        *together,
    ]


def several(diagnosis: Diagnosis) -> list[str]:
    """How many questions were asked, and that verdicts allow for it."""
    asked = sum(found.holds is not None for found in diagnosis.findings)
    if asked < 2:
        return []
    return [
        f"{asked} questions were asked; verdicts allow for that, at 5% for all of them together (Holm's rule), and p is"
        " that of a question alone."
    ]


EDITED = (
    "The numbers in fleet.toml were changed after the fit: findings, checks and what they mean for the theory are those"
    " of the fleet as it was fitted."
)


def _available(model: FleetModel) -> list[str]:
    pi = seen(model)["availability"].to_numpy()
    if len(pi) == 0:
        return ["No device was here for long enough to say how available it is."]
    if len(pi) == 1:
        return [f"The device that was seen is here in {share(pi[0])} of the rounds."]
    low, middle, high = np.quantile(pi, [0.05, 0.5, 0.95])
    spread = f"nine in ten devices lie between {share(low)} and {share(high)}"
    if len(pi) < 20:
        spread = f"they range from {share(pi.min())} to {share(pi.max())}"
    return [f"The typical device is here in {share(middle)} of the rounds (π); {spread}."]


def _persistent(model: FleetModel) -> list[str]:
    regular = model.devices.filter(pl.col("kind") == "regular")
    if regular.is_empty():
        return []
    lam, lasts = (float(np.median(regular[name].to_numpy())) for name in ("correlation", "hours"))
    if lam < 0.1:
        return [f"From one round to the next little is remembered (correlation λ = {lam:.2f})."]
    return [
        f"Whoever is here tends to stay: the correlation from one round to the next is λ = {lam:.2f} for the typical"
        f" device, whose state is forgotten in about {hours(lasts)}."
    ]


def has_day(model: FleetModel) -> bool:
    """Whether the record is long enough for a daily profile, and has one."""
    return bool(np.abs(model.profile.hour).max() > 1e-9)


def _day(model: FleetModel) -> list[str]:
    by_hour = np.asarray(model.profile.share, float)
    if np.isnan(by_hour).all():
        return []
    if not has_day(model):
        return ["No daily cycle can be read from this record."]
    low, high = int(np.nanargmin(by_hour)), int(np.nanargmax(by_hour))
    return [
        f"Over the day the share that is here moves between {share(by_hour[low])} (from {low} h) and"
        f" {share(by_hour[high])} (from {high} h)."
    ]


def _own_days(model: FleetModel) -> list[str]:
    if model.habits is None:
        return []
    sigma, times = model.habits.sigma, np.exp(RANGE * model.habits.sigma)
    return [
        "Devices keep hours of their own besides: day after day the odds that a typical one is here are about"
        f" {times:,.{int(times < 10)}f} times as high at its best hour as at its worst"
        f" (σ = {sigma:.2f} ± {1.96 * model.habits.sigma_se:.2f})."
    ]


def _apart(model: FleetModel) -> list[str]:
    """Those that are no ordinary devices."""
    found = kinds(model)
    told = {
        "never": "never here",
        "seldom": "almost never here",
        "always": "always here",
        "brief": "observed too briefly to judge",
    }
    parts = [
        f"{found[kind]:,} {'was' if found[kind] == 1 else 'were'} {words}"
        for kind, words in told.items()
        if kind in found
    ]
    return [f"Of all devices, {listed(parts)}." if parts else "Every device was here at some time."]


def figure_of(check: Check, value: float) -> str:
    """A number of a check, with its unit."""
    if check.name in _SHARES:
        return percent(value)
    if check.name.startswith(("stay", "absence", "longest")):
        return f"{value:.3g} h"
    return f"{value:.2f}".replace("-", "−")


def band_of(check: Check) -> str:
    """4 to 4.5 h."""
    low, high = figure_of(check, check.low), figure_of(check, check.high)
    return f"{low.removesuffix('%').removesuffix(' h')} to {high}"


def generator(diagnosis: Diagnosis) -> str:
    """How many checks the generator passes, and what it misses: apart, what it was fitted on."""
    if not diagnosis.checks:
        return "The generator was not compared with the record."
    fresh, kept = ([check for check in diagnosis.checks if check.fitted is fitted] for fitted in (False, True))
    parts = []
    if fresh:
        parts.append(
            f"On {count(len(fresh), 'statistic')} that it was not fitted on, the generator agrees with the record in "
            f"{_agrees(fresh, 'misses')}"
        )
    if kept:
        parts.append(
            f"Of {count(len(kept), 'statistic')} that it was fitted on it keeps {_agrees(kept, 'does not keep')}"
        )
    return " ".join(parts)


def _agrees(checks: Sequence[Check], misses: str) -> str:
    missed = sorted((check for check in checks if not check.inside), key=_distance, reverse=True)
    if not missed:
        return "all."
    names = [_CHECKS.get(check.name, clean(check.words)) for check in missed]
    most = [
        f"{name} (recorded {figure_of(check, check.recorded)}, generated {band_of(check)})"
        for name, check in zip(names, missed[:_MOST_MISSED], strict=False)
    ]
    rest = f"; by less, {listed(names[_MOST_MISSED:])}" if len(missed) > _MOST_MISSED else ""
    some = f"{len(checks) - len(missed)}" if len(missed) < len(checks) else "none"
    by_chance = " One in twenty is outside by chance." if len(missed) <= 0.1 * len(checks) else ""
    return f"{some}. It {misses} {listed(most)}{rest}.{by_chance}"


def _distance(check: Check) -> float:
    """How far outside the record lies, in widths of what is generated."""
    outside = max(check.low - check.recorded, check.recorded - check.high)
    return outside / max(check.high - check.low, 1e-9)


def pairs(model: FleetModel) -> str:
    """Whether devices move together beyond the clock."""
    mean, low, high = model.pair_correlation
    if low == high:
        return "Too few devices came and went to say whether some move together beyond the shared clock."
    numbers = f"{_signed(mean)}; {_signed(low)} to {_signed(high)} would be chance"
    where = "within chance" if low <= mean <= high else "more than chance" if mean > high else "less than chance"
    text = f"With the clock removed, the mean correlation of two devices is {where} ({numbers})."
    if model.clusters:
        members = sum(len(c.members) for c in model.clusters)
        return f"{text} {count(members, 'device')} in {count(len(model.clusters), 'group')} move together beyond that."
    return f"{text} No group of three or more was found to move together."


def _signed(value: float) -> str:
    return f"{value:.4f}".replace("-", "−")


def sentences(model: FleetModel, diagnosis: Diagnosis) -> list[str]:
    """For the terminal: what the fleet is like, each finding, what the generator misses."""
    found = [f"{SHORT.get(f.name, f.name)} ({VERDICTS[f.holds]}): {_told(f.sentence)}" for f in diagnosis.findings]
    edited = [EDITED] if diagnosis.edited else []
    return [" ".join(answer(model)), " ".join(trust(model, diagnosis)), *found, generator(diagnosis), *edited]


def _told(sentence: str) -> str:
    """Without the yes or no to a question that is not in sight."""
    return said(re.sub(r"^(Yes|No)(, the other way round)?: ", "", sentence))
