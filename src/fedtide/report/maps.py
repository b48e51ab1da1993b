"""Figures of clients × rounds: which clients were available, and which were included."""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from fedtide.report import picture
from fedtide.report.clients import RecordedClients
from fedtide.report.svg import INK
from fedtide.statistics import evenly
from fedtide.text import clean, percent, short

_ACROSS, _DOWN = 24, 30  # pixels between panels


class Grid(NamedTuple):
    """The clients and rounds shown: all of them, or a subset if there are too many to draw."""

    rows: np.ndarray  # positions in the fleet that are shown
    rounds: np.ndarray  # rounds that are shown
    kind: np.ndarray  # class of each row
    note: str  # a sentence on what is not shown, or ""


def grid(clients: pl.DataFrame, fleet: RecordedClients) -> Grid:
    """All clients and rounds if they fit, otherwise an evenly spaced subset."""
    every = clients["round"].unique().sort().to_numpy()
    rows = evenly(len(fleet.client), picture.ROWS)
    columns = evenly(len(every), picture.COLUMNS)
    left_out = []
    if len(rows) < len(fleet.client):
        left_out.append(f"{len(rows):,} of {len(fleet.client):,} clients")
    if len(columns) < len(every):
        left_out.append(f"{len(columns):,} of {len(every):,} rounds")
    note = f" Shown: {' and '.join(left_out)}, evenly spaced." if left_out else ""
    return Grid(rows, every[columns], fleet.kind[rows], note)


def matrix(clients: pl.DataFrame, fleet: RecordedClients, shown: Grid, column: str) -> np.ndarray:
    """bool[rows, rounds] of one method and seed."""
    place = pl.DataFrame({"client": fleet.client[shown.rows], "row": np.arange(len(shown.rows))})
    time = pl.DataFrame({"round": shown.rounds, "column": np.arange(len(shown.rounds))})
    place, time = place.cast({"client": clients["client"].dtype}), time.cast({"round": clients["round"].dtype})
    on = clients.filter(pl.col(column)).join(place, on="client").join(time, on="round")
    out = np.zeros((len(shown.rows), len(shown.rounds)), bool)
    out[on["row"].to_numpy(), on["column"].to_numpy()] = True
    return out


def available(clients: pl.DataFrame, fleet: RecordedClients) -> picture.Picture:
    """Available clients under one seed: clients × rounds."""
    first = clients.row(0, named=True)
    one = clients.filter((pl.col("method") == first["method"]) & (pl.col("seed") == first["seed"]))
    shown = grid(one, fleet)
    active = matrix(one, fleet, shown, "active")
    rate = fleet.with_kind(one).group_by("kind").agg(pl.col("active").mean()).sort("kind")["active"]
    rates = [f"{clean(name)}: {percent(r, 0)} of rounds" for name, r in zip(fleet.names, rate, strict=True)]
    alt = f"Map of the available clients in each round. Mean availability: {'; '.join(rates)}."
    caption = (
        f"Available clients under seed {first['seed']}: each row is a client, each column a round; dark means "
        f"available. The trace is the same for all methods.{shown.note}"
    )

    def paint(figure: Figure, narrow: bool):
        axes = figure.subplots()
        _image(axes, [(active, picture.PRESENT, 255)], shown.rounds)
        _bands(axes, shown, fleet, wrap=12 if narrow else 26, width=270 if narrow else 600)
        picture.rounds_below(axes, 4 if narrow else 8)

    return picture.picture("available", alt, caption, (310, 260), paint)


def included(clients: pl.DataFrame, fleet: RecordedClients, methods: list[str]) -> picture.Picture:
    """Clients included by each method under one seed: small multiples of clients × rounds."""
    share = dict(
        clients.group_by("method").agg((pl.col("invited").sum() / pl.col("active").sum()).alias("share")).iter_rows()
    )
    methods = [m for m in methods if m in share]
    runs = clients.group_by("seed").agg(pl.col("method").n_unique()).sort("method", "seed", descending=[True, False])
    seed = runs["seed"][0]
    panels = {}
    one = clients.filter(pl.col("seed") == seed)
    shown = grid(one, fleet)
    methods = [m for m in methods if not one.filter(pl.col("method") == m).is_empty()]
    for method in methods:
        own = one.filter(pl.col("method") == method)
        active, invited = matrix(own, fleet, shown, "active"), matrix(own, fleet, shown, "invited")
        panels[method] = [(active & ~invited, picture.EXCLUDED, 255), (invited, picture.INCLUDED, 255)]
    shares = [f"{clean(m)} {percent(share[m], 0)}" for m in methods]
    alt = f"Maps of the clients that each method included. Share of available clients included: {', '.join(shares)}."
    caption = (
        f"Clients that each method included under seed {seed}, and available clients that it excluded. The percentage "
        "is the share of available clients that were included, over all seeds. The colours at the left mark the "
        f"classes, as above.{shown.note}"
    )

    def panel(axes: Axes, method: str, first: bool, narrow: bool):
        _image(axes, panels[method], shown.rounds)
        _bands(axes, shown, fleet, wrap=17 if first and not narrow else 0, width=140 if narrow else 200)

    legend = [
        Patch(color=picture.INCLUDED, label="included"),
        Patch(color=picture.EXCLUDED, label="available, excluded"),
        Patch(facecolor="none", edgecolor=INK, lw=0.6, label="unavailable"),
    ]
    asides = {m: (share[m], "included") for m in methods}
    several = len(fleet.names) > 1
    return multiples("included", alt, caption, asides, panel, legend, (130 if several else 2, 12 if several else 2))


def multiples(
    name: str,
    alt: str,
    caption: str,
    asides: dict[str, tuple[float, str]],
    panel: Callable[[Axes, str, bool, bool], None],
    legend: list[Any],
    left: tuple[float, float],
) -> picture.Picture:
    """One panel per method, with a share and its meaning beside the name.

    Placed by hand, in pixels, since all panels are alike: `left` is the room at the left of each row, for the wide and
    the narrow layout.
    """
    methods = list(asides)

    def shape(narrow: bool) -> tuple[int, int, int]:
        """Columns, rows, and the height of a panel."""
        columns = min(len(methods), 2 if narrow else 3)
        return columns, -(-len(methods) // columns), 112 if narrow else 150

    def paint(figure: Figure, narrow: bool):
        figure.set_layout_engine("none")
        picture.draw_legend(figure, legend, narrow, at_corner=True)
        columns, rows, height = shape(narrow)
        margin, width, total = left[narrow], picture.NARROW if narrow else picture.WIDE, figure.bbox.height
        panel_width = (width - margin - 14 - (columns - 1) * _ACROSS) / columns
        for n, method in enumerate(methods):
            row, column = divmod(n, columns)
            x, y = margin + column * (panel_width + _ACROSS), 44 + (rows - 1 - row) * (height + _DOWN)
            axes = figure.add_axes((x / width, y / total, panel_width / width, height / total))
            panel(axes, method, column == 0, narrow)
            share, what = asides[method]
            axes.set_title(short(method, 13 if narrow else 15), pad=4)
            aside = percent(share, 0) if narrow else f"{percent(share, 0)} {what}"
            axes.set_title(aside, loc="right", pad=4, fontweight="normal", fontsize=11)
            lowest = n + columns >= len(methods)
            picture.rounds_below(axes, 4, lowest)
            axes.tick_params(labelbottom=lowest)

    sizes = (44 + rows * (height + _DOWN) for _, rows, height in map(shape, (False, True)))
    return picture.picture(name, alt, caption, picture.with_legend([h.get_label() for h in legend], *sizes), paint)


def _image(axes: Axes, layers: list[tuple[np.ndarray, str, int]], rounds: np.ndarray) -> None:
    picture.pixel_map(axes, layers, (rounds[0] - 0.5, rounds[-1] + 0.5, len(layers[0][0]), 0))


def _bands(axes: Axes, shown: Grid, fleet: RecordedClients, wrap: int, width: float) -> None:
    """Lines between the classes of clients, their colours at the side, and their names in lines of `wrap` characters.

    No names where `wrap` is 0. `width` is roughly that of the picture, in pixels.
    """
    edges = np.searchsorted(shown.kind, np.arange(len(fleet.names) + 1))
    axes.set_yticks([])
    for edge in edges[1:-1]:
        axes.axhline(edge, color=INK, lw=0.7, alpha=0.5)
    if len(fleet.names) == 1:
        return
    middles, names = [], []
    for c, (start, stop) in enumerate(itertools.pairwise(edges)):
        bar = Rectangle(
            (-8 / width, start), 5 / width, stop - start, color=picture.class_colour(c), lw=0, clip_on=False
        )
        bar.set_transform(axes.get_yaxis_transform())
        axes.add_patch(bar)
        if wrap and stop - start >= 0.07 * len(shown.rows):
            middles.append((start + stop) / 2)
            names.append(picture.wrapped(fleet.names[c], wrap))
    axes.set_yticks(middles, names)
    axes.tick_params(axis="y", length=0, pad=12)
