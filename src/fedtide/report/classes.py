"""By class of client: shares of importance, accuracy at the end."""

from typing import NamedTuple

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from fedtide.report import statistics
from fedtide.report.clients import Fleet
from fedtide.report.maps import evenly, multiples, wrapped
from fedtide.report.picture import PERCENT, POINTS, STEPS, Picture, class_colour, draw_legend, legend_height, picture
from fedtide.report.svg import INK, colour
from fedtide.report.words import clean, percent, short


class Shares(NamedTuple):
    """How the weight of a method was spread over the classes."""

    round: np.ndarray  # [T]
    share: np.ndarray  # [T, classes] of all the weight given so far, all seeds together

    def misplaced(self, target: np.ndarray) -> float:
        """Total variation between the final shares and the target: the weight that sits with the wrong class."""
        return float(0.5 * np.abs(self.share[-1] - target).sum())


def shares(clients: pl.DataFrame, fleet: Fleet) -> dict[str, Shares]:
    """Cumulative importance by class, for each method that gave any."""
    per_round = (
        fleet.with_kind(clients.select("method", "round", "client", "weight"))
        .group_by("method", "round", "kind")
        .agg(pl.col("weight").cast(pl.Float64).sum())
    )
    found = {}
    for (method,), table in per_round.group_by("method"):
        times = table["round"].unique().sort().to_numpy()
        given = np.zeros((len(times), len(fleet.names)))
        given[np.searchsorted(times, table["round"].to_numpy()), table["kind"].to_numpy()] = table["weight"].to_numpy()
        total = given.cumsum(0)
        some = total.sum(1) > 0
        if some.any():
            total, times = total[some], times[some]
            kept = evenly(len(times), POINTS)
            found[str(method)] = Shares(times[kept], (total / total.sum(1, keepdims=True))[kept])
    return found


def importance(clients: pl.DataFrame, fleet: Fleet, methods: list[str]) -> Picture | None:
    """Cumulative importance of each class of clients, against its target."""
    found = shares(clients, fleet)
    methods = [m for m in methods if m in found]
    if not methods or len(fleet.names) < 2:
        return None
    off = {m: found[m].misplaced(fleet.target) for m in methods}
    told = [f"{clean(m)} {percent(off[m], 0)}" for m in methods]
    alt = (
        f"Line charts of each class's share of the weight given so far. Weight with the wrong class: {', '.join(told)}."
    )
    caption = (
        "Cumulative importance: the share of all weight given so far that went to each class of clients; dashed, the "
        "target. The percentage is the weight that ends with the wrong class (total variation from the target)."
    )
    equal = np.ptp(fleet.target) < 1e-6
    top = min(1.0, 1.08 * max(fleet.target.max(), *(found[m].share.max() for m in methods)))

    last = max(found[m].round[-1] for m in methods)

    def panel(axes: Axes, method: str, first: bool, narrow: bool):
        for c, target in enumerate(fleet.target[:1] if equal else fleet.target):
            axes.axhline(target, color=INK if equal else class_colour(c), ls=(0, (3, 2.5)), lw=1.1, alpha=0.8)
        for c in range(len(fleet.names)):
            axes.plot(found[method].round, found[method].share[:, c], color=class_colour(c), lw=1.9)
        axes.set_ylim(0, top)
        axes.set_xlim(0, last)
        axes.yaxis.set_major_formatter(PERCENT)
        axes.yaxis.set_major_locator(MaxNLocator(4, steps=STEPS))
        axes.tick_params(labelleft=first)
        axes.grid(axis="y", color=INK, alpha=0.12, lw=0.7)

    def legend():
        lines = [Line2D([], [], color=class_colour(c), lw=2.2, label=short(k, 40)) for c, k in enumerate(fleet.names)]
        return [*lines, Line2D([], [], color=INK, lw=1.1, ls=(0, (3, 2.5)), label="target")]

    asides = {m: (off[m], "misplaced") for m in methods}
    return multiples("importance", alt, caption, asides, panel, legend, (42, 42))


def class_accuracy(clients: pl.DataFrame, fleet: Fleet) -> pl.DataFrame:
    """Mean over clients of their final test accuracy: one row a method, seed and class (`kind`)."""
    return (
        fleet.with_kind(statistics.final_clients(clients))
        .group_by("method", "seed", "kind")
        .agg(accuracy=pl.col("test_accuracy").mean())
    )


def by_class(accuracy: pl.DataFrame, fleet: Fleet, methods: list[str]) -> Picture | None:
    """Final test accuracy of each class of clients under each method."""
    every = list(methods)
    methods = [m for m in methods if m in set(accuracy["method"])]
    if not methods:
        return None
    over_seeds = pl.col("accuracy")
    table = accuracy.group_by("method", "kind").agg(
        mean=over_seeds.mean(), low=over_seeds.quantile(0.1, "linear"), high=over_seeds.quantile(0.9, "linear")
    )
    found = {(m, k): (mean, low, high) for m, k, mean, low, high in table.iter_rows()}
    kinds = [k for k in range(len(fleet.names)) if any((m, k) in found for m in methods)]
    told = "; ".join(
        f"{clean(fleet.names[k])}: "
        + ", ".join(f"{clean(m)} {percent(found[m, k][0])}" for m in methods if (m, k) in found)
        for k in kinds
    )
    alt = f"Dot chart of the final test accuracy by class of client. {told}."
    several = accuracy["seed"].n_unique() > 1
    caption = "Final test accuracy on the clients' own data, as the mean over the clients of a class."
    if several:
        caption += " Dots are means over seeds; whiskers hold the middle 80% of the seeds."

    def draw(narrow: bool):
        slot = 12 if narrow else 13
        band = slot * len(methods) + 16

        def paint(figure: Figure):
            axes = figure.subplots()
            for place, k in enumerate(kinds):
                top = place * band
                if place % 2 == 0 and len(kinds) > 1:
                    axes.axhspan(top, top + band, color=INK, alpha=0.05, lw=0)
                for row, m in enumerate(m for m in methods if (m, k) in found):
                    mean, low, high = found[m, k]
                    y, i = top + 8 + slot * (row + 0.5), every.index(m)
                    axes.plot([low, high], [y, y], color=colour(i), lw=1.6, alpha=0.75)
                    axes.plot([mean], [y], "o", color=colour(i), ms=6)
            axes.set_ylim(len(kinds) * band, 0)
            names = [wrapped(fleet.names[k], 14 if narrow else 24) for k in kinds]
            axes.set_yticks([(p + 0.5) * band for p in range(len(kinds))], names)
            axes.tick_params(axis="y", length=0)
            axes.spines["left"].set_visible(False)
            axes.grid(axis="x", color=INK, alpha=0.14, lw=0.7)
            axes.xaxis.set_major_locator(MaxNLocator(4 if narrow else 7, steps=STEPS))
            axes.xaxis.set_major_formatter(PERCENT)
            axes.set_xlabel("Test accuracy")
            handles = [
                Line2D([], [], color=colour(every.index(m)), marker="o", ms=6, lw=1.6, label=short(m, 20))
                for m in methods
            ]
            draw_legend(figure, handles, narrow)

        room = legend_height([short(m, 20) for m in methods], narrow)
        return 50 + room + band * len(kinds), paint

    return picture("by-class", alt, caption, draw)
