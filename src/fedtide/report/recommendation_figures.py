"""The figures of a recommendation: how methods compare, and whom the recommended one serves."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from fedtide.report.picture import PERCENT, POINTS_APART, STEPS, Picture, draw_legend, picture
from fedtide.report.recommendation_notes import margin, worth
from fedtide.report.svg import INK, colour
from fedtide.report.words import change, clean, percent, short

_ROW = 40  # pixels of a method
_FAR = 4  # times as far from the reference as the method in the middle
_CASES = (("recorded", "on the recorded trace", "o", 0), ("generated", "on generated fleets", "D", 1))


def far(about: Mapping[str, Any]) -> list[str]:
    """Methods that end so far from the others that on their scale nothing else could be seen."""
    limits = _limits(about, _compared(about))
    if limits is None:
        return []
    return [r["method"] for r in _compared(about) if not _inside(r["recorded"]["difference"]["mean"], limits)]


def _compared(about: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The methods that can be compared with the reference."""
    gaps = [(row, row["recorded"]["difference"]) for row in about["methods"]]
    found = [row for row, gap in gaps if gap is not None and gap["mean"] is not None]
    return [row for row in found if row["method"] != about["verdict"]["reference"]]


def _limits(about: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> tuple[float, float] | None:
    """Where the axis ends if some methods lie far beyond the others; else None."""
    spans = [[end for setting, *_ in _CASES for end in _span(row[setting])] for row in rows]
    reaches = [max(map(abs, span)) for span in spans]
    most = _FAR * sorted(reaches)[len(reaches) // 2] if reaches else 0.0
    if not reaches or max(reaches) <= most:
        return None
    near = [end for span, reach in zip(spans, reaches, strict=True) if reach <= most for end in span]
    low, high = min(*near, -margin(about)), max(*near, margin(about))
    return low - 0.15 * (high - low), high + 0.15 * (high - low)


def _inside(value: float, limits: tuple[float, float] | None) -> bool:
    return limits is None or limits[0] <= value <= limits[1]


def _span(found: Mapping[str, Any]) -> tuple[float, ...]:
    gap = found["difference"]
    if gap is None or gap["mean"] is None:
        return (0.0,)
    return (gap["mean"],) if gap["low"] is None else (gap["low"], gap["high"])


def forest(about: Mapping[str, Any]) -> Picture | None:
    """Each method's difference to the reference, on the record and on generated fleets."""
    reference, kind = about["verdict"]["reference"], about["kind"]
    rows = _compared(about)
    if not rows:
        return None
    limits = _limits(about, rows)
    sign = -1 if kind == "accuracy" else 1
    rows.sort(key=lambda row: sign * row["recorded"]["difference"]["mean"])
    told = "; ".join(f"{clean(r['method'])} {change(kind, r['recorded']['difference']['mean'])}" for r in rows)
    better = "right" if kind == "accuracy" else "left"
    unit = "accuracy, in points" if kind == "accuracy" else "objective"
    caption = (
        f"Difference in final {unit}, to {clean(reference)}, seed by seed, with 95% intervals; {better} of the line is "
        f"better. The band: within {worth(about)}, which does not matter."
    )
    if any(row["refused"] for row in rows):
        caption += " In brackets: refused by the constraints."
    if limits is not None:
        caption += " Arrows: beyond the axis."

    def draw(narrow: bool):
        def paint(figure: Figure):
            axes = figure.subplots()
            axes.axvline(0, color=INK, lw=1.1, alpha=0.7)
            axes.axvspan(-margin(about), margin(about), color=INK, alpha=0.1, lw=0)
            for y, row in enumerate(rows):
                if y % 2 == 0:
                    axes.axhspan(y - 0.5, y + 0.5, color=INK, alpha=0.05, lw=0)
                for setting, _, marker, i in _CASES:
                    gap, at = row[setting]["difference"], y - 0.17 + 0.34 * i
                    if gap is None or gap["mean"] is None:
                        continue
                    if limits is not None and not _inside(gap["mean"], limits):
                        _beyond(axes, gap["mean"], limits, at, colour(i), change(kind, gap["mean"]))
                        continue
                    if gap["low"] is not None:
                        axes.plot([gap["low"], gap["high"]], [at, at], color=colour(i), lw=2.2)
                    axes.plot([gap["mean"]], [at], marker, color=colour(i), ms=6)
            axes.set_ylim(len(rows) - 0.5, -0.5)
            if limits is not None:
                axes.set_xlim(*limits)
            names = [short(r["method"], 14 if narrow else 26) for r in rows]
            names = [f"({name})" if row["refused"] else name for name, row in zip(names, rows, strict=True)]
            axes.set_yticks(range(len(rows)), names)
            axes.tick_params(axis="y", length=0)
            axes.spines["left"].set_visible(False)
            axes.grid(axis="x", color=INK, alpha=0.14, lw=0.7)
            axes.xaxis.set_major_locator(MaxNLocator(4 if narrow else 8, steps=STEPS))
            if kind == "accuracy":
                axes.xaxis.set_major_formatter(POINTS_APART)
            axes.set_xlabel(f"Against {short(reference, 20)}{', points' if kind == 'accuracy' else ''}")
            handles = [
                Line2D([], [], color=colour(i), marker=marker, ms=6, lw=2.2, label=label)
                for _, label, marker, i in _CASES
            ]
            draw_legend(figure, handles, narrow)

        return 80 + (18 if narrow else 0) + _ROW * len(rows), paint

    return picture("forest", f"Difference to {clean(reference)} on the recorded trace: {told}.", caption, draw)


def _beyond(axes: Axes, mean: float, limits: tuple[float, float], at: float, ink: str, told: str) -> None:
    """An arrow to a value that lies beyond the axis, and the value."""
    right, width = mean > 0, limits[1] - limits[0]
    edge, inwards = (limits[1], -width) if right else (limits[0], width)
    axes.plot([edge + 0.015 * inwards], [at], ">" if right else "<", color=ink, ms=7)
    align = "right" if right else "left"
    axes.text(edge + 0.035 * inwards, at, told, ha=align, va="center", color=INK, fontsize=9)


def served(about: Mapping[str, Any], devices: pl.DataFrame) -> Picture | None:
    """Each device's accuracy under the reference, against how often it is there."""
    reference = about["verdict"]["reference"]
    own = devices.filter(pl.col("method") == reference, pl.col("accuracy").is_finite())
    if own.height < 2:
        return None
    worst = {row["device"] for row in about["served_worst"]}
    x, y = own["there"].to_numpy(), own["accuracy"].to_numpy()
    marked = np.array([name in worst for name in own["device"]])
    rare = x < np.median(x)
    halves = [percent(float(y[part].mean())) if part.any() else "–" for part in (rare, ~rare)]
    caption = (
        f"Each dot is a device: its test accuracy under {clean(reference)} on the recorded trace, mean over seeds, "
        "against how often it is there. Ringed: the tenth that is served worst. The half of the devices that is there "
        f"less often reaches {halves[0]} on average, the other half {halves[1]}."
    )
    named = ", ".join(sorted(map(clean, worst)))
    alt = f"{own.height} devices by availability and accuracy; the worst-served are {named}"

    def draw(narrow: bool):
        def paint(figure: Figure):
            axes = figure.subplots()
            axes.plot(x[~marked], y[~marked], "o", color=colour(0), ms=6, alpha=0.7, mew=0)
            axes.plot(x[marked], y[marked], "o", color=colour(1), ms=7, mew=0)
            axes.plot(x[marked], y[marked], "o", color=colour(1), ms=13, mew=1.6, mfc="none")
            axes.grid(color=INK, alpha=0.12, lw=0.7)
            axes.set_xlabel("Share of the simulated rounds in which it was there")
            axes.set_ylabel("Test accuracy")
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_formatter(PERCENT)
                axis.set_major_locator(MaxNLocator(5, steps=STEPS))
            axes.set_xlim(-0.02, min(1.02, float(x.max()) * 1.06 + 0.02))
            axes.set_ylim(max(-0.04, float(y.min()) - 0.08), min(1.04, float(y.max()) + 0.06))

        return 280 if narrow else 320, paint

    return picture("served", alt, caption, draw)
