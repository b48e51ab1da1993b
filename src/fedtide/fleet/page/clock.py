"""Figures of what devices share: the hours of the day, the days of the week, and clusters."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from fedtide.fleet.fitting.habits import LEAST_DAYS
from fedtide.fleet.model import FleetModel
from fedtide.fleet.page.figures import NUMBERS, against_chance, of_day
from fedtide.fleet.page.words import share
from fedtide.fleet.process.waves import HARMONICS, balance, bent, waves
from fedtide.fleet.slots import DAY, UNKNOWN
from fedtide.report.picture import PERCENT, Picture, grid, level_lines, name_rows, panels, picture, ticks
from fedtide.report.svg import INK, colour
from fedtide.text import clean, short

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MOST_GROUPS = 12
_LEAST_PAIRS = 200  # of rounds more than a day apart, both observed
_SHOWN = 8  # devices whose own days are drawn


def clock(model: FleetModel) -> Picture | None:
    """The share of available devices by hour, and by day of the week where the record has enough weeks."""
    by_hour, error = (np.asarray(values, float) for values in (model.profile.share, model.profile.share_se))
    known = np.flatnonzero(np.isfinite(by_hour))
    if len(known) < 2:
        return None
    week = model.profile.weekday
    week = week if week is not None and np.abs(week).max() > 1e-9 else None
    text = ", ".join(f"{h} h {share(float(by_hour[h]))}" for h in known[:: max(1, len(known) // 8)])
    caption = (
        f"Share of the observed devices that were available, by hour of the day on the clock of {zone(model)}; the band"
        " is a 95% interval."
    )
    own = _own_days(model, by_hour, known)
    if len(own):
        caption += f" Thin lines: for each of {len(own)} devices, the profile if all devices had its habits."
    caption += _unknowable(model)
    if week is not None:
        text += "; " + ", ".join(f"{day} {_relative(w)}" for day, w in zip(_DAYS, week, strict=True))
        caption += " By day of the week: relative to the mean of all days, shrunk by its sampling error."

    def paint(figure: Figure, narrow: bool):
        shape: dict[str, Any] = (
            {} if week is None else {"height_ratios": [1.5, 1]} if narrow else {"width_ratios": [1.7, 1]}
        )
        count = 1 if week is None else 2
        axes = panels(figure, count, 1 if narrow else count, **shape)
        # A point stands for the whole hour.
        x, y, spread = known + 0.5, by_hour[known], 1.96 * error[known]
        axes[0].fill_between(x, np.maximum(y - spread, 0), np.minimum(y + spread, 1), color=colour(0), alpha=0.2, lw=0)
        axes[0].plot(x, own.T, color=INK, lw=0.8, alpha=0.35)
        axes[0].plot(x, y, color=colour(0), lw=2, marker="o" if len(known) < 13 else None, ms=5)
        top = max(float((y + spread).max()), float(own.max(initial=0)))
        axes[0].set_ylim(0, min(1, 1.08 * top + 1e-3))
        level_lines(axes[0], 5, PERCENT)
        of_day(axes[0])
        if week is not None:
            axes[0].set_title("By hour", loc="left")
            _week(axes[1], week)

    heights = (270, 250 if week is None else 420)
    return picture("clock", f"Share of available devices by hour: {text}.", caption, heights, paint)


def _unknowable(model: FleetModel) -> str:
    """A note where the record is too short to estimate habits: see `habits`."""
    if model.habits is not None:
        return ""
    day, known = DAY // model.round_seconds, model.record != UNKNOWN
    apart = day * 7 // 4  # rounds: pairs from 18 hours on are looked at, for a day or more
    pairs = int((known[apart:] & known[:-apart]).sum()) if apart else 0
    if len(known) >= LEAST_DAYS * day and day > 2 * HARMONICS and pairs >= _LEAST_PAIRS:
        return ""
    longest = DAY // (2 * HARMONICS + 1) // 60
    return (
        " Habits of single devices cannot be estimated from this record: that requires"
        f" {LEAST_DAYS} days or more, in rounds of {longest} minutes or less."
    )


def _own_days(model: FleetModel, by_hour: np.ndarray, known: np.ndarray) -> np.ndarray:
    """[devices, hours] the fleet's share by hour, bent by the habits of some devices; none where there are none."""
    habit = model.habit
    if model.habits is None or habit is None:
        return np.zeros((0, len(known)))
    habit = habit[np.unique(np.linspace(0, len(habit) - 1, _SHOWN).astype(int))]
    wave = habit @ waves((known + 0.5) * 3600, habit.shape[1]).T
    base = np.broadcast_to(by_hour[known], wave.shape)
    return bent(base, wave - balance(base, wave)[:, None])


def zone(model: FleetModel) -> str:
    """Of the clock on which days are counted."""
    return "the log, which has no date" if model.zone is None else clean(model.zone)


def _week(axes: Axes, week: np.ndarray) -> None:
    for day, value in enumerate(week):
        axes.barh(day, value, height=0.55, color=colour(0 if day < 5 else 1), lw=0)
    axes.axvline(0, color=INK, lw=0.8)
    name_rows(axes, [day[:3] for day in _DAYS])
    most = max(0.05, 1.15 * float(np.abs(week).max()))
    axes.set_xlim(-most, most)
    ticks(axes.xaxis, 4, FuncFormatter(lambda x, _: _relative(x)))
    axes.set_title("By day", loc="left")


def _relative(value: float) -> str:
    return "0%" if abs(value) < 5e-4 else f"{100 * value:+.2g}%".replace("-", "−")


def groups(model: FleetModel) -> Picture | None:
    """The mean signed correlation of pairs, of all and within groups, against what chance gives."""
    mean, low, high = model.pair_correlation
    if low == high:
        return None
    rows = [("all pairs", mean, low, high)]
    rows += [(clean(c.name), c.correlation, *c.null) for c in model.clusters[:_MOST_GROUPS]]
    text = "; ".join(f"{name} {value:.3f}, {a:.3f} to {b:.3f} by chance" for name, value, a, b in rows)
    caption = "Mean correlation of pairs of devices with the clock removed. Grey: 95% range for independent devices"
    caption += "; for clusters, of the largest value." if model.clusters else "."

    def paint(figure: Figure, narrow: bool):
        axes = figure.subplots()
        for y, (_, value, a, b) in enumerate(rows):
            against_chance(axes, y, value, a, b)
        axes.axvline(0, color=INK, lw=0.8, alpha=0.6)
        name_rows(axes, [short(name, 16 if narrow else 28) for name, *_ in rows])
        grid(axes, "x")
        ticks(axes.xaxis, 4 if narrow else 7, NUMBERS)
        axes.set_xlabel("Mean correlation of pairs")

    return picture("groups", f"Correlation of pairs of devices. {text}.", caption, (62 + 30 * len(rows),) * 2, paint)
