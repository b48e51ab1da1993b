"""Does a generated fleet look like the recorded one, in what the generator was fitted on and in what it was not?"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedtide.errors import require
from fedtide.fleet.contrasts import bands, plain
from fedtide.fleet.diagnosis import Check
from fedtide.fleet.dwell import ages, runs, survival
from fedtide.fleet.model import FleetModel
from fedtide.fleet.recurrence import autocorrelation
from fedtide.fleet.slots import DAY, HERE, UNKNOWN, Slots
from fedtide.fleet.together import independent, number_here, variance_ratio

WORDS = {
    "stay_10": "a tenth of the stays are at most this long (hours)",
    "stay_50": "half of the stays are at most this long (hours)",
    "stay_90": "nine in ten stays are at most this long (hours)",
    "absence_10": "a tenth of the absences are at most this long (hours)",
    "absence_50": "half of the absences are at most this long (hours)",
    "absence_90": "nine in ten absences are at most this long (hours)",
    "longest_absence": "longest absence of a device, mean over devices (hours)",
    "back_in_an_hour": "share of departures after which the device is back within an hour",
    "day_later": "correlation of a device with itself a day later",
    "variance_ratio": "variance of the number here over that of independent devices",
    "number_sd": "standard deviation of the share of devices that are here",
    "number_least": "smallest share of devices that are here",
    "hourly_deviation": "largest difference of an hour's share of devices here from the generated mean",
}
_NOT_TOO_LARGE = {"hourly_deviation"}  # a small one is no fault
_LEAST_FLEETS = 2


def resemble(model: FleetModel, generated: Sequence[np.ndarray]) -> tuple[tuple[Check, ...], dict[str, Any]]:
    """Statistics and curves of the record and of generated fleets (bool [rounds, devices], the model's own devices and
    rounds) with the record's missing entries. `inside`: recorded within 95 % of the generated.

    Of 13 such checks on a fleet that is generated itself, about 0.7 are outside. Some are `fitted`, and are here to see
    that they were kept: the hourly share; the lengths of stays and absences, and so returns within an hour, where they
    are not a chain's (`lengths`); the swings of the number here where clusters were found; a device a day later where
    devices have habits. Levels of π and τ are set to the record's rounds here and changes, which are no checks
    themselves. Quantiles of stays and absences are those of Kaplan and Meier's curve: runs that were cut off count for
    as long as they were seen. No checks where nobody was ever here.
    """
    require(len(generated) >= _LEAST_FLEETS, "generated", len(generated), f"{_LEAST_FLEETS} fleets or more")
    for fleet in generated:
        shape = np.shape(fleet)
        require(shape == model.record.shape, "generated", shape, f"of the record's shape {model.record.shape}")
    slots = Slots(model.record, tuple(model.devices["device"]), model.round_seconds, model.start, model.zone)
    seen = (model.record != UNKNOWN)[:, None]
    require(bool(seen.any()), "model.record", "nothing observed", "observed in some round")
    everyone = [model.record == HERE, *generated]
    looked = [_look(np.asarray(fleet, np.uint8)[:, None] * seen, seen, slots) for fleet in everyone]
    hourly = np.stack([each["hourly"] for each in looked])
    known = ~np.isnan(hourly[0])  # hours that the record has
    centre = hourly[1:].mean(0)
    others = len(generated) / (len(generated) - 1)  # a generated fleet is compared with the mean of the others
    for number, (each, share) in enumerate(zip(looked, hourly, strict=True)):
        each["hourly_deviation"] = np.abs(share - centre)[known].max(initial=0) * (others if number else 1)
    names = [name for name in WORDS if name in looked[0]] if (model.record == HERE).any() else []
    checks = (_check(name, [each[name] for each in looked], name in fitted_on(model)) for name in names)
    return tuple(check for check in checks if check), _curves(looked, slots)


def fitted_on(model: FleetModel) -> set[str]:
    """Names of the checks that a generator of this model is fitted on."""
    runs = {name for name in WORDS if name.startswith(("stay_", "absence_"))} | {"back_in_an_hour"}
    swings = {"variance_ratio", "number_sd"}
    found = {"hourly_deviation"} | (runs if model.stays else set()) | (swings if model.clusters else set())
    return found | ({"day_later"} if model.habits else set())


def _look(here: np.ndarray, seen: np.ndarray, slots: Slots) -> dict[str, Any]:
    """All statistics of one fleet, [rounds, 1, devices]."""
    hours = slots.round_seconds / 3600
    age = ages(here, seen)
    table = runs(here, seen, age, slots.rounds)[0]
    found: dict[str, Any] = {}
    for state, name in ((1, "stay"), (0, "absence")):
        found[f"{name}_survival"] = survival(table[state])
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
    number, looked = number_here(here, seen), seen.sum((1, 2))
    expected, variance = independent(here, seen)
    found["variance_ratio"] = variance_ratio(number, expected, variance, looked)[0]
    # Rounds in which few are observed would decide the extremes: at least half of what is usual.
    usual = looked >= max(1, np.median(looked) / 2)
    share = number[usual, 0] / looked[usual]
    found["number_sd"], found["number_least"] = float(share.std()), float(share.min())
    found["shares"] = share
    with np.errstate(invalid="ignore"):
        found["hourly"] = _by_hour(number[:, 0], slots.hours) / _by_hour(looked, slots.hours)
    return found


def _by_hour(values: np.ndarray, hours: np.ndarray) -> np.ndarray:
    return np.bincount(hours, values, 24)


def quantile(kept: np.ndarray, share: float) -> float:
    """Of runs of which kept[n] last longer than n rounds; nan where the curve ends before.

    A run of n rounds lasted n − ½ to n + ½ of them, evenly: quantiles move smoothly.
    """
    reached = np.flatnonzero(1 - kept >= share)
    if not len(reached) or np.isnan(kept[: reached[0]]).any():
        return np.nan
    length = int(reached[0])
    return length - 0.5 + (kept[length - 1] - 1 + share) / (kept[length - 1] - kept[length])


def _longest_absence(here: np.ndarray, seen: np.ndarray) -> float:
    """Rounds, mean over devices: the longest stretch of observed rounds away, whether or not its ends were seen."""
    run, longest = np.zeros((2, here.shape[1]), np.int64)
    for away in seen & (here == 0):
        run = (run + 1) * away
        longest = np.maximum(longest, run)
    return float(longest[seen.any(0)].mean()) if seen.any() else np.nan


def _check(name: str, values: list[float], fitted: bool) -> Check | None:
    """None where there is nothing to compare: no stay was seen from beginning to end, say."""
    recorded, generated = float(values[0]), np.asarray(values[1:], float)
    if np.isnan(recorded) or np.isnan(generated).all():
        return None
    low, high = np.nanquantile(generated, [0, 0.95] if name in _NOT_TOO_LARGE else [0.025, 0.975])
    low = 0.0 if name in _NOT_TOO_LARGE else low
    inside = bool(low - 1e-9 <= recorded <= high + 1e-9)
    return Check(name, WORDS[name], recorded, float(np.nanmean(generated)), float(low), float(high), inside, fitted)


def _curves(looked: list[dict[str, Any]], slots: Slots) -> dict[str, Any]:
    """Recorded, and low, mean and high of the generated: by hour, by length of a run, by share of devices here."""
    hours = slots.round_seconds / 3600
    curves = {"hourly": {"hour": list(range(24)), **_compared([each["hourly"] for each in looked])}}
    for name, key in (("stays", "stay_survival"), ("absences", "absence_survival")):
        known = ~np.isnan(looked[0][key])
        last = max(1, int(known.sum()))
        curves[name] = {
            "hours": (np.arange(last) * hours).tolist(),
            **_compared([_held(each[key][:last]) for each in looked]),
        }
    most = max(each["shares"].max() for each in looked)
    edges = np.linspace(0, max(most, 1e-9) * (1 + 1e-9), 41)
    heights = [np.histogram(each["shares"], edges)[0] / len(each["shares"]) for each in looked]
    curves["number"] = {"edges": edges.tolist(), **_compared(heights)}
    return curves


def _held(curve: np.ndarray) -> np.ndarray:
    """Beyond what was seen a survival curve stays where it was."""
    return np.minimum.accumulate(np.nan_to_num(curve, nan=np.inf))


def _compared(curves: list[np.ndarray]) -> dict[str, list[float | None]]:
    low, mean, high = bands(np.stack(curves[1:]))
    return {"recorded": plain(curves[0]), "low": plain(low), "mean": plain(mean), "high": plain(high)}
