"""Compares generated fleets with the record, in statistics that the generator was fitted on and in others."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from fedtide.errors import require
from fedtide.fleet.diagnosis.contrasts import bands
from fedtide.fleet.diagnosis.findings import Check, Curves, RecordedCurve
from fedtide.fleet.diagnosis.rates import ages, runs, survival, survival_curve
from fedtide.fleet.diagnosis.recurrence import autocorrelation
from fedtide.fleet.diagnosis.together import independent, number_available, variance_ratio
from fedtide.fleet.model import FleetModel
from fedtide.fleet.slots import AWAY, DAY, HERE, UNKNOWN, Slots, state_runs
from fedtide.kinds import kinds_checked


class _Look(NamedTuple):
    """One fleet."""

    statistics: dict[str, float]  # by their names
    hourly: np.ndarray  # share of available devices, by hour
    stays: np.ndarray  # share that lasts longer than 0, 1, 2 … rounds
    absences: np.ndarray
    shares: np.ndarray  # of available devices, in rounds with enough observed devices


class Statistic(NamedTuple):
    """A statistic in words."""

    words: str
    unit: Literal["hours", "share", "number"]
    short: str


STATISTICS = {
    "stay_10": Statistic("10% of the stays are at most this long", "hours", "the shortest stays"),
    "stay_50": Statistic("50% of the stays are at most this long", "hours", "the median stay"),
    "stay_90": Statistic("90% of the stays are at most this long", "hours", "long stays"),
    "absence_10": Statistic("10% of the absences are at most this long", "hours", "the shortest absences"),
    "absence_50": Statistic("50% of the absences are at most this long", "hours", "the median absence"),
    "absence_90": Statistic("90% of the absences are at most this long", "hours", "long absences"),
    "longest_absence": Statistic("longest absence of a device, mean over devices", "hours", "the longest absence"),
    "back_in_an_hour": Statistic("share of departures with a return within an hour", "share", "quick returns"),
    "day_later": Statistic(
        "correlation of a device's state with its state a day later", "number", "the correlation a day later"
    ),
    "variance_ratio": Statistic(
        "variance of the number available, relative to independent devices",
        "number",
        "the variance of the number available",
    ),
    "number_sd": Statistic(
        "standard deviation of the share of available devices", "share", "the spread of the number available"
    ),
    "number_least": Statistic("smallest share of available devices", "share", "the emptiest round"),
    "hourly_deviation": Statistic(
        "largest difference of an hour's share of available devices from the generated mean",
        "share",
        "the share by hour",
    ),
}
_NOT_TOO_LARGE = {"hourly_deviation"}  # only large values are deviations
_LEAST_FLEETS = 2


@kinds_checked
def resemble(model: FleetModel, generated: Sequence[np.ndarray]) -> tuple[tuple[Check, ...], Curves]:
    """Statistics and curves of the record and of generated fleets (bool [rounds, devices], the model's own devices and
    rounds) with the record's missing entries. `inside`: recorded within 95 % of the generated.

    Of 13 such checks on a generated fleet, about 0.7 are outside. Some statistics are `fitted`, and are checked to see
    that they are reproduced: the hourly share; the lengths of stays and absences, and so returns within an hour, where
    they are not a chain's (`lengths`); the variance of the number available where there are clusters; the correlation a
    day later where devices have habits. Levels of π and τ are set to the record's rounds available and changes, which
    are not checked themselves. Quantiles of stays and absences are those of the Kaplan–Meier curve: censored runs count
    for as long as they were observed. No checks if no device was ever available.
    """
    require(len(generated) >= _LEAST_FLEETS, "generated", len(generated), f"{_LEAST_FLEETS} fleets or more")
    for fleet in generated:
        shape = np.shape(fleet)
        require(shape == model.record.shape, "generated", shape, f"of the record's shape {model.record.shape}")
    slots = model.slots
    seen = (model.record != UNKNOWN)[:, None]
    require(bool(seen.any()), "model.record", "nothing observed", "observed in some round")
    everyone = [model.record == HERE, *generated]
    looked = [_look(np.asarray(fleet, np.uint8)[:, None] * seen, seen, slots) for fleet in everyone]
    hourly = np.stack([each.hourly for each in looked])
    known = ~np.isnan(hourly[0])  # hours with a round
    centre = hourly[1:].mean(0)
    # Each generated fleet is part of the mean, which shrinks its difference by (n − 1) / n: corrected.
    others = len(generated) / (len(generated) - 1)  # compared with the mean of the other fleets
    for number, (each, share) in enumerate(zip(looked, hourly, strict=True)):
        each.statistics["hourly_deviation"] = np.abs(share - centre)[known].max(initial=0) * (others if number else 1)
    names = [name for name in STATISTICS if name in looked[0].statistics] if (model.record == HERE).any() else []
    checks = (_check(name, [each.statistics[name] for each in looked], name in fitted_on(model)) for name in names)
    return tuple(check for check in checks if check), _curves(looked, slots)


def fitted_on(model: FleetModel) -> set[str]:
    """Names of the checks that a generator of this model is fitted on."""
    runs = {name for name in STATISTICS if name.startswith(("stay_", "absence_"))} | {"back_in_an_hour"}
    swings = {"variance_ratio", "number_sd"}
    found = {"hourly_deviation"} | (runs if model.stays else set()) | (swings if model.clusters else set())
    return found | ({"day_later"} if model.habits else set())


def _look(here: np.ndarray, seen: np.ndarray, slots: Slots) -> _Look:
    """Statistics of one fleet [rounds, 1, devices], except the one that needs the others."""
    hours = slots.round_seconds / 3600
    age = ages(here, seen)
    table = runs(here, seen, age, slots.rounds)[0]
    found: dict[str, float] = {}
    for state, name in ((1, "stay"), (0, "absence")):
        for share in (10, 50, 90):
            found[f"{name}_{share}"] = quantile(survival(table[state], 1), share / 100) * hours
    found["longest_absence"] = _longest_absence(here[:, 0], seen[:, 0]) * hours
    within = int(3600 // slots.round_seconds)
    if within >= 1:
        absences = survival(table[0])
        found["back_in_an_hour"] = 1 - absences[within] if within < len(absences) else np.nan
    day = round(DAY / slots.round_seconds)
    if day >= 1 and slots.rounds >= 2 * day:
        found["day_later"] = autocorrelation(here, seen, day)[0, day]
    number, looked = number_available(here, seen), seen.sum((1, 2))
    expected, variance = independent(here, seen)
    found["variance_ratio"] = variance_ratio(number, expected, variance, looked)[0]
    # Rounds with few observed devices would determine the extremes: at least half of the median.
    usual = looked >= max(1, np.median(looked) / 2)
    share = number[usual, 0] / looked[usual]
    found["number_sd"], found["number_least"] = float(share.std()), float(share.min())
    with np.errstate(invalid="ignore"):
        hourly = np.bincount(slots.hours, number[:, 0], 24) / np.bincount(slots.hours, looked, 24)
    return _Look(found, hourly, survival(table[1]), survival(table[0]), share)


def quantile(kept: np.ndarray, share: float) -> float:
    """Of runs of which kept[n] last longer than n rounds; nan where the curve ends before.

    A run of n rounds counts as uniform in n − ½ to n + ½, for smooth quantiles.
    """
    reached = np.flatnonzero(1 - kept >= share)
    if not len(reached) or np.isnan(kept[: reached[0]]).any():
        return np.nan
    length = int(reached[0])
    return length - 0.5 + (kept[length - 1] - 1 + share) / (kept[length - 1] - kept[length])


def _longest_absence(here: np.ndarray, seen: np.ndarray) -> float:
    """Rounds, mean over devices: the longest run of observed unavailable rounds, complete or not."""
    state, length, device = state_runs(np.where(seen, here, np.int8(UNKNOWN)).T)
    longest, away = np.zeros(here.shape[1], np.int64), state == AWAY
    np.maximum.at(longest, device[away], length[away])
    return float(longest[seen.any(0)].mean()) if seen.any() else np.nan


def _check(name: str, values: list[float], fitted: bool) -> Check | None:
    """None if the statistic is undefined, for example without any complete stay."""
    recorded, generated = float(values[0]), np.asarray(values[1:], float)
    if np.isnan(recorded) or np.isnan(generated).all():
        return None
    low, high = np.nanquantile(generated, [0, 0.95] if name in _NOT_TOO_LARGE else [0.025, 0.975])
    low = 0.0 if name in _NOT_TOO_LARGE else low
    inside = bool(low - 1e-9 <= recorded <= high + 1e-9)
    words = STATISTICS[name].words + (" (hours)" if STATISTICS[name].unit == "hours" else "")
    return Check(name, words, recorded, float(np.nanmean(generated)), float(low), float(high), inside, fitted)


def _curves(looked: list[_Look], slots: Slots) -> Curves:
    """Recorded, and low, mean and high of the generated: by hour, by length of a run, by share of available devices."""
    hours = slots.round_seconds / 3600
    stays, absences = (np.stack([getattr(each, kind) for each in looked]) for kind in ("stays", "absences"))
    most = max(each.shares.max() for each in looked)
    edges = np.linspace(0, max(most, 1e-9) * (1 + 1e-9), 41)
    return Curves(
        hourly=_compared(np.arange(24), [each.hourly for each in looked]),
        stays=survival_curve(stays[0], stays[1:], hours),
        absences=survival_curve(absences[0], absences[1:], hours),
        number=_compared(edges, [np.histogram(each.shares, edges)[0] / len(each.shares) for each in looked]),
    )


def _compared(x: np.ndarray, curves: list[np.ndarray]) -> RecordedCurve:
    low, mean, high = bands(np.stack(curves[1:]))
    return RecordedCurve(x, curves[0], low, high, mean)
