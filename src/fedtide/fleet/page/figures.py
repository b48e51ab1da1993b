"""Figures of the devices of a fleet: π and λ of each, their distributions, and when each was available."""

import datetime
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter
from scipy import stats

from fedtide.fleet.diagnosis.findings import NumberFigure, RecordedCurve, RecurrenceFigure
from fedtide.fleet.model import FleetModel
from fedtide.fleet.page.words import hours, judged, share
from fedtide.fleet.slots import DAY, HERE, UNKNOWN
from fedtide.report import picture
from fedtide.report.maps import evenly
from fedtide.report.svg import INK, colour
from fedtide.text import count

HOURS = FuncFormatter(lambda h, _: f"{h:g} h")
NUMBERS = FuncFormatter(lambda x, _: f"{round(x, 9):g}".replace("-", "−"))
_MOST = 300  # devices of the scatter
_LEAST = 5  # regular devices, for a distribution to be drawn
_KINDS = (("regular", "o", 0), ("seldom", "v", 1), ("always", "^", 2), ("brief", "D", 3))
_UNKNOWN = "#97a1ab"  # visible on white and on black
_HOURS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)


def devices(model: FleetModel) -> picture.Picture | None:
    """π against λ, with 95 % intervals."""
    table = model.devices.filter(pl.col("here") > 0)
    if table.is_empty():
        return None
    total = table.height
    if total > _MOST:
        table = table[evenly(total, _MOST).tolist()]
    groups = [(kind, marker, i, table.filter(pl.col("kind") == kind)) for kind, marker, i in _KINDS]
    groups = [group for group in groups if group[-1].height]
    text = "; ".join(
        f"{kind}: {rows.height} devices, median π {share(float(np.median(rows['availability'])))}, median λ"
        f" {np.median(rows['correlation']):.2f}"
        for kind, *_, rows in groups
    )
    caption = (
        "Each mark is a device: its availability (π) and the correlation of its state from one round to the next (λ)."
        " Thin lines are 95% intervals. Estimates from few observations are shrunk towards the fleet's distribution."
    )
    if total > _MOST:
        caption += f" Shown: {_MOST} of {total:,} devices, evenly chosen."
    never = int((model.devices["here"] == 0).sum())
    if never:
        caption += f" Not drawn: {count(never, 'device')} that {'was' if never == 1 else 'were'} never available."

    def paint(figure: Figure, narrow: bool):
        axes = figure.subplots()
        for _, marker, index, rows in groups:
            at = {name: rows[name].to_numpy() for name in rows.columns}
            x, y, faint = at["availability"], at["correlation"], 0.12 if total > 100 else 0.35
            axes.hlines(y, at["availability_low"], at["availability_high"], color=colour(index), lw=0.7, alpha=faint)
            axes.vlines(x, at["correlation_low"], at["correlation_high"], color=colour(index), lw=0.7, alpha=faint)
            axes.plot(x, y, marker, color=colour(index), ms=4 if total > 60 else 5.5, mew=0, alpha=0.9)
        axes.set_xlim(0, 1 if table["availability_high"].to_numpy().max() > 0.8 else None)
        axes.set_ylim(np.floor(10 * table["correlation_low"].to_numpy().min()) / 10, 1)
        picture.ticks(axes.xaxis, 5, picture.PERCENT)
        picture.grid(axes)
        axes.set_xlabel("Availability π")
        axes.set_ylabel("Correlation to the next round, λ")
        if len(groups) > 1:
            handles = [Line2D([], [], color=colour(i), marker=m, ms=6, lw=0, label=k) for k, m, i, _ in groups]
            picture.draw_legend(figure, handles, narrow)

    return picture.picture("devices", f"Availability against persistence. {text}.", caption, (400, 330), paint)


def differences(model: FleetModel) -> picture.Picture | None:
    """How π and the relaxation time differ between devices, with the fitted distributions."""
    known = judged(model)
    regular = model.devices.filter(pl.col("kind") == "regular")
    if regular.height < _LEAST:
        return None
    fleet = model.distribution
    (a, b), (middle, sigma) = fleet.beta, fleet.hours
    caption = (
        f"Distributions over devices: estimates (bars) and fit (lines). Availability: Beta({a:.2f}, {b:.2f}),"
        f" standard errors {fleet.beta_se[0]:.2f} and {fleet.beta_se[1]:.2f}. Relaxation time:"
        f" lognormal, median {middle:.2f} h, σ = {sigma:.2f} (standard errors {fleet.hours_se[0]:.2f} and"
        f" {fleet.hours_se[1]:.2f}). The fit is wider than the bars where records are short."
    )
    alt = (
        f"Distributions over devices. Availability: median {share(float(np.median(known['availability'])))},"
        f" Beta({a:.2f}, {b:.2f}). Relaxation time: median {hours(middle)}."
    )
    pi, tau = known["availability"].to_numpy(), np.maximum(regular["hours"].to_numpy(), 1e-3)

    def paint(figure: Figure, narrow: bool):
        left, right = picture.panels(figure, 2, 1 if narrow else 2)
        edges = np.linspace(0, min(1, max(0.2, 1.1 * pi.max(), stats.beta.ppf(0.99, a, b))), 25)
        _bars(left, pi, edges)
        x = np.linspace(edges[0], edges[-1], 200)[1:-1]
        left.plot(x, stats.beta.pdf(x, a, b) * np.diff(edges)[0], color=INK, lw=1.5)
        left.set_xlim(edges[0], edges[-1])
        picture.ticks(left.xaxis, 5, picture.PERCENT)
        left.set_title("Availability π", loc="left")
        low = min(tau.min(), middle * np.exp(-2.5 * sigma))
        edges = np.geomspace(low, max(tau.max(), middle * np.exp(2.5 * sigma)) * 1.001, 25)
        _bars(right, tau, edges)
        x = np.geomspace(edges[0], edges[-1], 200)
        line = stats.norm.pdf(np.log(x), np.log(middle), max(sigma, 1e-3)) * np.diff(np.log(edges))[0]
        right.plot(x, line, color=INK, lw=1.5)
        right.set_xscale("log")
        picture.fixed_ticks(right.xaxis, _HOURS, HOURS)
        right.set_title("Relaxation time", loc="left")
        for axes in (left, right):
            picture.level_lines(axes, 4, picture.PERCENT)
            axes.set_ylim(bottom=0)
        left.set_ylabel("Share of devices")
        handles = [Patch(color=colour(0), alpha=0.55, label="devices"), Line2D([], [], color=INK, label="fitted")]
        picture.draw_legend(figure, handles, narrow)

    return picture.picture("differences", alt, caption, (250, 430), paint)


def _bars(axes: Axes, values: np.ndarray, edges: np.ndarray) -> None:
    height, _ = np.histogram(values, edges)
    axes.bar(edges[:-1], height / len(values), np.diff(edges), align="edge", color=colour(0), alpha=0.55, lw=0)


def presence(model: FleetModel) -> picture.Picture:
    """Devices × rounds: available, unavailable, not observed."""
    rounds, total = model.record.shape
    order = np.argsort(-model.devices["availability"].to_numpy(), kind="stable")
    rows, columns = order[evenly(total, picture.ROWS)], evenly(rounds, picture.COLUMNS)
    state = model.record[np.ix_(columns, rows)].T
    left_out = [f"{len(rows):,} of {total:,} devices"] if len(rows) < total else []
    left_out += [f"{len(columns):,} of {rounds:,} rounds"] if len(columns) < rounds else []
    caption = "When each device was available: a row is a device, the most available at the top."
    caption += f" Shown: {' and '.join(left_out)}, evenly chosen." if left_out else ""
    unknown = float((model.record == UNKNOWN).mean())
    available = float((model.record == HERE).sum() / max(1, (model.record != UNKNOWN).sum()))
    alt = (
        f"Picture of {total} devices over {rounds} rounds: available in {share(available)} of the observed entries;"
        f" {share(unknown)} of all entries were not observed."
    )

    def paint(figure: Figure, narrow: bool):
        axes = figure.subplots()
        layers = [(state == HERE, picture.INCLUDED, 255), (state == UNKNOWN, _UNKNOWN, 90)]
        picture.pixel_map(axes, layers, (0, rounds * model.round_seconds / DAY, len(rows), 0))
        axes.set_yticks([])
        axes.set_ylabel("Devices")
        over_days(axes, model, 3 if narrow else 8)
        handles = [
            Patch(color=picture.INCLUDED, label="available"),
            Patch(facecolor="none", edgecolor=INK, lw=0.6, label="unavailable"),
            Patch(facecolor=_UNKNOWN, alpha=0.4, label="not observed"),
        ]
        picture.draw_legend(figure, handles, narrow)

    few = min(1.0, 0.45 + len(rows) / 100)
    return picture.picture("presence", alt, caption, (340 * few + 30, 280 * few + 30), paint)


def over_days(axes: Axes, model: FleetModel, most: int) -> None:
    """An axis of days since the record began, marked at midnights, by date where there is one."""
    last = len(model.record) * model.round_seconds / DAY
    axes.set_xlim(0, last)
    first = (-int(model.slots.seconds[0]) % DAY) / DAY
    midnights = np.arange(first, last, 1.0)
    if len(midnights) < 2:
        axes.xaxis.set_major_locator(MaxNLocator(most, steps=[1, 2, 3, 6, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda day, _: f"{24 * day:.3g}"))
        axes.set_xlabel("Hours since the record began")
        return
    shown = midnights[:: -(-len(midnights) // most)]
    names = [f"{round(day - first) + 1 + (first > 0)}" for day in shown]
    if model.zone is not None:
        zone = ZoneInfo(model.zone)
        # An hour past midnight: the day is the same where the clock changed by an hour in between.
        dates = [datetime.datetime.fromtimestamp(model.start + DAY * day + 5400, zone) for day in shown]
        names = [f"{date.day} {date:%b}" for date in dates]
    axes.set_xticks(shown, names)
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("Day (ticks at midnight)" if model.zone is None else f"Midnight, {model.zone}")


def of_day(axes: Axes) -> None:
    axes.set_xlim(0, 24)
    axes.set_xticks([0, 6, 12, 18, 24], [f"{h} h" for h in (0, 6, 12, 18, 24)])


def against_chance(axes: Axes, y: float, value: float, low: float, high: float) -> None:
    """A dot and, behind it, the range that chance gives; the dot changes its colour and shape outside of it."""
    if np.isfinite(low) and np.isfinite(high):
        axes.plot([low, high], [y, y], color=INK, alpha=0.22, lw=9, solid_capstyle="butt")
    if np.isfinite(value):
        inside = low <= value <= high
        axes.plot([value], [y], "o" if inside else "D", color=colour(0 if inside else 1), ms=7 if inside else 6.5)


def banded(axes: Axes, x: np.ndarray, curve: RecordedCurve | RecurrenceFigure | NumberFigure) -> None:
    """The record, and the range of what it is compared with."""
    axes.fill_between(x, curve.low, curve.high, color=INK, alpha=0.16, lw=0)
    axes.plot(x, curve.middle, color=INK, lw=1.1, ls=(0, (4, 2)), alpha=0.75)
    axes.plot(x, curve.recorded, color=colour(0), lw=1.9)
    picture.grid(axes, "y")


def legend(figure: Figure, narrow: bool, band: str, middle: str) -> None:
    """Of `banded`."""
    handles = [
        Line2D([], [], color=colour(0), lw=1.9, label="recorded"),
        Line2D([], [], color=INK, lw=1.1, ls=(0, (4, 2)), alpha=0.75, label=middle),
        Patch(color=INK, alpha=0.16, lw=0, label=band),
    ]
    picture.draw_legend(figure, handles, narrow)
