"""How the methods of a reproduction end: levels with intervals, and paired differences to the method in question."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, MaxNLocator, NullLocator
from matplotlib.transforms import ScaledTranslation

from fedtide.report.picture import PERCENT, POINTS_APART, STEPS, Picture, draw_legend, legend_height, picture
from fedtide.report.reproduction_curves import AS_PUBLISHED, DASHED
from fedtide.report.reproduction_numbers import (
    Facts,
    Level,
    Row,
    axis,
    brief,
    gap,
    grouped,
    measure_of,
    measured,
    on_axis,
    order,
    reference,
    rows,
)
from fedtide.report.svg import INK, colour, dash
from fedtide.report.words import change, clean, short, value

_ROW = 19  # pixels of a method
_DECADES = 30  # values that differ by more are drawn by their ratios
_HEAD = 24  # pixels of a case's name


class _End(NamedTuple):
    row: Row
    level: Level
    gap: Level | None  # to the reference; None for itself


def ends(study: Facts, results: Facts) -> Picture:
    """Levels over the last fifth of the run: lines where the cases stand on an axis, rows of dots otherwise."""
    return _over_axis(study, results) if on_axis(results["cases"]) else _dots(study, results)


def _ends(study: Facts, case: Facts, measure: str) -> list[_End]:
    """The methods from the best to the worst."""
    found = rows(study, case)
    base = next((row for row in found if row.label == reference(study)), None)
    known = []
    for row in found:
        level = measured(case, row.found, measure)
        if level is not None:
            other = None if base is None or row is base else gap(case, row.found, base.found, measure)
            known.append(_End(row, level, other))
    return sorted(known, key=lambda end: end.level.mean if measure == "objective" else -end.level.mean)


def _dots(study: Facts, results: Facts) -> Picture:
    measure, who = measure_of(results), reference(study)
    metric = "accuracy" if measure == "late" else "objective"
    cases = results["cases"]
    found = [(case, _ends(study, case, measure)) for case in cases]
    headed = len(cases) > 1
    told = "; ".join(
        (f"{clean(case['label'])}: " if headed else "")
        + ", ".join(f"{clean(e.row.label)} {value(metric, e.level.mean)}" for e in own[: 3 if headed else 12])
        for case, own in found
    )
    what = "Test accuracy" if metric == "accuracy" else "Objective"
    caption = (
        f"{what} over the last fifth of the run, the best first, and the difference to {clean(who)} on the same data "
        "and seeds, where what they share cancels. Whiskers are 95% intervals."
    )
    if any(row.published for _, own in found for row, _, _ in own):
        caption += " Hollow: at published settings."
    rungs: list[tuple[float, _End]] = []
    heads: list[tuple[float, str]] = []
    y = 0.0
    for case, own in found:
        if headed:
            heads.append((y + _HEAD / 2, case["label"]))
            y += _HEAD
        for end in own:
            rungs.append((y + _ROW / 2, end))
            y += _ROW
        y += 6 if headed else 0

    def draw(narrow: bool):
        def paint(figure: Figure):
            left, right = figure.subplots(1, 2, width_ratios=(1.1, 1) if narrow else (1.25, 1))
            for axes in (left, right):
                axes.set_ylim(y, 0)
                axes.tick_params(axis="y", length=0)
                axes.spines["left"].set_visible(False)
                axes.grid(axis="x", color=INK, alpha=0.14, lw=0.7)
                axes.xaxis.set_major_locator(MaxNLocator(3 if narrow else 5, steps=STEPS))
                axes.set_yticks([])
            right.axvline(0, color=INK, lw=0.9, alpha=0.6)
            names = [brief(end.row.label, 20 if narrow else 30) for _, end in rungs]
            left.set_yticks([place for place, _ in rungs], names)
            for place, label in heads:
                left.text(
                    0, place, short(label, 30 if narrow else 60), transform=left.get_yaxis_transform(), weight="bold",
                    va="center_baseline", fontsize=11.5,
                ).set_in_layout(False)  # fmt: skip
            left.set_xlabel(what)
            right.set_xlabel(f"vs {short(who, 10 if narrow else 20)}" + (", points" if metric == "accuracy" else ""))
            levels = [(place, end.row, end.level) for place, end in rungs]
            gaps = [(place, end.row, end.gap) for place, end in rungs if end.gap is not None]
            _dots_of(left, levels, lambda x: value(metric, x))
            if metric == "accuracy":  # no share is above 1
                left.set_xlim(max(left.get_xlim()[0], 0.0), min(left.get_xlim()[1], 1.005))
            _dots_of(right, gaps, lambda x: change(metric, x), zero=True)
            if metric == "accuracy":
                left.xaxis.set_major_formatter(PERCENT)
                right.xaxis.set_major_formatter(POINTS_APART)

        return y + 62, paint

    return picture("ends", f"Dot charts of how the methods end. {told}.", caption, draw)


def _dots_of(
    axes: Axes, drawn: list[tuple[float, Row, Level]], told: Callable[[float], str], zero: bool = False
) -> None:
    """The tuned methods fill the axis; what fails at published settings is told at its edge."""
    low, high = _reach([(row, level) for _, row, level in drawn], zero)
    axes.set_xlim(low, high)
    for y, row, level in drawn:
        if low <= level.mean <= high:
            shade = colour(row.colour)
            axes.plot(level.ends, [y, y], color=shade, lw=1.7, alpha=0.6 if row.published else 0.9)
            axes.plot([level.mean], [y], "o", color=shade, ms=6, mfc="none" if row.published else shade, mew=1.3)
            continue
        at, side, arrow = (0.0, "left", "◂ {}") if level.mean < low else (1.0, "right", "{} ▸")
        text = axes.text(at, y, arrow.format(told(level.mean)), transform=axes.get_yaxis_transform(), ha=side,
                         va="center_baseline", fontsize=10, alpha=0.75)  # fmt: skip
        text.set_in_layout(False)


def _reach(drawn: Sequence[tuple[Row, Level]], zero: bool) -> tuple[float, float]:
    """From where to where an axis goes: all of the tuned methods, and what is not far from them of the others."""
    tuned = [end for row, level in drawn if not row.published for end in level.ends if np.isfinite(end)]
    tuned += [0.0] if zero else []
    if not tuned:
        return 0.0, 1.0
    low, high = min(tuned), max(tuned)
    room = max(high - low, 1e-9)
    near = [end for row, level in drawn if row.published for end in level.ends if np.isfinite(end)]
    low = min([low, *(end for end in near if end > low - 0.8 * room)])
    high = max([high, *(end for end in near if end < high + 0.8 * room)])
    margin = 0.06 * (high - low) or 0.01
    return low - margin, high + margin


def _over_axis(study: Facts, results: Facts) -> Picture:
    measure, who = measure_of(results), reference(study)
    metric = "accuracy" if measure == "late" else "objective"
    cases, labels = results["cases"], order(study)
    panels = grouped(cases)
    lines = {rest: _lines(study, own, measure) for rest, own in panels.items()}
    shown = [label for label in labels if any(label in {row.label for row in of} for of in map(_rows, lines.values()))]
    published = any(row.published for of in map(_rows, lines.values()) for row in of)
    what = "Test accuracy" if metric == "accuracy" else "Objective"
    caption = (
        f"{what} over the last fifth of the run against {axis(cases) or 'what varies'}, and below it the difference to "
        f"{clean(who)} on the same data and seeds. Whiskers are 95% intervals."
    )
    caption += " Dashed: at published settings." if published else ""
    told = "; ".join(
        f"{clean(row.label)}{f' ({rest})' if rest else ''} "
        + " to ".join(f"{value(metric, e.level.mean)} at {x:g}" for x, e in (drawn[0], drawn[-1]))
        for rest, found in lines.items()
        for row, drawn in found
        if not row.published
    )

    def draw(narrow: bool):
        columns = min(len(panels), 2 if narrow else 3)
        folds = -(-len(panels) // columns)
        names = [short(label, 22) for label in shown] + ([AS_PUBLISHED] if published else [])

        def paint(figure: Figure):
            grid = figure.subplots(2 * folds, columns, squeeze=False, height_ratios=[1.6, 1.0] * folds)
            for at in range(folds * columns):
                top, bottom = grid[2 * (at // columns), at % columns], grid[2 * (at // columns) + 1, at % columns]
                if at >= len(panels):
                    top.set_visible(False)
                    bottom.set_visible(False)
                    continue
                rest = list(panels)[at]
                spots = _spots([case["value"] for case in panels[rest]])
                bottom.axhline(0, color=INK, lw=0.9, alpha=0.6)
                for place, (row, drawn) in enumerate(lines[rest]):
                    beside = 3.0 * (place - (len(lines[rest]) - 1) / 2)
                    _line(top, row, [(spots[x], e.level) for x, e in drawn], beside)
                    _line(bottom, row, [(spots[x], e.gap) for x, e in drawn if e.gap is not None], beside)
                every = [(row, level) for row, drawn in lines[rest] for _, (_, level, _) in drawn]
                apart = [(row, e.gap) for row, drawn in lines[rest] for _, e in drawn if e.gap is not None]
                top.set_ylim(_reach(every, zero=False))
                bottom.set_ylim(_reach(apart, zero=True))
                for axes in (top, bottom):
                    _places(axes, spots, narrow)
                    axes.grid(axis="y", color=INK, alpha=0.12, lw=0.7)
                    axes.yaxis.set_major_locator(MaxNLocator(4, steps=STEPS))
                if metric == "accuracy":
                    top.yaxis.set_major_formatter(PERCENT)
                    bottom.yaxis.set_major_formatter(POINTS_APART)
                top.tick_params(labelbottom=False)
                bottom.set_xlabel(axis(cases))
                if rest:
                    top.set_title(short(rest, 18 if narrow and columns > 1 else 30))
                if at % columns == 0 and not (narrow and columns > 1):
                    top.set_ylabel(what)
                    bottom.set_ylabel(f"vs {short(who, 12)}" + (",\npoints" if metric == "accuracy" else ""))
            draw_legend(figure, [_handle(labels.index(label), label) for label in shown] + [
                Line2D([], [], color=INK, ls=DASHED, lw=1.2, alpha=0.75, label=AS_PUBLISHED)
            ] * published, narrow)  # fmt: skip

        return folds * (300 if narrow else 340) + legend_height(names, narrow), paint

    return picture("ends", f"Line charts of how the methods end. {told}.", caption, draw)


_Line = tuple[Row, list[tuple[float, _End]]]


def _lines(study: Facts, cases: Sequence[Facts], measure: str) -> list[_Line]:
    found: dict[str, _Line] = {}
    for case in cases:
        for end in _ends(study, case, measure):
            found.setdefault(end.row.label, (end.row, []))[1].append((case["value"], end))
    return list(found.values())


def _rows(lines: list[_Line]) -> list[Row]:
    return [row for row, _ in lines]


def _line(axes: Axes, row: Row, points: list[tuple[float, Level]], beside: float) -> None:
    """A line with whiskers, so many pixels beside its places: whiskers of methods that agree would hide each other."""
    if not points:
        return
    x = [place for place, _ in points]
    shift = axes.transData + ScaledTranslation(beside / 72, 0, axes.get_figure(root=True).dpi_scale_trans)  # pyright: ignore[reportOptionalMemberAccess]
    shade, alpha = colour(row.colour), 0.7 if row.published else 1.0
    style = DASHED if row.published else dash(row.colour)
    axes.plot(x, [level.mean for _, level in points], ls=style, color=shade, lw=1.2 if row.published else 1.8,
              alpha=alpha, marker="o", ms=3 if row.published else 4.5, transform=shift)  # fmt: skip
    if not row.published:
        for place, level in points:
            axes.plot([place, place], level.ends, color=shade, lw=1.2, alpha=0.6, transform=shift)


def _spots(places: Sequence[float]) -> dict[float, float]:
    """Where on the axis cases stand: by value, or one after the other where 0 is among values over decades."""
    positive = [x for x in places if x > 0]
    uneven = min(places) == 0 and len(positive) > 1 and max(positive) / min(positive) > _DECADES
    return {x: float(i) if uneven else x for i, x in enumerate(sorted(set(places)))}


def _places(axes: Axes, spots: dict[float, float], narrow: bool) -> None:
    """Ticks at the cases; a logarithmic axis where they spread over decades."""
    at = list(spots.values())
    low, high = min(at), max(at)
    if low > 0 and high / low > _DECADES:
        axes.set_xscale("log")
        axes.set_xlim(low / (high / low) ** 0.06, high * (high / low) ** 0.06)
    else:
        axes.set_xlim(low - 0.06 * (high - low), high + 0.06 * (high - low))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}".replace("-", "−")))
    if len(at) <= (6 if narrow else 9) or list(spots) != at:
        axes.xaxis.set_major_locator(FixedLocator(at))
        axes.xaxis.set_major_formatter(FixedFormatter([f"{x:g}".replace("-", "−") for x in spots]))
        axes.xaxis.set_minor_locator(NullLocator())


def _handle(i: int, label: str) -> Line2D:
    return Line2D([], [], color=colour(i), ls=dash(i), lw=2.2, marker="o", ms=4.5, label=short(label, 22))
