"""The figures of what devices share: the hours of the day, the days of the week, and groups that move together."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fedtide.fleet.habits import LEAST_DAYS
from fedtide.fleet.model import FleetModel
from fedtide.fleet.slots import DAY, UNKNOWN
from fedtide.fleet.waves import HABIT, HARMONICS, balance, bent, waves
from fedtide.report.fleet_words import share
from fedtide.report.picture import PERCENT, STEPS, Picture, picture
from fedtide.report.svg import INK, colour
from fedtide.report.words import clean, short

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MOST_GROUPS = 12
_LEAST_PAIRS = 200  # of rounds more than a day apart, both observed
_SHOWN = 8  # devices whose own days are drawn


def clock(model: FleetModel) -> Picture | None:
    """The share of devices here by hour, and by day of the week where the record says."""
    by_hour, error = (np.asarray(values, float) for values in (model.profile.share, model.profile.share_se))
    known = np.flatnonzero(np.isfinite(by_hour))
    if len(known) < 2:
        return None
    week = model.profile.weekday
    week = week if week is not None and np.abs(week).max() > 1e-9 else None
    told = ", ".join(f"{h} h {share(float(by_hour[h]))}" for h in known[:: max(1, len(known) // 8)])
    caption = (
        f"Share of the observed devices that were here, by hour of the day on the clock of {zone(model)}; the band is a"
        " 95% interval."
    )
    own = _own_days(model, by_hour, known)
    if len(own):
        caption += (
            f" Thin lines: the same if all kept the hours of one device, for {len(own)} devices, as far as the record"
            " says what their hours are."
        )
    caption += _unknowable(model)
    if week is not None:
        told += "; " + ", ".join(f"{day} {_relative(w)}" for day, w in zip(_DAYS, week, strict=True))
        caption += " By day of the week: against the mean of all days, as much of it as is not chance."

    def draw(narrow: bool):
        def paint(figure: Figure):
            shape: dict[str, Any] = (
                {} if week is None else {"height_ratios": [1.5, 1]} if narrow else {"width_ratios": [1.7, 1]}
            )
            panels = 1 if week is None else 2
            axes = np.ravel(figure.subplots(*((panels, 1) if narrow else (1, panels)), **shape))
            # A point stands for the whole hour.
            x, y, spread = known + 0.5, by_hour[known], 1.96 * error[known]
            axes[0].fill_between(
                x, np.maximum(y - spread, 0), np.minimum(y + spread, 1), color=colour(0), alpha=0.2, lw=0
            )
            axes[0].plot(x, own.T, color=INK, lw=0.8, alpha=0.35)
            axes[0].plot(x, y, color=colour(0), lw=2, marker="o" if len(known) < 13 else None, ms=5)
            top = max(float((y + spread).max()), float(own.max(initial=0)))
            axes[0].set_ylim(0, min(1, 1.08 * top + 1e-3))
            axes[0].yaxis.set_major_formatter(PERCENT)
            axes[0].yaxis.set_major_locator(MaxNLocator(5, steps=STEPS))
            axes[0].grid(axis="y", color=INK, alpha=0.12, lw=0.7)
            of_day(axes[0])
            if week is not None:
                axes[0].set_title("By hour", loc="left")
                _week(axes[1], week)

        return (250 if week is None else 420) if narrow else 270, paint

    return picture("clock", f"Share of devices that are here by hour: {told}.", caption, draw)


def _unknowable(model: FleetModel) -> str:
    """Says so where the record cannot tell whether devices keep hours of their own: see `fleet.habits`."""
    if model.habits is not None:
        return ""
    day, known = DAY // model.round_seconds, model.record != UNKNOWN
    apart = day * 7 // 4  # rounds: pairs from 18 hours on are looked at, for a day or more
    pairs = int((known[apart:] & known[:-apart]).sum()) if apart else 0
    if len(known) >= LEAST_DAYS * day and day > 2 * HARMONICS and pairs >= _LEAST_PAIRS:
        return ""
    longest = DAY // (2 * HARMONICS + 1) // 60
    return (
        " Whether devices keep hours of their own cannot be told from this record: that takes"
        f" {LEAST_DAYS} days or more, in rounds of {longest} minutes or less."
    )


def _own_days(model: FleetModel, by_hour: np.ndarray, known: np.ndarray) -> np.ndarray:
    """[devices, hours] the fleet's share by hour, bent by the habits of some devices; none where there are none."""
    if model.habits is None or HABIT not in model.devices.columns:
        return np.zeros((0, len(known)))
    habit = np.array(model.devices[HABIT].to_list())
    habit = habit[np.unique(np.linspace(0, len(habit) - 1, _SHOWN).astype(int))]
    wave = habit @ waves((known + 0.5) * 3600, habit.shape[1]).T
    base = np.broadcast_to(by_hour[known], wave.shape)
    return bent(base, wave - balance(base, wave)[:, None])


def zone(model: FleetModel) -> str:
    """Of the clock on which days are counted."""
    return "the log, which has no date" if model.zone is None else clean(model.zone)


def of_day(axes: Axes) -> None:
    axes.set_xlim(0, 24)
    axes.set_xticks([0, 6, 12, 18, 24], [f"{h} h" for h in (0, 6, 12, 18, 24)])


def _week(axes: Axes, week: np.ndarray) -> None:
    for day, value in enumerate(week):
        axes.barh(day, value, height=0.55, color=colour(0 if day < 5 else 1), lw=0)
    axes.axvline(0, color=INK, lw=0.8)
    axes.set_ylim(6.6, -0.6)
    axes.set_yticks(range(7), [day[:3] for day in _DAYS])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    most = max(0.05, 1.15 * float(np.abs(week).max()))
    axes.set_xlim(-most, most)
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=STEPS))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: _relative(x)))
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
    told = "; ".join(f"{name} {value:.3f}, by chance {a:.3f} to {b:.3f}" for name, value, a, b in rows)
    caption = "Mean correlation of two devices with the clock removed. Grey: what independent devices give (95%)"
    caption += ", for groups the most that they give." if model.clusters else "."

    def draw(narrow: bool):
        def paint(figure: Figure):
            axes = figure.subplots()
            for y, (_, value, a, b) in enumerate(rows):
                against_chance(axes, y, value, a, b)
            axes.axvline(0, color=INK, lw=0.8, alpha=0.6)
            axes.set_ylim(len(rows) - 0.4, -0.6)
            axes.set_yticks(range(len(rows)), [short(name, 16 if narrow else 28) for name, *_ in rows])
            axes.tick_params(axis="y", length=0)
            axes.spines["left"].set_visible(False)
            axes.grid(axis="x", color=INK, alpha=0.12, lw=0.7)
            axes.xaxis.set_major_locator(MaxNLocator(4 if narrow else 7, steps=STEPS))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{round(x, 9):g}".replace("-", "−")))
            axes.set_xlabel("Mean correlation of pairs")

        return 62 + 30 * len(rows), paint

    return picture("groups", f"Correlation of pairs of devices. {told}.", caption, draw)


def against_chance(axes: Axes, y: float, value: float, low: float, high: float) -> None:
    """A dot and, behind it, the range that chance gives; the dot changes its colour and shape outside of it."""
    if np.isfinite(low) and np.isfinite(high):
        axes.plot([low, high], [y, y], color=INK, alpha=0.22, lw=9, solid_capstyle="butt")
    if np.isfinite(value):
        inside = low <= value <= high
        axes.plot([value], [y], "o" if inside else "D", color=colour(0 if inside else 1), ms=7 if inside else 6.5)
