"""A record against a range that it is compared with: the parts that several figures of a fleet share."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from fedtide.report.picture import PERCENT, draw_legend
from fedtide.report.svg import INK, colour

_MOST_HOURS = 48
_LEAST = 0.01  # share of runs that is still drawn


def numbers(values: Any) -> np.ndarray:
    return np.asarray(values, float)  # None becomes nan


def panels(figure: Figure, narrow: bool, rows: int, **more: Any) -> np.ndarray:
    """Pairs of panels, beneath each other where it is narrow."""
    return np.ravel(figure.subplots(*((2 * rows, 1) if narrow else (rows, 2)), **more))


def banded(axes: Axes, x: np.ndarray, shown: Mapping[str, Any], middle: str = "") -> None:
    """The record, and the range of what it is compared with."""
    low, high, recorded = (numbers(shown[name]) for name in ("low", "high", "recorded"))
    axes.fill_between(x, low, high, color=INK, alpha=0.16, lw=0)
    if middle in shown:
        axes.plot(x, numbers(shown[middle]), color=INK, lw=1.1, ls=(0, (4, 2)), alpha=0.75)
    axes.plot(x, recorded, color=colour(0), lw=1.9)
    axes.grid(axis="y", color=INK, alpha=0.12, lw=0.7)


def legend(figure: Figure, narrow: bool, band: str, middle: str = "") -> None:
    handles: list[Any] = [Line2D([], [], color=colour(0), lw=1.9, label="recorded")]
    if middle:
        handles.append(Line2D([], [], color=INK, lw=1.1, ls=(0, (4, 2)), alpha=0.75, label=middle))
    draw_legend(figure, [*handles, Patch(color=INK, alpha=0.16, lw=0, label=band)], narrow)


def survival(axes: Axes, shown: Mapping[str, Any], title: str, middle: str) -> None:
    """The share of runs that last longer than so many hours. On a logarithm, which shows the rare long ones."""
    x = numbers(shown["hours"])
    names = [name for name in ("recorded", "low", "high", middle) if name in shown]
    banded(axes, x, {name: np.maximum(numbers(shown[name]), 1e-6) for name in names}, middle)
    axes.set_yscale("log")
    axes.set_ylim(_LEAST, 1.05)
    axes.yaxis.set_major_locator(FixedLocator([0.01, 0.03, 0.1, 0.3, 1]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(PERCENT)
    # Up to where nearly all have ended.
    left = np.fmax(numbers(shown["recorded"]), numbers(shown["high"]))
    lasting = x[left > _LEAST]
    last = min(_MOST_HOURS, float(lasting[-1]) if len(lasting) else _MOST_HOURS)
    axes.set_xlim(0, max(last, float(x[min(1, len(x) - 1)]), 1e-3))
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 3, 4, 6, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda h, _: f"{h:g} h"))
    axes.set_title(title, loc="left")
