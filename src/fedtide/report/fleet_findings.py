"""The figures of the questions put to a fleet: the record, and what chance makes of a chain."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from fedtide.fleet.diagnosis import Finding
from fedtide.fleet.model import FleetModel
from fedtide.report.fleet_bands import banded, legend, numbers, panels, survival
from fedtide.report.fleet_clock import against_chance
from fedtide.report.fleet_figures import over_days
from fedtide.report.maps import wrapped
from fedtide.report.picture import STEPS, Picture, picture
from fedtide.report.svg import INK, colour
from fedtide.report.words import clean

_TIMES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.4, 2, 3, 5, 10, 20, 50, 100)


def finding(model: FleetModel, found: Finding) -> Picture | None:
    """The figure that belongs to a question; None where the record could not say."""
    shown = found.figure
    if not shown:
        return None
    if found.name == "dwell":
        return _dwell(shown)
    if found.name == "day_later":
        return _later(shown)
    if found.name.startswith("together"):
        return _number(model, found.name, shown)
    return _groups(found) if "groups" in shown else None


_RATES = (("arriving", "Coming"), ("leaving", "Leaving"))
_TIMES_AS_OFTEN = (
    "How often devices come and leave, over their own average: 1 means as always, 2 twice as often. Grey: 95% of"
    " simulated chains, for which nothing matters but where they are. Diamonds lie outside of it."
)


def _told(shown: Mapping[str, Any]) -> str:
    return "; ".join(
        f"{what.lower()} {clean(group)}: {value:.2f}, by chance {low:.2f} to {high:.2f}"
        for key, what in _RATES
        for group, value, low, high in zip(
            shown["groups"], *(numbers(shown[key][k]) for k in ("recorded", "low", "high")), strict=True
        )
        if np.isfinite(value)
    )


def _stray(shown: Mapping[str, Any]) -> bool:
    """Whether a group lies outside of what chance gives."""
    marks = [[numbers(shown[key][name]) for name in ("low", "recorded", "high")] for key, _ in _RATES]
    return any(bool(((value < low) | (value > high)).any()) for low, value, high in marks)


def _named(group: str) -> str:
    """For an axis: "4.5 to 8 h" of "9 to 16 rounds (4.5 to 8 h)", "0 to 6 h" of "between 0 and 6 h"."""
    group = re.sub(r"^.*\((.+)\)(.*)$", r"\1\2", clean(group))
    return re.sub(r"^between (\S+) and ", r"\1 to ", group)


def _groups(found: Finding) -> Picture:
    """Rates of coming and leaving, by group."""
    shown, caption = found.figure, _TIMES_AS_OFTEN
    if found.holds and _stray(shown):
        caption += (
            " Taken together, devices may differ a little from chance where the test, which asks how many of them do on"
            " their own, sees nothing."
        )

    def draw(narrow: bool):
        def paint(figure: Figure):
            for axes, (key, title) in zip(panels(figure, narrow, 1, sharey=not narrow), _RATES, strict=True):
                _rates(axes, shown, key, title, narrow)

        height = 34 * len(shown["groups"])
        return (2 * height + 130) if narrow else height + 80, paint

    alt = f"Rates over a device's own average. {_told(shown)}."
    return picture(found.name, alt, caption, draw)


def _rates(axes: Axes, shown: Mapping[str, Any], key: str, title: str, narrow: bool) -> None:
    groups = shown["groups"]
    values = [numbers(shown[key][name]) for name in ("recorded", "low", "high")]
    for y, (value, low, high) in enumerate(zip(*values, strict=True)):
        if not np.isfinite(value) or value > 0:
            against_chance(axes, y, value, max(low, 0.01), high)
    axes.axvline(1, color=INK, lw=0.9, alpha=0.6)
    axes.set_xscale("log")
    flat = np.concatenate(values)
    flat = flat[np.isfinite(flat) & (flat > 0)]
    low, high = (min(0.66, 0.92 * flat.min()), max(1.5, 1.08 * flat.max())) if len(flat) else (0.5, 2)
    axes.set_xlim(max(low, 0.01), high)
    ticks = [t for t in _TIMES if low <= t <= high]
    axes.xaxis.set_major_locator(FixedLocator(ticks if len(ticks) < 8 else [t for t in ticks if f"{t:g}"[-1] in "15"]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}×"))
    axes.set_ylim(len(groups) - 0.4, -0.6)
    axes.set_yticks(range(len(groups)), [wrapped(_named(g), 15 if narrow else 20) for g in groups])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=INK, alpha=0.12, lw=0.7)
    axes.set_title(title, loc="left")


def _dwell(shown: Mapping[str, Any]) -> Picture:
    """Stays and absences that last longer than so many hours; below, how often they end at each age."""
    by_age = "groups" in shown
    caption = (
        "Top: the share of stays, and of absences, that last longer than the hours below, on a logarithmic scale. Grey:"
        " 95% of simulated chains."
    )
    if by_age:
        caption += (
            " Bottom: how often devices come and leave over their own average, by how long they have been away or here;"
            " a chain does not care (1×). Diamonds lie outside of what simulated chains give."
        )
    halves = {}
    for name in ("stays", "absences"):
        recorded, expected = (numbers(shown[name][key]) for key in ("recorded", "expected"))
        halves[name] = [float(shown[name]["hours"][int(np.argmax(curve <= 0.5))]) for curve in (recorded, expected)]
    alt = "; ".join(
        f"Half of the {name} have ended after {a:.3g} h, of simulated ones after {b:.3g} h"
        for name, (a, b) in halves.items()
    )
    alt += f". {_told(shown)}." if by_age else "."

    def draw(narrow: bool):
        rows = 28 * len(shown["groups"]) if by_age else 0

        def paint(figure: Figure):
            above = [180, 180] if narrow else [190]
            below = [rows + 60] * len(above) if by_age else []
            axes = panels(figure, narrow, 2 if by_age else 1, height_ratios=above + below)
            survival(axes[0], shown["absences"], "Absences", "expected")
            survival(axes[1], shown["stays"], "Stays", "expected")
            if by_age:
                for panel, (key, title) in zip(axes[2:], _RATES, strict=True):
                    _rates(panel, shown, key, f"{title}, by time {'away' if key == 'arriving' else 'here'}", narrow)
            legend(figure, narrow, "95% of simulated", "simulated mean")

        one = 190 + (rows + 60 if by_age else 0) + 40
        return (2 * one - 20 if narrow else one), paint

    return picture("dwell", alt, caption, draw)


def _later(shown: Mapping[str, Any]) -> Picture:
    """The correlation of a device with itself, hours later."""
    x, day = numbers(shown["hours"]), float(shown["day"])
    recorded, at = numbers(shown["recorded"]), int(np.argmin(np.abs(x - day)))
    caption = (
        "Correlation of a device with itself, so many hours later: 1 at once, 0 once all is forgotten. Dashed: a chain."
        " A rise at 24 h: hours that devices keep, shared or their own."
    )
    points = ", ".join(f"{x[i]:.3g} h {recorded[i]:.2f}" for i in np.linspace(0, len(x) - 1, 9).astype(int))

    def draw(narrow: bool):
        def paint(figure: Figure):
            axes = figure.subplots()
            banded(axes, x, shown, "chain")
            axes.axhline(0, color=INK, lw=0.8, alpha=0.6)
            axes.axvline(day, color=INK, lw=0.8, alpha=0.4, ls=(0, (1.2, 2)))
            axes.plot([day], [recorded[at]], "o", color=colour(0), ms=7)
            axes.set_xlim(0, x[-1])
            axes.set_xticks(np.arange(0, x[-1] + 0.01, 12 if narrow or x[-1] > 30 else 6))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda h, _: f"{h:g} h"))
            # The beginning is always 1; what matters lies lower.
            rest = recorded[x >= min(2.0, x[-1] / 4)]
            top = min(1.0, 1.25 * float(np.nanmax(rest))) if len(rest) else 1.0
            lowest = min(float(np.nanmin(numbers(shown[name]))) for name in ("low", "recorded"))
            axes.set_ylim(min(-0.05, 1.15 * lowest), max(top, 0.2))
            axes.yaxis.set_major_locator(MaxNLocator(5, steps=STEPS))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{round(y, 9):g}".replace("-", "−")))
            axes.set_ylabel("Correlation")
            legend(figure, narrow, "95% of simulated", "chain")

        return 270 if narrow else 300, paint

    return picture("day-later", f"Correlation with itself later: {points}.", caption, draw)


def _number(model: FleetModel, name: str, shown: Mapping[str, Any]) -> Picture:
    """How many were here, round by round, against independent devices."""
    x = numbers(shown["hours"]) / 24
    recorded = numbers(shown["recorded"])
    after = name != "together"
    who = "independent devices that follow the shared clock" if after else "independent devices"
    caption = f"How many of {shown['devices']:,} devices were here in each round, and how many {who} would be."
    if (np.ptp(numbers(shown["observed"])) > 0) if len(recorded) else False:
        caption += " The number that was observed changes, and with it what is expected."
    alt = (
        f"Number of devices here over time: from {recorded.min():.0f} to {recorded.max():.0f}, on average"
        f" {recorded.mean():.0f}; {who}: from {np.nanmin(numbers(shown['low'])):.0f} to"
        f" {np.nanmax(numbers(shown['high'])):.0f}."
    )

    def draw(narrow: bool):
        def paint(figure: Figure):
            axes = figure.subplots()
            banded(axes, x, shown, "expected")
            over_days(axes, model, 3 if narrow else 8)
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_locator(MaxNLocator(5, steps=STEPS, integer=True))
            axes.set_ylabel("Devices here")
            legend(figure, narrow, "95% of simulated", "expected")

        return 260 if narrow else 280, paint

    return picture(name.replace("_", "-"), alt, caption, draw)
