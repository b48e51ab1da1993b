"""The figure of a fleet's generator: the record among the fleets that it gives."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedtide.fleet.diagnosis import Diagnosis
from fedtide.report.fleet_bands import banded, legend, numbers, panels, survival
from fedtide.report.fleet_clock import of_day
from fedtide.report.picture import PERCENT, STEPS, Picture, picture

Draw = Callable[[Axes], None]


def generated(diagnosis: Diagnosis) -> Picture | None:
    """The record among generated fleets: by hour, by length of stays and absences, by number here."""
    curves = diagnosis.curves
    if not curves:
        return None
    outside = {name: _outside(curves[name]) for name in ("hourly", "stays", "absences", "number") if name in curves}
    alt = "The record among generated fleets; share of points outside of their 95% band: "
    alt += ", ".join(f"{name} {100 * value:.0f}%" for name, value in outside.items()) + "."
    caption = (
        "The record and fleets from the generator, with the same rounds not observed: the share here by hour, how often"
        " which share of the fleet is here, and the stays and absences that last longer than so many hours (on a"
        " logarithmic scale)."
    )
    drawn: dict[str, Draw] = {
        "hourly": lambda axes: _hourly(axes, curves["hourly"]),
        "number": lambda axes: _shares(axes, curves["number"]),
        "stays": lambda axes: survival(axes, curves["stays"], "Stays longer than", "mean"),
        "absences": lambda axes: survival(axes, curves["absences"], "Absences longer than", "mean"),
    }
    drawn = {name: paint for name, paint in drawn.items() if name in curves}

    def draw(narrow: bool):
        rows = -(-len(drawn) // 2)

        def paint(figure: Figure):
            axes = panels(figure, narrow, rows)
            for panel, paint_one in zip(axes, drawn.values(), strict=False):
                paint_one(panel)
            for panel in axes[len(drawn) :]:
                panel.set_visible(False)
            legend(figure, narrow, "95% of generated", "generated mean")

        return (190 * 2 * rows if narrow else 215 * rows) + 40, paint

    return picture("generated", alt, caption, draw)


def _outside(curve: Mapping[str, Any]) -> float:
    low, high, recorded = (numbers(curve[name]) for name in ("low", "high", "recorded"))
    with np.errstate(invalid="ignore"):
        known = np.isfinite(recorded) & np.isfinite(low)
        return float(((recorded < low - 1e-9) | (recorded > high + 1e-9))[known].mean()) if known.any() else 0.0


def _hourly(axes: Axes, curve: Mapping[str, Any]) -> None:
    known = np.isfinite(numbers(curve["recorded"]))
    kept = {name: numbers(curve[name])[known] for name in ("recorded", "low", "mean", "high")}
    banded(axes, numbers(curve["hour"])[known] + 0.5, kept, "mean")
    of_day(axes)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(PERCENT)
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=STEPS))
    axes.set_title("Share here, by hour", loc="left")


def _shares(axes: Axes, curve: Mapping[str, Any]) -> None:
    edges = numbers(curve["edges"])
    middles = (edges[:-1] + edges[1:]) / 2
    banded(axes, middles, curve, "mean")
    axes.set_xlim(0, edges[-1])
    axes.set_ylim(bottom=0)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PERCENT)
        axis.set_major_locator(MaxNLocator(4, steps=STEPS))
    axes.set_title("Rounds, by share here", loc="left")
