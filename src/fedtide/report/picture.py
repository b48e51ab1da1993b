"""A figure in a wide and a narrow layout, with a caption and alternative text."""

import textwrap
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, Formatter, FuncFormatter, MaxNLocator, NullLocator

from fedtide.report.svg import INK, canvas, colour, to_svg
from fedtide.text import number, short

WIDE, NARROW = 820, 358  # CSS pixels: a laptop's column, a phone's
POINTS, ROWS, COLUMNS = 300, 300, 800  # most points of a curve, most clients and rounds of a map

# Pixels do not follow the theme of the page, so these colours must work on white and on black.
PRESENT, INCLUDED, EXCLUDED = "#64798c", "#3182bd", "#e6752e"

STEPS = [1, 2, 2.5, 5, 10]
PERCENT = FuncFormatter(lambda x, _: number(round(100 * x, 6), "g") + "%")
POINTS_APART = FuncFormatter(lambda x, _: number(round(100 * x, 6), "+g") if abs(x) > 1e-9 else "0")


class Picture(NamedTuple):
    """A figure in two layouts, for wide and narrow pages, with its texts."""

    wide: str
    narrow: str
    alt: str
    caption: str


def picture(
    name: str, alt: str, caption: str, heights: Sequence[float], paint: Callable[[Figure, bool], None]
) -> Picture:
    """Draws both layouts with `paint(figure, narrow)`; `heights` are those of the wide and of the narrow layout."""
    layouts = []
    for layout, width, height in zip(("wide", "narrow"), (WIDE, NARROW), heights, strict=True):
        with canvas(width, height) as figure:
            paint(figure, layout == "narrow")
            layouts.append(to_svg(figure, f"{name}-{layout}", alt))
    return Picture(layouts[0], layouts[1], alt, caption)


def draw_legend(figure: Figure, handles: list[Any], narrow: bool, at_corner: bool = False) -> None:
    """A legend above the axes, in row order; `at_corner` if the layout is fixed and reserves no space for it."""
    columns = _legend_columns([h.get_label() for h in handles], narrow)
    rows = -(-len(handles) // columns)
    across = [handles[r * columns + c] for c in range(columns) for r in range(rows) if r * columns + c < len(handles)]
    place: dict[str, Any] = (
        {"loc": "upper left", "bbox_to_anchor": (0, 0.99)} if at_corner else {"loc": "outside upper left"}
    )
    figure.legend(handles=across, ncols=columns, **place)


def _legend_columns(names: list[str], narrow: bool) -> int:
    """The number of entries that fit beside each other."""
    room = (NARROW if narrow else WIDE) // (42 + 7 * max(map(len, names)))
    return int(np.clip(room, 1, min(6, len(names))))


def legend_height(names: list[str], narrow: bool) -> int:
    return 18 * -(-len(names) // _legend_columns(names, narrow))


def panels(figure: Figure, count: int, columns: int, **layout: Any) -> list[Axes]:
    """Axes of `count` panels in at most so many columns, row by row; the rest of the last row is empty."""
    columns = min(count, columns)
    every = list(figure.subplots(-(-count // columns), columns, squeeze=False, **layout).flat)
    for unused in every[count:]:
        unused.set_visible(False)
    return every[:count]


def dot(index: int, label: str, lw: float = 0) -> Line2D:
    """A legend entry for dots, or for dots with whiskers of width `lw`."""
    return Line2D([], [], color=colour(index), marker="o", ms=6, lw=lw, label=label)


def ticks(axis: Axis, most: int, form: Formatter | None = None) -> None:
    """At most `most` ticks at round numbers."""
    axis.set_major_locator(MaxNLocator(most, steps=STEPS))
    if form is not None:
        axis.set_major_formatter(form)


def fixed_ticks(axis: Axis, places: Sequence[float], form: Formatter) -> None:
    """Ticks at these places only."""
    axis.set_major_locator(FixedLocator(places))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(form)


def grid(axes: Axes, axis: Literal["both", "x", "y"] = "both", alpha: float = 0.12) -> None:
    """Faint grid lines."""
    axes.grid(axis=axis, color=INK, alpha=alpha, lw=0.7)


def level_lines(axes: Axes, most: int, form: Formatter | None = None) -> None:
    """A vertical axis with at most `most` ticks and faint grid lines."""
    grid(axes, "y")
    ticks(axes.yaxis, most, form)


def name_rows(axes: Axes, names: Sequence[str], places: Sequence[float] | np.ndarray | None = None) -> None:
    """Names instead of a vertical axis: at `places`, or at 0, 1, ... from the top."""
    if places is None:
        axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_yticks(range(len(names)) if places is None else places, names)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def value_axis(axes: Axes, most: int, form: Formatter | None = None) -> None:
    """A horizontal axis with at most `most` ticks and faint grid lines."""
    grid(axes, "x", 0.14)
    ticks(axes.xaxis, most, form)


def panel_heights(
    count: int, columns: tuple[int, int], each: tuple[float, float], more: float = 0
) -> tuple[float, float]:
    """Heights of both layouts for `panels`, from the columns and the height of a row in each."""
    wide, narrow = (-(-count // columns) * height + more for columns, height in zip(columns, each, strict=True))
    return wide, narrow


def with_legend(names: list[str], wide: float, narrow: float) -> tuple[float, float]:
    """Heights of both layouts with room for a legend."""
    return wide + legend_height(names, False), narrow + legend_height(names, True)


def group_height(rows: int, narrow: bool) -> int:
    """Height of a group of `grouped_rows`, in pixels."""
    return (12 if narrow else 13) * rows + 16


def grouped_rows(axes: Axes, names: Sequence[str], rows: int, narrow: bool) -> np.ndarray:
    """Draws named groups of rows over an axis of shares; returns the vertical position [groups, rows] of each row."""
    band = group_height(rows, narrow)
    tops = band * np.arange(len(names))
    for top in tops[::2] if len(names) > 1 else ():
        axes.axhspan(top, top + band, color=INK, alpha=0.05, lw=0)
    axes.set_ylim(len(names) * band, 0)
    name_rows(axes, [wrapped(name, 14 if narrow else 24) for name in names], tops + 0.5 * band)
    value_axis(axes, 4 if narrow else 7, PERCENT)
    return tops[:, None] + 8 + (band - 16) / rows * (np.arange(rows) + 0.5)


def grouped_heights(names: list[str], rows: int, groups: int) -> tuple[float, float]:
    """Heights of a figure of `grouped_rows` and a legend."""
    return with_legend(names, *(50 + groups * group_height(rows, narrow) for narrow in (False, True)))


def rounds_below(axes: Axes, most: int, name: bool = True) -> None:
    """A horizontal axis of rounds with at most `most` ticks."""
    axes.xaxis.set_major_locator(MaxNLocator(most, integer=True, steps=STEPS))
    if name:
        axes.set_xlabel("Round")


def pixel_map(axes: Axes, layers: Sequence[tuple[np.ndarray, str, int]], extent: Any, **options: Any) -> None:
    """Cells as pixels on a transparent background: (mask, hexadecimal colour, opacity up to 255) for each layer."""
    pixels = np.zeros((*layers[0][0].shape, 4), np.uint8)
    for mask, hexadecimal, opacity in layers:
        pixels[mask] = [*bytes.fromhex(hexadecimal[1:]), opacity]
    axes.imshow(pixels, interpolation="none", aspect="auto", extent=extent, **options)
    framed(axes)


def framed(axes: Axes) -> None:
    """Draws a faint line on all four sides, for maps made of pixels."""
    axes.spines[:].set_visible(True)
    axes.spines[:].set_alpha(0.35)


def over_seeds(column: str) -> dict[str, pl.Expr]:
    """The mean over seeds and the range of their middle 80 %."""
    values = pl.col(column)
    return {"mean": values.mean(), "low": values.quantile(0.1, "linear"), "high": values.quantile(0.9, "linear")}


def wrapped(name: str, width: int) -> str:
    """A name in at most three lines."""
    return "\n".join(textwrap.wrap(short(name, 40), width)[:3])


def class_colour(index: int) -> str:
    """The colour of a class: the palette in reverse, which distinguishes classes from methods."""
    return colour(-1 - index)
