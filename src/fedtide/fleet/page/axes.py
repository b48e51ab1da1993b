"""What the figures of a fleet have in common."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from fedtide.fleet.diagnosis.findings import NumberFigure, RecordedCurve, RecurrenceFigure
from fedtide.report.picture import draw_legend, grid
from fedtide.report.svg import INK, colour

HOURS = FuncFormatter(lambda h, _: f"{h:g} h")
NUMBERS = FuncFormatter(lambda x, _: f"{round(x, 9):g}".replace("-", "−"))


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
    grid(axes, "y")


def legend(figure: Figure, narrow: bool, band: str, middle: str) -> None:
    """Of `banded`."""
    handles = [
        Line2D([], [], color=colour(0), lw=1.9, label="recorded"),
        Line2D([], [], color=INK, lw=1.1, ls=(0, (4, 2)), alpha=0.75, label=middle),
        Patch(color=INK, alpha=0.16, lw=0, label=band),
    ]
    draw_legend(figure, handles, narrow)
