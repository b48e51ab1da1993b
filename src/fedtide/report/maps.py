"""Clients × rounds: who was there, who was included."""

import itertools
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from fedtide.report.clients import Fleet
from fedtide.report.picture import (
    COLUMNS,
    EXCLUDED,
    INCLUDED,
    NARROW,
    PRESENT,
    ROWS,
    STEPS,
    WIDE,
    Picture,
    class_colour,
    draw_legend,
    legend_height,
    picture,
)
from fedtide.report.svg import INK
from fedtide.report.words import clean, percent, short


class Grid(NamedTuple):
    """Clients × rounds, thinned to what a picture can show."""

    rows: np.ndarray  # positions in the fleet that are shown
    rounds: np.ndarray  # rounds that are shown
    kind: np.ndarray  # class of each row
    note: str  # what was left out, as a sentence, or ""


def grid(clients: pl.DataFrame, fleet: Fleet) -> Grid:
    """All clients and rounds where they fit, evenly chosen ones where not."""
    every = clients["round"].unique().sort().to_numpy()
    rows = evenly(len(fleet.client), ROWS)
    columns = evenly(len(every), COLUMNS)
    left_out = []
    if len(rows) < len(fleet.client):
        left_out.append(f"{len(rows):,} of {len(fleet.client):,} clients")
    if len(columns) < len(every):
        left_out.append(f"{len(columns):,} of {len(every):,} rounds")
    note = f" Shown: {' and '.join(left_out)}, evenly chosen." if left_out else ""
    return Grid(rows, every[columns], fleet.kind[rows], note)


def matrix(clients: pl.DataFrame, fleet: Fleet, shown: Grid, column: str) -> np.ndarray:
    """bool[rows, rounds] of one method and seed."""
    place = pl.DataFrame({"client": fleet.client[shown.rows], "row": np.arange(len(shown.rows))})
    time = pl.DataFrame({"round": shown.rounds, "column": np.arange(len(shown.rounds))})
    place, time = place.cast({"client": clients["client"].dtype}), time.cast({"round": clients["round"].dtype})
    on = clients.filter(pl.col(column)).join(place, on="client").join(time, on="round")
    out = np.zeros((len(shown.rows), len(shown.rounds)), bool)
    out[on["row"].to_numpy(), on["column"].to_numpy()] = True
    return out


def available(clients: pl.DataFrame, fleet: Fleet) -> Picture:
    """Who was there, under one seed: clients × rounds."""
    first = clients.row(0, named=True)
    one = clients.filter((pl.col("method") == first["method"]) & (pl.col("seed") == first["seed"]))
    shown = grid(one, fleet)
    here = matrix(one, fleet, shown, "active")
    rate = fleet.with_kind(one).group_by("kind").agg(pl.col("active").mean()).sort("kind")["active"]
    rates = [f"{clean(name)}: {percent(r, 0)} of the rounds" for name, r in zip(fleet.names, rate, strict=True)]
    alt = f"Picture of who was available in each round. Available on average: {'; '.join(rates)}."
    caption = (
        f"Who was available under seed {first['seed']}: a row is a client, a column a round, a mark means there. "
        f"All methods met the same trace.{shown.note}"
    )

    def draw(narrow: bool):
        def paint(figure: Figure):
            axes = figure.subplots()
            _image(axes, [(here, PRESENT)], shown.rounds)
            _bands(axes, shown, fleet, wrap=12 if narrow else 26, width=270 if narrow else 600)
            axes.xaxis.set_major_locator(MaxNLocator(4 if narrow else 8, integer=True, steps=STEPS))
            axes.set_xlabel("Round")

        return 260 if narrow else 310, paint

    return picture("available", alt, caption, draw)


def included(clients: pl.DataFrame, fleet: Fleet, methods: list[str]) -> Picture:
    """Whom each method included, under one seed: small multiples of clients × rounds."""
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
        here, asked = matrix(own, fleet, shown, "active"), matrix(own, fleet, shown, "invited")
        panels[method] = (here & ~asked, asked)
    told = [f"{clean(m)} {percent(share[m], 0)}" for m in methods]
    alt = f"Pictures of whom each method included in each round. Share of the available included: {', '.join(told)}."
    caption = (
        f"Whom each method included under seed {seed}, and whom it left out though available. "
        "The percentage is the share of the available that were included, over all seeds. The colours at the side mark "
        f"the classes as above.{shown.note}"
    )

    def panel(axes: Axes, method: str, first: bool, narrow: bool):
        _image(axes, [(panels[method][0], EXCLUDED), (panels[method][1], INCLUDED)], shown.rounds)
        _bands(axes, shown, fleet, wrap=17 if first and not narrow else 0, width=140 if narrow else 200)

    def legend():
        return [
            Patch(color=INCLUDED, label="included"),
            Patch(color=EXCLUDED, label="available, left out"),
            Patch(facecolor="none", edgecolor=INK, lw=0.6, label="absent"),
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
    legend: Callable[[], list[Any]],
    left: tuple[float, float],
) -> Picture:
    """A panel for each method, with a share and what it is a share of beside its name.

    Placed by hand, in pixels, since all panels are alike: `left` is the room at the left of each row, for the wide and
    the narrow layout.
    """
    methods = list(asides)

    def draw(narrow: bool):
        columns = min(len(methods), 2 if narrow else 3)
        rows = -(-len(methods) // columns)
        width, height, across, down, margin = NARROW if narrow else WIDE, 112 if narrow else 150, 24, 30, left[narrow]
        handles = legend()
        top = 30 + legend_height([h.get_label() for h in handles], narrow)
        total = top + rows * height + (rows - 1) * down + 44
        panel_width = (width - margin - 14 - (columns - 1) * across) / columns

        def paint(figure: Figure):
            figure.set_layout_engine("none")
            draw_legend(figure, handles, narrow, at_corner=True)
            for n, method in enumerate(methods):
                row, column = divmod(n, columns)
                x, y = margin + column * (panel_width + across), total - top - row * (height + down) - height
                axes = figure.add_axes((x / width, y / total, panel_width / width, height / total))
                panel(axes, method, column == 0, narrow)
                share, what = asides[method]
                axes.set_title(short(method, 13 if narrow else 15), pad=4)
                aside = percent(share, 0) if narrow else f"{percent(share, 0)} {what}"
                axes.set_title(aside, loc="right", pad=4, fontweight="normal", fontsize=11)
                axes.xaxis.set_major_locator(MaxNLocator(4, integer=True, steps=STEPS))
                lowest = n + columns >= len(methods)
                axes.tick_params(labelbottom=lowest)
                if lowest:
                    axes.set_xlabel("Round")

        return total, paint

    return picture(name, alt, caption, draw)


def _image(axes: Axes, layers: list[tuple[np.ndarray, str]], rounds: np.ndarray) -> None:
    """Marks as pixels on a transparent ground."""
    pixels = np.zeros((*layers[0][0].shape, 4), np.uint8)
    for mask, hexadecimal in layers:
        pixels[mask] = [*bytes.fromhex(hexadecimal[1:]), 255]
    extent = (rounds[0] - 0.5, rounds[-1] + 0.5, len(pixels), 0)
    axes.imshow(pixels, interpolation="none", aspect="auto", extent=extent)
    for side in axes.spines.values():
        side.set_visible(True)
        side.set_alpha(0.35)


def _bands(axes: Axes, shown: Grid, fleet: Fleet, wrap: int, width: float) -> None:
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
        bar = Rectangle((-8 / width, start), 5 / width, stop - start, color=class_colour(c), lw=0, clip_on=False)
        bar.set_transform(axes.get_yaxis_transform())
        axes.add_patch(bar)
        if wrap and stop - start >= 0.07 * len(shown.rows):
            middles.append((start + stop) / 2)
            names.append(wrapped(fleet.names[c], wrap))
    axes.set_yticks(middles, names)
    axes.tick_params(axis="y", length=0, pad=12)


def wrapped(name: str, width: int) -> str:
    return "\n".join(textwrap.wrap(short(name, 40), width)[:3])


def evenly(size: int, most: int) -> np.ndarray:
    return np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(int))
