"""Figures of the record and a range: of simulated chains, for each question, and of generated fleets."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fedtide.fleet.diagnosis import findings
from fedtide.fleet.diagnosis.words import Group, groups
from fedtide.fleet.model import FleetModel
from fedtide.fleet.page.figures import HOURS, NUMBERS, against_chance, banded, legend, of_day, over_days
from fedtide.report import picture
from fedtide.report.svg import INK, colour

_MOST_HOURS = 48
_LEAST = 0.01  # share of runs that is still drawn
_TIMES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.4, 2, 3, 5, 10, 20, 50, 100)


def finding(model: FleetModel, found: findings.Finding) -> picture.Picture | None:
    """The figure that belongs to a question; None where it is undecided."""
    named = groups(found.name, model.round_seconds)
    match found.figure:
        case findings.RunsFigure():
            return _dwell(found.figure, named)
        case findings.RecurrenceFigure():
            return _later(found.figure)
        case findings.NumberFigure():
            return _number(model, found.name, found.figure)
        case findings.RatesFigure():
            return _groups(found, found.figure, named)


_RELATIVE_RATES = (
    "Rates of arriving and leaving, relative to each device's average. Grey: 95% of simulated chains, whose rates"
    " depend on the current state only. Diamonds are outside this range."
)


def _rates_in_words(named: Sequence[Group], shown: findings.RatesFigure) -> str:
    return "; ".join(
        f"{what} {group.words}: {value:.2f}, {low:.2f} to {high:.2f} by chance"
        for what, rates in (("arriving", shown.arriving), ("leaving", shown.leaving))
        for group, value, low, high in zip(named, *rates, strict=True)
        if np.isfinite(value)
    )


def _groups(found: findings.Finding, shown: findings.RatesFigure, named: Sequence[Group]) -> picture.Picture:
    """Rates of arriving and leaving, by group."""
    caption = _RELATIVE_RATES
    if found.holds and any(_outside(rates) for rates in (shown.arriving, shown.leaving)):
        caption += " Pooled rates may deviate where the test, which counts devices, does not reject."

    def paint(figure: Figure, narrow: bool):
        coming, leaving = picture.panels(figure, 2, 1 if narrow else 2, sharey=not narrow)
        _rates(coming, shown.arriving, "Arriving", named, narrow)
        _rates(leaving, shown.leaving, "Leaving", named, narrow)

    alt = f"Rates relative to a device's average. {_rates_in_words(named, shown)}."
    height = 34 * len(named)
    return picture.picture(found.name, alt, caption, (height + 80, 2 * height + 130), paint)


def _rates(axes: Axes, rates: findings.Rates, title: str, named: Sequence[Group], narrow: bool) -> None:
    for y, (value, low, high) in enumerate(zip(*rates, strict=True)):
        if not np.isfinite(value) or value > 0:
            against_chance(axes, y, value, max(low, 0.01), high)
    axes.axvline(1, color=INK, lw=0.9, alpha=0.6)
    axes.set_xscale("log")
    flat = np.concatenate(rates)
    flat = flat[np.isfinite(flat) & (flat > 0)]
    low, high = (min(0.66, 0.92 * flat.min()), max(1.5, 1.08 * flat.max())) if len(flat) else (0.5, 2)
    axes.set_xlim(max(low, 0.01), high)
    times = [t for t in _TIMES if low <= t <= high]
    times = times if len(times) < 8 else [t for t in times if f"{t:g}"[-1] in "15"]
    picture.fixed_ticks(axes.xaxis, times, FuncFormatter(lambda x, _: f"{x:g}×"))
    picture.name_rows(axes, [picture.wrapped(group.label, 15 if narrow else 20) for group in named])
    picture.grid(axes, "x")
    axes.set_title(title, loc="left")


def _dwell(shown: findings.RunsFigure, named: Sequence[Group]) -> picture.Picture:
    """The lengths of stays and absences; below, how often they end at each age."""
    rates = shown.rates
    caption = (
        "Top: the share of stays, and of absences, that last longer than x hours, on a logarithmic scale. Grey: 95% of"
        " simulated chains."
    )
    alt = "; ".join(
        f"Half of the {name} end within {_half(curve.x, curve.recorded):.3g} h, of simulated ones within"
        f" {_half(curve.x, curve.middle):.3g} h"
        for name, curve in (("stays", shown.stays), ("absences", shown.absences))
    )
    alt += "."
    if rates:
        caption += (
            " Bottom: rates of arriving and leaving relative to each device's average, by how long it has been"
            " unavailable or available; for a chain they are constant (1×). Diamonds are outside 95% of simulated"
            " chains."
        )
        alt += f" {_rates_in_words(named, rates)}."

    below = 28 * len(named) + 60 if rates else 0  # height of the rates

    def paint(figure: Figure, narrow: bool):
        above = [180, 180] if narrow else [190]
        ratios = above + [below] * len(above) if rates else above
        axes = picture.panels(figure, 4 if rates else 2, 1 if narrow else 2, height_ratios=ratios)
        _survival(axes[0], shown.absences, "Absences")
        _survival(axes[1], shown.stays, "Stays")
        if rates:
            _rates(axes[2], rates.arriving, "Arriving, by time unavailable", named, narrow)
            _rates(axes[3], rates.leaving, "Leaving, by time available", named, narrow)
        legend(figure, narrow, "95% of simulated", "simulated mean")

    return picture.picture("dwell", alt, caption, (230 + below, 2 * (230 + below) - 20), paint)


def _half(hours: np.ndarray, lasting: np.ndarray) -> float:
    """When half of the runs have ended."""
    return float(hours[int(np.argmax(lasting <= 0.5))])


def _later(shown: findings.RecurrenceFigure) -> picture.Picture:
    """The correlation of a device's state with its state hours later."""
    x, day, recorded = shown.x, shown.day, shown.recorded
    caption = (
        "Correlation of a device's state with its state x hours later. Dashed: a Markov chain. A peak at 24 h means"
        " that devices are available at similar hours every day."
    )
    points = ", ".join(f"{x[i]:.3g} h {recorded[i]:.2f}" for i in np.linspace(0, len(x) - 1, 9).astype(int))

    def paint(figure: Figure, narrow: bool):
        axes = figure.subplots()
        banded(axes, x, shown)
        axes.axhline(0, color=INK, lw=0.8, alpha=0.6)
        axes.axvline(day, color=INK, lw=0.8, alpha=0.4, ls=(0, (1.2, 2)))
        axes.plot([day], [recorded[int(np.argmin(np.abs(x - day)))]], "o", color=colour(0), ms=7)
        axes.set_xlim(0, x[-1])
        axes.set_xticks(np.arange(0, x[-1] + 0.01, 12 if narrow or x[-1] > 30 else 6))
        axes.xaxis.set_major_formatter(HOURS)
        # The first value is always 1; the others are lower.
        rest = recorded[x >= min(2.0, x[-1] / 4)]
        top = min(1.0, 1.25 * float(np.nanmax(rest))) if len(rest) else 1.0
        lowest = min(float(np.nanmin(shown.low)), float(np.nanmin(recorded)))
        axes.set_ylim(min(-0.05, 1.15 * lowest), max(top, 0.2))
        picture.ticks(axes.yaxis, 5, NUMBERS)
        axes.set_ylabel("Correlation")
        legend(figure, narrow, "95% of simulated", "chain")

    return picture.picture(
        "day-later", f"Correlation with the state hours later: {points}.", caption, (300, 270), paint
    )


def _number(model: FleetModel, name: str, shown: findings.NumberFigure) -> picture.Picture:
    """The number of available devices in each round, and that of independent devices."""
    who = "independent devices" + (" that follow the shared clock" if name != "together" else "")
    caption = f"Number of available devices in each round, of {shown.devices:,}, and the range for {who}."
    if np.ptp(shown.observed) > 0:
        caption += " The expected number varies with the number of observed devices."
    alt = (
        f"Number of available devices over time: from {shown.recorded.min():.0f} to {shown.recorded.max():.0f}, on"
        f" average {shown.recorded.mean():.0f}; {who}: from {np.nanmin(shown.low):.0f} to {np.nanmax(shown.high):.0f}."
    )

    def paint(figure: Figure, narrow: bool):
        axes = figure.subplots()
        banded(axes, shown.x / 24, shown)
        over_days(axes, model, 3 if narrow else 8)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=picture.STEPS, integer=True))
        axes.set_ylabel("Available devices")
        legend(figure, narrow, "95% of simulated", "expected")

    return picture.picture(name.replace("_", "-"), alt, caption, (280, 260), paint)


def generated(diagnosis: findings.Diagnosis) -> picture.Picture | None:
    """The record among generated fleets: by hour, by length of stays and absences, by number available."""
    curves = diagnosis.curves
    if curves is None:
        return None
    alt = "The record among generated fleets; share of points outside of their 95% band: "
    alt += ", ".join(f"{name} {100 * _outside(curve):.0f}%" for name, curve in curves._asdict().items()) + "."
    caption = (
        "The record and generated fleets with the same missing rounds: the share of available devices by hour, the"
        " distribution of this share over rounds, and the shares of stays and absences that last longer than x hours"
        " (on a logarithmic scale)."
    )

    def paint(figure: Figure, narrow: bool):
        axes = picture.panels(figure, 4, 1 if narrow else 2)
        _hourly(axes[0], curves.hourly)
        _shares(axes[1], curves.number)
        _survival(axes[2], curves.stays, "Stays longer than")
        _survival(axes[3], curves.absences, "Absences longer than")
        legend(figure, narrow, "95% of generated", "generated mean")

    return picture.picture("generated", alt, caption, (430 + 40, 760 + 40), paint)


def _outside(curve: findings.Rates | findings.RecordedCurve) -> float:
    """The share of known points outside of the band."""
    known = np.isfinite(curve.recorded) & np.isfinite(curve.low)
    with np.errstate(invalid="ignore"):
        outside = (curve.recorded < curve.low - 1e-9) | (curve.recorded > curve.high + 1e-9)
    return float(outside[known].mean()) if known.any() else 0.0


def _hourly(axes: Axes, curve: findings.RecordedCurve) -> None:
    kept = findings.RecordedCurve(*(values[np.isfinite(curve.recorded)] for values in curve))
    banded(axes, kept.x + 0.5, kept)
    of_day(axes)
    axes.set_ylim(bottom=0)
    picture.ticks(axes.yaxis, 4, picture.PERCENT)
    axes.set_title("Share available, by hour", loc="left")


def _shares(axes: Axes, curve: findings.RecordedCurve) -> None:
    banded(axes, (curve.x[:-1] + curve.x[1:]) / 2, curve)
    axes.set_xlim(0, curve.x[-1])
    axes.set_ylim(bottom=0)
    picture.ticks(axes.xaxis, 4, picture.PERCENT)
    picture.ticks(axes.yaxis, 4, picture.PERCENT)
    axes.set_title("Rounds, by share available", loc="left")


def _survival(axes: Axes, curve: findings.RecordedCurve, title: str) -> None:
    """The share of runs that last longer than x hours, on a logarithmic scale, which shows the rare long ones."""
    x = curve.x
    banded(axes, x, findings.RecordedCurve(*(np.maximum(values, 1e-6) for values in curve)))
    axes.set_yscale("log")
    axes.set_ylim(_LEAST, 1.05)
    picture.fixed_ticks(axes.yaxis, (0.01, 0.03, 0.1, 0.3, 1), picture.PERCENT)
    # Up to where nearly all have ended.
    lasting = x[np.fmax(curve.recorded, curve.high) > _LEAST]
    last = min(_MOST_HOURS, float(lasting[-1]) if len(lasting) else _MOST_HOURS)
    axes.set_xlim(0, max(last, float(x[min(1, len(x) - 1)]), 1e-3))
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 3, 4, 6, 10]))
    axes.xaxis.set_major_formatter(HOURS)
    axes.set_title(title, loc="left")
