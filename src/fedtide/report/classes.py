"""Figures by class of client: shares of the weight, final accuracy."""

from typing import NamedTuple

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fedtide import summaries
from fedtide.report import picture
from fedtide.report.clients import RecordedClients
from fedtide.report.maps import multiples
from fedtide.report.svg import INK, colour
from fedtide.statistics import evenly
from fedtide.text import clean, percent, short


class Shares(NamedTuple):
    """How the weight given by a method was distributed over the classes."""

    round: np.ndarray  # [T]
    share: np.ndarray  # [T, classes] of all weight given so far, over all seeds

    def misplaced(self, target: np.ndarray) -> float:
        """Total variation distance between the final shares and the target: the share given to the wrong class."""
        return float(0.5 * np.abs(self.share[-1] - target).sum())


def shares(clients: pl.DataFrame, fleet: RecordedClients) -> dict[str, Shares]:
    """Cumulative weight by class, for each method that gave any."""
    per_round = (
        fleet.with_kind(clients.select("method", "round", "client", "weight"))
        .group_by("method", "round", "kind")
        .agg(pl.col("weight").cast(pl.Float64).sum())
    )
    by_method = {}
    for (method,), table in per_round.group_by("method"):
        times = table["round"].unique().sort().to_numpy()
        given = np.zeros((len(times), len(fleet.names)))
        given[np.searchsorted(times, table["round"].to_numpy()), table["kind"].to_numpy()] = table["weight"].to_numpy()
        total = given.cumsum(0)
        some = total.sum(1) > 0
        if some.any():
            total, times = total[some], times[some]
            kept = evenly(len(times), picture.POINTS)
            by_method[str(method)] = Shares(times[kept], (total / total.sum(1, keepdims=True))[kept])
    return by_method


def importance(clients: pl.DataFrame, fleet: RecordedClients, methods: list[str]) -> picture.Picture | None:
    """Cumulative share of the weight of each class of clients, against its target."""
    by_method = shares(clients, fleet)
    methods = [m for m in methods if m in by_method]
    if not methods or len(fleet.names) < 2:
        return None
    off = {m: by_method[m].misplaced(fleet.target) for m in methods}
    ends = [f"{clean(m)} {percent(off[m], 0)}" for m in methods]
    alt = f"Line charts of each class's share of all weight. Share given to the wrong class: {', '.join(ends)}."
    caption = (
        "Cumulative share of the weight of each class of clients; the dashed line is the target. The "
        "percentage is the share given to the wrong class by the end (total variation distance from the target)."
    )
    equal = np.ptp(fleet.target) < 1e-6
    top = min(1.0, 1.08 * max(fleet.target.max(), *(by_method[m].share.max() for m in methods)))

    last = max(by_method[m].round[-1] for m in methods)

    def panel(axes: Axes, method: str, first: bool, narrow: bool):
        for c, target in enumerate(fleet.target[:1] if equal else fleet.target):
            axes.axhline(target, color=INK if equal else picture.class_colour(c), ls=(0, (3, 2.5)), lw=1.1, alpha=0.8)
        for c in range(len(fleet.names)):
            axes.plot(by_method[method].round, by_method[method].share[:, c], color=picture.class_colour(c), lw=1.9)
        axes.set_ylim(0, top)
        axes.set_xlim(0, last)
        picture.level_lines(axes, 4, picture.PERCENT)
        axes.tick_params(labelleft=first)

    legend = [
        Line2D([], [], color=picture.class_colour(c), lw=2.2, label=short(k, 40)) for c, k in enumerate(fleet.names)
    ]
    legend.append(Line2D([], [], color=INK, lw=1.1, ls=(0, (3, 2.5)), label="target"))
    asides = {m: (off[m], "misplaced") for m in methods}
    return multiples("importance", alt, caption, asides, panel, legend, (42, 42))


def class_accuracy(clients: pl.DataFrame, fleet: RecordedClients) -> pl.DataFrame:
    """Final test accuracy, averaged over clients: one row per method, seed and class (`kind`)."""
    return (
        fleet.with_kind(summaries.final_clients(clients))
        .group_by("method", "seed", "kind")
        .agg(accuracy=pl.col("test_accuracy").mean())
    )


def by_class(accuracy: pl.DataFrame, fleet: RecordedClients, methods: list[str]) -> picture.Picture | None:
    """Final test accuracy of each class of clients under each method."""
    every = list(methods)
    methods = [m for m in methods if m in set(accuracy["method"])]
    if not methods:
        return None
    table = accuracy.group_by("method", "kind").agg(**picture.over_seeds("accuracy"))
    ends = {(m, k): (mean, low, high) for m, k, mean, low, high in table.iter_rows()}
    kinds = [k for k in range(len(fleet.names)) if any((m, k) in ends for m in methods)]
    means = "; ".join(
        f"{clean(fleet.names[k])}: "
        + ", ".join(f"{clean(m)} {percent(ends[m, k][0])}" for m in methods if (m, k) in ends)
        for k in kinds
    )
    alt = f"Dot chart of the final test accuracy by class of client. {means}."
    several = accuracy["seed"].n_unique() > 1
    caption = "Final test accuracy on the clients' own data, averaged over the clients of each class."
    if several:
        caption += " Dots are means over seeds; whiskers span the middle 80% of the seeds."

    def paint(figure: Figure, narrow: bool):
        axes = figure.subplots()
        heights = picture.grouped_rows(axes, [fleet.names[k] for k in kinds], len(methods), narrow)
        for k, own in zip(kinds, heights, strict=True):
            for y, m in zip(own, (m for m in methods if (m, k) in ends), strict=False):
                (mean, low, high), i = ends[m, k], every.index(m)
                axes.plot([low, high], [y, y], color=colour(i), lw=1.6, alpha=0.75)
                axes.plot([mean], [y], "o", color=colour(i), ms=6)
        axes.set_xlabel("Test accuracy")
        picture.draw_legend(figure, [picture.dot(every.index(m), short(m, 20), lw=1.6) for m in methods], narrow)

    heights = picture.grouped_heights([short(m, 20) for m in methods], len(methods), len(kinds))
    return picture.picture("by-class", alt, caption, heights, paint)
