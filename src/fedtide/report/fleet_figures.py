"""The figures of a fleet's devices: what each is like, how they differ, when each was here."""

import datetime
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator
from scipy import stats

from fedtide.fleet.model import FleetModel
from fedtide.fleet.slots import DAY, HERE, UNKNOWN, Slots
from fedtide.report.fleet_words import hours, seen, share
from fedtide.report.maps import evenly
from fedtide.report.picture import (
    COLUMNS,
    INCLUDED,
    PERCENT,
    ROWS,
    STEPS,
    Picture,
    draw_legend,
    picture,
)
from fedtide.report.svg import INK, colour

_MOST = 300  # devices of the scatter
_LEAST = 5  # regular devices, for a distribution to be drawn
_KINDS = (("regular", "o", 0), ("seldom", "v", 1), ("always", "^", 2), ("brief", "D", 3))
_UNKNOWN = "#97a1ab"  # stands on white and on black, between both
_HOURS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)


def devices(model: FleetModel) -> Picture | None:
    """π against λ, with 95 % intervals."""
    table = model.devices.filter(pl.col("here") > 0)
    if table.is_empty():
        return None
    total = table.height
    if total > _MOST:
        table = table[evenly(total, _MOST).tolist()]
    shown = {kind: table.filter(pl.col("kind") == kind) for kind, *_ in _KINDS}
    shown = {kind: rows for kind, rows in shown.items() if rows.height}
    told = "; ".join(
        f"{kind}: {rows.height} devices, median π {share(float(np.median(rows['availability'])))}, median λ"
        f" {np.median(rows['correlation']):.2f}"
        for kind, rows in shown.items()
    )
    caption = (
        "Each mark is a device: how often it is here (π), and how much of its state it keeps to the next round (λ)."
        " Thin lines are 95% intervals. A device of which little was seen is taken to be much like the others."
    )
    if total > _MOST:
        caption += f" Shown: {_MOST} of {total:,} devices, evenly chosen."
    never = int((model.devices["here"] == 0).sum())
    caption += f" Not drawn: {never:,} that {'was' if never == 1 else 'were'} never here." if never else ""

    def draw(narrow: bool):
        def paint(figure: Figure):
            axes = figure.subplots()
            for kind, marker, index in _KINDS:
                if kind not in shown:
                    continue
                at = {name: shown[kind][name].to_numpy() for name in shown[kind].columns}
                x, y, faint = at["availability"], at["correlation"], 0.12 if total > 100 else 0.35
                axes.hlines(
                    y, at["availability_low"], at["availability_high"], color=colour(index), lw=0.7, alpha=faint
                )
                axes.vlines(x, at["correlation_low"], at["correlation_high"], color=colour(index), lw=0.7, alpha=faint)
                axes.plot(x, y, marker, color=colour(index), ms=4 if total > 60 else 5.5, mew=0, alpha=0.9)
            axes.set_xlim(0, 1 if table["availability_high"].to_numpy().max() > 0.8 else None)
            axes.set_ylim(np.floor(10 * table["correlation_low"].to_numpy().min()) / 10, 1)
            axes.xaxis.set_major_formatter(PERCENT)
            axes.xaxis.set_major_locator(MaxNLocator(5, steps=STEPS))
            axes.grid(color=INK, alpha=0.12, lw=0.7)
            axes.set_xlabel("Share of rounds here, π")
            axes.set_ylabel("Correlation to the next round, λ")
            if len(shown) > 1:
                handles = [
                    Line2D([], [], color=colour(i), marker=m, ms=6, lw=0, label=k) for k, m, i in _KINDS if k in shown
                ]
                draw_legend(figure, handles, narrow)

        return 330 if narrow else 400, paint

    return picture("devices", f"Availability against persistence. {told}.", caption, draw)


def differences(model: FleetModel) -> Picture | None:
    """How π and the relaxation time differ between devices, with the fitted distributions."""
    known = seen(model)
    regular = model.devices.filter(pl.col("kind") == "regular")
    if regular.height < _LEAST:
        return None
    fleet = model.distribution
    (a, b), (middle, sigma) = fleet.beta, fleet.hours
    caption = (
        f"How devices differ, by device (bars) and as fitted (lines). Share of rounds here: Beta({a:.2f}, {b:.2f}),"
        f" standard errors {fleet.beta_se[0]:.2f} and {fleet.beta_se[1]:.2f}. Time in which a state is forgotten:"
        f" lognormal, median {middle:.2f} h, σ = {sigma:.2f} (standard errors {fleet.hours_se[0]:.2f} and"
        f" {fleet.hours_se[1]:.2f}). Lines are wider than bars where little is known of each device."
    )
    alt = (
        f"Distributions over devices. Share of rounds here: median {share(float(np.median(known['availability'])))},"
        f" Beta({a:.2f}, {b:.2f}). Time in which a state is forgotten: median {hours(middle)}."
    )
    pi, tau = known["availability"].to_numpy(), np.maximum(regular["hours"].to_numpy(), 1e-3)

    def draw(narrow: bool):
        def paint(figure: Figure):
            left, right = np.ravel(figure.subplots(*((2, 1) if narrow else (1, 2))))
            edges = np.linspace(0, min(1, max(0.2, 1.1 * pi.max(), stats.beta.ppf(0.99, a, b))), 25)
            _bars(left, pi, edges)
            x = np.linspace(edges[0], edges[-1], 200)[1:-1]
            left.plot(x, stats.beta.pdf(x, a, b) * np.diff(edges)[0], color=INK, lw=1.5)
            left.set_xlim(edges[0], edges[-1])
            left.xaxis.set_major_formatter(PERCENT)
            left.xaxis.set_major_locator(MaxNLocator(5, steps=STEPS))
            left.set_title("Share of rounds here, π", loc="left")
            low = min(tau.min(), middle * np.exp(-2.5 * sigma))
            edges = np.geomspace(low, max(tau.max(), middle * np.exp(2.5 * sigma)) * 1.001, 25)
            _bars(right, tau, edges)
            x = np.geomspace(edges[0], edges[-1], 200)
            line = stats.norm.pdf(np.log(x), np.log(middle), max(sigma, 1e-3)) * np.diff(np.log(edges))[0]
            right.plot(x, line, color=INK, lw=1.5)
            right.set_xscale("log")
            right.xaxis.set_major_locator(FixedLocator(list(_HOURS)))
            right.xaxis.set_minor_locator(NullLocator())
            right.xaxis.set_major_formatter(FuncFormatter(lambda h, _: f"{h:g} h"))
            right.set_title("Forgotten in", loc="left")
            for axes in (left, right):
                axes.yaxis.set_major_formatter(PERCENT)
                axes.yaxis.set_major_locator(MaxNLocator(4, steps=STEPS))
                axes.grid(axis="y", color=INK, alpha=0.12, lw=0.7)
                axes.set_ylim(bottom=0)
            left.set_ylabel("Share of devices")
            handles = [Patch(color=colour(0), alpha=0.55, label="devices"), Line2D([], [], color=INK, label="fitted")]
            draw_legend(figure, handles, narrow)

        return 430 if narrow else 250, paint

    return picture("differences", alt, caption, draw)


def _bars(axes: Axes, values: np.ndarray, edges: np.ndarray) -> None:
    height, _ = np.histogram(values, edges)
    axes.bar(edges[:-1], height / len(values), np.diff(edges), align="edge", color=colour(0), alpha=0.55, lw=0)


def presence(model: FleetModel) -> Picture:
    """Devices × rounds: here, away, not observed."""
    rounds, total = model.record.shape
    order = np.argsort(-model.devices["availability"].to_numpy(), kind="stable")
    rows, columns = order[evenly(total, ROWS)], evenly(rounds, COLUMNS)
    state = model.record[np.ix_(columns, rows)].T
    pixels = np.zeros((*state.shape, 4), np.uint8)
    pixels[state == HERE] = [*bytes.fromhex(INCLUDED[1:]), 255]
    pixels[state == UNKNOWN] = [*bytes.fromhex(_UNKNOWN[1:]), 90]
    left_out = [f"{len(rows):,} of {total:,} devices"] if len(rows) < total else []
    left_out += [f"{len(columns):,} of {rounds:,} rounds"] if len(columns) < rounds else []
    caption = "Who was here when: a row is a device, the most available at the top."
    caption += f" Shown: {' and '.join(left_out)}, evenly chosen." if left_out else ""
    unknown = float((model.record == UNKNOWN).mean())
    here = float((model.record == HERE).sum() / max(1, (model.record != UNKNOWN).sum()))
    alt = (
        f"Picture of {total} devices over {rounds} rounds: here in {share(here)} of what was observed; {share(unknown)}"
        " of the picture was not observed."
    )

    def draw(narrow: bool):
        def paint(figure: Figure):
            axes = figure.subplots()
            extent = (0, rounds * model.round_seconds / DAY, len(rows), 0)
            axes.imshow(pixels, interpolation="none", aspect="auto", extent=extent)
            for side in axes.spines.values():
                side.set_visible(True)
                side.set_alpha(0.35)
            axes.set_yticks([])
            axes.set_ylabel("Devices")
            over_days(axes, model, 3 if narrow else 8)
            handles = [
                Patch(color=INCLUDED, label="here"),
                Patch(facecolor="none", edgecolor=INK, lw=0.6, label="away"),
                Patch(facecolor=_UNKNOWN, alpha=0.4, label="not observed"),
            ]
            draw_legend(figure, handles, narrow)

        few = min(1.0, 0.45 + len(rows) / 100)
        return (280 if narrow else 340) * few + 30, paint

    return picture("presence", alt, caption, draw)


def over_days(axes: Axes, model: FleetModel, most: int) -> None:
    """An axis of days since the record began, marked at midnights, by date where there is one."""
    last = len(model.record) * model.round_seconds / DAY
    axes.set_xlim(0, last)
    slots = Slots(model.record[:1], (), model.round_seconds, model.start, model.zone)
    first = (-int(slots.seconds[0]) % DAY) / DAY
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
    axes.set_xlabel("Midnight before day" if model.zone is None else f"Midnight, {model.zone}")
