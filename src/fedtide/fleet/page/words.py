"""A fitted fleet in words: what it is like, whether a chain describes it, what the generator does not reproduce."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from fedtide.fleet.diagnosis.findings import Check, Diagnosis, Finding
from fedtide.fleet.diagnosis.resemblance import STATISTICS
from fedtide.fleet.model import FleetModel
from fedtide.fleet.process.waves import RANGE
from fedtide.text import NOTHING, count, decimal, duration, listed, percent

KINDS = {
    "regular": "available at some times and unavailable at others",
    "always": "available in every observed round",
    "seldom": "fewer than three stays, and available in under 2% of the rounds",
    "never": "available in no round",
    "brief": "observed for less than a day, or for fewer than 20 rounds",
}
SHORT = {  # of findings
    "order": "Next round",
    "homogeneity": "Hours of the day",
    "week": "Weekends",
    "dwell": "Stays and absences",
    "day_later": "A day later",
    "together": "Number available",
    "together_after_clock": "Number available, hour removed",
}
VERDICTS = {True: "holds", False: "does not hold", None: "undecided"}
EDITED = "The numbers in fleet.toml were changed after the fit: findings and checks are those of the fleet as fitted."
_USES = {  # what a chain describes if the finding holds
    "order": "which devices are available in the next round",
    "dwell": "how long stays and absences last",
    "homogeneity": "availability at a given hour",
    "week": "weekends",
    "day_later": "which devices are available again a day later",
    "together": "how many devices are available at once",
}
_SHARE = "rejection rate over devices"
_TESTS = {
    **dict.fromkeys(("order", "homogeneity", "week"), _SHARE),
    "dwell": "squared distance from constant rates",
    "day_later": "correlation a day later",
    **dict.fromkeys(("together", "together_after_clock"), "ratio of variances"),
}
_MOST_MISSED = 3  # named with their numbers


def observed(model: FleetModel) -> str:
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


def judged(model: FleetModel) -> pl.DataFrame:
    """Devices with some evidence: observed for a day or more, and available at some time."""
    return model.devices.filter(pl.col("kind").is_in(["regular", "seldom", "always"]))


def kinds(model: FleetModel) -> dict[str, int]:
    """How many devices are of each kind, in the order of `KINDS`."""
    numbers = dict(model.devices["kind"].value_counts().iter_rows())
    return {kind: numbers[kind] for kind in KINDS if numbers.get(kind)}


def answer(model: FleetModel) -> str:
    """What the fleet is like."""
    size = f"{count(model.record.shape[1], 'device')} over {observed(model)}"
    parts = (_available(model), _persistent(model), _day(model), _own_days(model), _apart(model))
    return " ".join([f"{size}, in rounds of {duration(model.round_seconds)}.", *filter(None, parts)])


def trust(model: FleetModel, diagnosis: Diagnosis) -> str:
    """What a two-state chain describes, and what not."""
    good, bad = (
        [_USES[finding.name] for finding in diagnosis.findings if finding.name in _USES and finding.holds is holds]
        for holds in (True, False)
    )
    head = f"In rounds of {duration(model.round_seconds)}, a two-state chain for each device"
    if not good and not bad:
        return "This record is too small to test whether a two-state chain describes each device."
    if not bad:
        fit = f"{head} agrees with this record in everything that could be tested."
    elif good:
        fit = f"{head} describes {listed(good)}. It does not describe {listed(bad)}."
    else:
        fit = f"{head} is a rough approximation: it does not describe {listed(bad)}."
    rest = " Availabilities π are valid without the chain; the figures show the size of the deviations." if bad else ""
    return f"{fit}{rest} {several(diagnosis)}".rstrip()


def several(diagnosis: Diagnosis) -> str:
    """That verdicts account for the number of questions."""
    decided = sum(finding.holds is not None for finding in diagnosis.findings)
    if decided < 2:
        return ""
    return f"Verdicts use Holm's correction over {decided} questions, at 5% for all together; p values are uncorrected."


def p_value(finding: Finding) -> str:
    return NOTHING if finding.p is None else f"{finding.p:.{2 if finding.p >= 0.01 else 3}f}"


def compared(finding: Finding, diagnosis: Diagnosis) -> str:
    """The statistic of a finding that was decided, and those of simulated fleets."""
    assert finding.statistic is not None
    assert finding.null is not None
    kind, (low, high) = _TESTS[finding.name], finding.null

    def number(value: float) -> str:
        return share(value) if kind is _SHARE else f"{value:.1f}" if abs(value) >= 10 else decimal(value)

    return (
        f"Test: {kind} {number(finding.statistic)}; 95% of {diagnosis.simulated:,} simulated fleets: {number(low)} to"
        f" {number(high)}; p = {p_value(finding)}; {count(diagnosis.devices, 'device')}."
    )


def _available(model: FleetModel) -> str:
    pi = judged(model)["availability"].to_numpy()
    if len(pi) == 0:
        return "No device was available for long enough to estimate its availability."
    if len(pi) == 1:
        return f"The only device with enough evidence is available in {share(pi[0])} of the rounds."
    low, median, high = np.quantile(pi, [0.05, 0.5, 0.95])
    spread = f"90% of the devices are between {share(low)} and {share(high)}"
    if len(pi) < 20:
        spread = f"devices range from {share(pi.min())} to {share(pi.max())}"
    return f"The median device is available in {share(median)} of the rounds (π); {spread}."


def _persistent(model: FleetModel) -> str:
    regular = model.devices.filter(pl.col("kind") == "regular")
    if regular.is_empty():
        return ""
    lam, lasts = (float(np.median(regular[name].to_numpy())) for name in ("correlation", "hours"))
    if lam < 0.1:
        return f"Consecutive rounds are hardly correlated (λ = {decimal(lam)})."
    return (
        f"Availability is persistent: the median correlation from one round to the next is λ = {decimal(lam)}, with a"
        f" relaxation time of about {hours(lasts)}."
    )


def has_day(model: FleetModel) -> bool:
    """Whether the record is long enough for a daily profile, and has one."""
    return bool(np.abs(model.profile.hour).max() > 1e-9)


def _day(model: FleetModel) -> str:
    by_hour = np.asarray(model.profile.share, float)
    if np.isnan(by_hour).all():
        return ""
    if not has_day(model):
        return "No daily cycle can be estimated from this record."
    low, high = int(np.nanargmin(by_hour)), int(np.nanargmax(by_hour))
    return (
        f"Over the day, the share of devices that are available varies between {share(by_hour[low])} (from {low} h) and"
        f" {share(by_hour[high])} (from {high} h)."
    )


def _own_days(model: FleetModel) -> str:
    if model.habits is None:
        return ""
    sigma, times = model.habits.sigma, np.exp(RANGE * model.habits.sigma)
    return (
        "In addition, each device has its own daily habits: for the median device the odds of being available are about"
        f" {times:,.{int(times < 10)}f} times as high at its best hour as at its worst"
        f" (σ = {sigma:.2f} ± {1.96 * model.habits.sigma_se:.2f})."
    )


def _apart(model: FleetModel) -> str:
    """Devices that are not regular."""
    numbers = kinds(model)
    words = {
        "never": "never available",
        "seldom": "almost never available",
        "always": "always available",
        "brief": "observed too briefly to judge",
    }
    parts = [
        f"{numbers[kind]:,} {'was' if numbers[kind] == 1 else 'were'} {text}"
        for kind, text in words.items()
        if kind in numbers
    ]
    return f"Of all devices, {listed(parts)}." if parts else "Every device was available at some time."


def never(model: FleetModel) -> str:
    """What the fit says of devices that were never available, and what it cannot describe."""
    fleet, parts = model.distribution, []
    if "never" in kinds(model):
        parts.append(
            f"The fitted share of devices that are never available is {share(fleet.never)} (standard error"
            f" {share(fleet.never_se)}); others that were not available in this record may be only rarely available."
        )
    if fleet.negative:
        verb = "has" if fleet.negative == 1 else "have"
        parts.append(
            f"{count(fleet.negative, 'device')} {verb} a significantly negative λ (at 1%), which the fitted family does"
            " not include."
        )
    return " ".join(parts)


def same_days(model: FleetModel) -> bool:
    """Whether there is a profile over the week, and it is flat."""
    week = model.profile.weekday
    return week is not None and abs(week).max() < 1e-9


def figure_of(check: Check, value: float) -> str:
    """A number of a check, with its unit."""
    return _number(check, value) + {"share": "%", "hours": " h", "number": ""}[STATISTICS[check.name].unit]


def band_of(check: Check) -> str:
    """4 to 4.5 h."""
    return f"{_number(check, check.low)} to {figure_of(check, check.high)}"


def _number(check: Check, value: float) -> str:
    unit = STATISTICS[check.name].unit
    if unit == "share":
        return f"{100 * value:.1f}"
    return f"{value:.3g}" if unit == "hours" else decimal(value)


def generator(diagnosis: Diagnosis) -> str:
    """How many checks the generator passes, and which not; separately, those on which it was fitted."""
    if not diagnosis.checks:
        return "The generator was not compared with the record."
    fresh, fitted = ([check for check in diagnosis.checks if check.fitted is kind] for kind in (False, True))
    parts = []
    if fresh:
        parts.append(
            f"Of {count(len(fresh), 'statistic')} that it was not fitted on, the generator reproduces {_agrees(fresh)}"
        )
    if fitted:
        parts.append(f"Of {count(len(fitted), 'statistic')} that it was fitted on, it reproduces {_agrees(fitted)}")
    return " ".join(parts)


def _agrees(checks: Sequence[Check]) -> str:
    missed = sorted((check for check in checks if not check.inside), key=_distance, reverse=True)
    if not missed:
        return "all."
    names = [STATISTICS[check.name].short for check in missed]
    most = [
        f"{name} (recorded {figure_of(check, check.recorded)}, generated {band_of(check)})"
        for name, check in zip(names, missed[:_MOST_MISSED], strict=False)
    ]
    rest = f"; less so in {listed(names[_MOST_MISSED:])}" if len(missed) > _MOST_MISSED else ""
    some = f"{len(checks) - len(missed)}" if len(missed) < len(checks) else "none"
    by_chance = " By chance, 5% would deviate." if len(missed) <= 0.1 * len(checks) else ""
    return f"{some}. It deviates in {listed(most)}{rest}.{by_chance}"


def _distance(check: Check) -> float:
    """How far the record is outside, in widths of what is generated."""
    outside = max(check.low - check.recorded, check.recorded - check.high)
    return outside / max(check.high - check.low, 1e-9)


def pairs(model: FleetModel) -> str:
    """Whether devices are correlated beyond the clock."""
    mean, low, high = model.pair_correlation
    if low == high:
        return "Too few devices arrived and left to test whether some are correlated beyond the shared clock."
    numbers = f"{decimal(mean, 4)}; {decimal(low, 4)} to {decimal(high, 4)} by chance"
    where = "within" if low <= mean <= high else "above" if mean > high else "below"
    text = f"With the clock removed, the mean correlation of two devices is {where} the range of chance ({numbers})."
    if model.clusters:
        members, clusters = sum(len(c.members) for c in model.clusters), count(len(model.clusters), "cluster")
        return f"{text} {count(members, 'device')} in {clusters} are correlated beyond that."
    return f"{text} No cluster of three or more was found."


def sentences(model: FleetModel, diagnosis: Diagnosis) -> list[str]:
    """For the terminal: what the fleet is like, each finding, what the generator does not reproduce."""
    findings = [f"{SHORT[each.name]} ({VERDICTS[each.holds]}): {each.sentence}" for each in diagnosis.findings]
    edited = [EDITED] if diagnosis.edited else []
    return [answer(model), trust(model, diagnosis), *findings, generator(diagnosis), *edited]
