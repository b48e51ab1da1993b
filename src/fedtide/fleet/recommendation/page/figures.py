"""The figures of a recommendation: how methods compare, and the accuracy on each device."""

from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fedtide.fleet.recommendation.findings import Candidate, Findings
from fedtide.fleet.recommendation.page.words import margin_in_words
from fedtide.report import picture
from fedtide.report.svg import INK, colour
from fedtide.text import change, clean, percent, short

_ROW = 40  # pixels per method
_FAR = 4  # the axis extends to so many times the median distance from the reference
_CASES = (("recorded", "on the recorded trace", "o", 0), ("generated", "on generated fleets", "D", 1))


def far(result: Findings) -> list[str]:
    """Methods so far from the others that no other difference would be visible on their scale."""
    rows = _compared(result)
    limits = _limits(result, rows)
    return [row.method for row in rows if not limits[0] <= (row.gap().mean or 0.0) <= limits[1]]


def _compared(result: Findings) -> list[Candidate]:
    """The methods that have a difference to the reference."""
    reference = result.verdict.reference
    return [row for row in result.methods if row.gap().mean is not None and row.method != reference]


def _limits(result: Findings, rows: Sequence[Candidate]) -> tuple[float, float]:
    """The ends of the axis where some methods are far from the others; otherwise infinite."""
    if not rows:
        return -np.inf, np.inf
    gaps = [[row.gap(setting) for setting, *_ in _CASES] for row in rows]
    ends = np.array([[end for gap in both for end in (gap.low, gap.mean, gap.high)] for both in gaps], np.float64)
    reach = np.nanmax(np.abs(ends), axis=1)
    near = reach <= _FAR * np.sort(reach)[len(reach) // 2]
    if near.all():
        return -np.inf, np.inf
    margin = result.least_difference(result.margin)
    low, high = min(np.nanmin(ends[near]), -margin), max(np.nanmax(ends[near]), margin)
    return low - 0.15 * (high - low), high + 0.15 * (high - low)


def forest(result: Findings) -> picture.Picture | None:
    """Each method's difference to the reference, on the record and on generated fleets."""
    reference, kind, margin = result.verdict.reference, result.kind, result.least_difference(result.margin)
    rows = _compared(result)
    if not rows:
        return None
    limits = _limits(result, rows)
    sign = -1 if kind == "accuracy" else 1
    rows.sort(key=lambda row: sign * (row.gap().mean or 0.0))
    values = "; ".join(f"{clean(r.method)} {change(kind, r.gap().mean)}" for r in rows)
    alt = f"Difference to {clean(reference)} on the recorded trace: {values}."
    better = "right" if kind == "accuracy" else "left"
    unit = "accuracy (in points)" if kind == "accuracy" else "objective"
    caption = (
        f"Paired differences to {clean(reference)} in final {unit}, with 95% intervals; {better} of the line: better. "
        f"Grey band: less than {margin_in_words(result)}, too small to matter."
    )
    if any(row.refused for row in rows):
        caption += " In parentheses: excluded by the constraints."
    if np.isfinite(limits).all():
        caption += " Arrows: outside the axis."

    def paint(figure: Figure, narrow: bool):
        axes = figure.subplots()
        axes.axvline(0, color=INK, lw=1.1, alpha=0.7)
        axes.axvspan(-margin, margin, color=INK, alpha=0.1, lw=0)
        for y, row in enumerate(rows):
            if y % 2 == 0:
                axes.axhspan(y - 0.5, y + 0.5, color=INK, alpha=0.05, lw=0)
            for setting, _, marker, i in _CASES:
                gap, at = row.gap(setting), y - 0.17 + 0.34 * i
                if gap.mean is None:
                    continue
                if not limits[0] <= gap.mean <= limits[1]:
                    _beyond(axes, gap.mean, limits, at, colour(i), change(kind, gap.mean))
                    continue
                if gap.low is not None and gap.high is not None:
                    axes.plot([gap.low, gap.high], [at, at], color=colour(i), lw=2.2)
                axes.plot([gap.mean], [at], marker, color=colour(i), ms=6)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        if np.isfinite(limits).all():
            axes.set_xlim(*limits)
        names = [short(r.method, 14 if narrow else 26) for r in rows]
        names = [f"({name})" if row.refused else name for name, row in zip(names, rows, strict=True)]
        picture.name_rows(axes, names, range(len(rows)))
        picture.value_axis(axes, 4 if narrow else 8, picture.POINTS_APART if kind == "accuracy" else None)
        axes.set_xlabel(f"Difference to {short(reference, 20)}{', points' if kind == 'accuracy' else ''}")
        handles = [
            Line2D([], [], color=colour(i), marker=marker, ms=6, lw=2.2, label=label) for _, label, marker, i in _CASES
        ]
        picture.draw_legend(figure, handles, narrow)

    height = 80 + _ROW * len(rows)
    return picture.picture("forest", alt, caption, (height, height + 18), paint)


def _beyond(axes: Axes, mean: float, limits: tuple[float, float], at: float, ink: str, label: str) -> None:
    """An arrow towards a value outside the axis, and the value."""
    right, width = mean > 0, limits[1] - limits[0]
    edge, inwards = (limits[1], -width) if right else (limits[0], width)
    axes.plot([edge + 0.015 * inwards], [at], ">" if right else "<", color=ink, ms=7)
    align = "right" if right else "left"
    axes.text(edge + 0.035 * inwards, at, label, ha=align, va="center", color=INK, fontsize=9)


def served(result: Findings, devices: pl.DataFrame) -> picture.Picture | None:
    """Each device's accuracy under the reference against its availability."""
    reference = result.verdict.reference
    own = devices.filter(pl.col("method") == reference, pl.col("accuracy").is_finite())
    if own.height < 2:
        return None
    worst = {row.device for row in result.served_worst}
    x, y = own["available"].to_numpy(), own["accuracy"].to_numpy()
    marked = np.array([name in worst for name in own["device"]])
    rare = x < np.median(x)
    halves = [percent(float(y[part].mean())) if part.any() else "–" for part in (rare, ~rare)]
    caption = (
        f"Each dot is a device: its test accuracy under {clean(reference)} on the recorded trace (mean over seeds) "
        "against its availability. Ringed: the worst-served tenth. The less available half of the devices reaches "
        f"{halves[0]} on average, the other half {halves[1]}."
    )
    named = ", ".join(sorted(map(clean, worst)))
    alt = f"{own.height} devices by availability and accuracy; the worst-served ones are {named}"

    def paint(figure: Figure, narrow: bool):
        axes = figure.subplots()
        axes.plot(x[~marked], y[~marked], "o", color=colour(0), ms=6, alpha=0.7, mew=0)
        axes.plot(x[marked], y[marked], "o", color=colour(1), ms=7, mew=0)
        axes.plot(x[marked], y[marked], "o", color=colour(1), ms=13, mew=1.6, mfc="none")
        picture.grid(axes)
        axes.set_xlabel("Share of the simulated rounds in which it was available")
        axes.set_ylabel("Test accuracy")
        picture.ticks(axes.xaxis, 5, picture.PERCENT)
        picture.ticks(axes.yaxis, 5, picture.PERCENT)
        axes.set_xlim(-0.02, min(1.02, float(x.max()) * 1.06 + 0.02))
        axes.set_ylim(max(-0.04, float(y.min()) - 0.08), min(1.04, float(y.max()) + 0.06))

    return picture.picture("served", alt, caption, (320, 280), paint)
