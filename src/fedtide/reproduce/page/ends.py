"""Final results: means with intervals, and paired differences from the reference method."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FuncFormatter
from matplotlib.transforms import ScaledTranslation

from fedtide.report import picture
from fedtide.report.svg import INK, colour
from fedtide.reproduce.page.panels import PlottedMethod, brief, heading, legend, named, rows
from fedtide.reproduce.results import CaseResult, Level, Results
from fedtide.reproduce.study import Study
from fedtide.text import change, clean, number, short, value

_ROW = 19  # pixels per method
_DECADES = 30  # axes over a larger ratio are logarithmic
_HEAD = 24  # pixels per case label


class _End(NamedTuple):
    row: PlottedMethod
    level: Level
    gap: Level | None  # paired difference from the reference; None for the reference itself


def ends(study: Study, results: Results) -> picture.Picture:
    """Final accuracies: lines over the values of the cases, or rows of dots if cases have no values."""
    values = {case.value for case in results.cases}
    return _over_axis(study, results) if len(values) > 1 and None not in values else _dots(study, results)


def _ends(study: Study, case: CaseResult, results: Results) -> list[_End]:
    """The methods of a case, sorted from best to worst."""
    every = rows(study, case)
    base = next((row.method for row in every if row.label == study.reference), None)
    final = []
    for row in every:
        level = case.level(row.method, results.measure)
        if level is not None:
            other = None if base is row.method else base
            final.append(_End(row, level, other and case.gap(row.method, other, results.measure)))
    return sorted(final, key=lambda end: end.level.mean, reverse=results.metric == "accuracy")


def _what(results: Results) -> str:
    return "Test accuracy" if results.metric == "accuracy" else "Objective"


def _dots(study: Study, results: Results) -> picture.Picture:
    metric, who, what = results.metric, study.reference, _what(results)
    panels = [(case, _ends(study, case, results)) for case in results.cases]
    headed = len(panels) > 1
    levels = "; ".join(
        named(
            case, headed,
            ", ".join(f"{clean(e.row.label)} {value(metric, e.level.mean)}" for e in own[: 3 if headed else 12]),
        )
        for case, own in panels
    )  # fmt: skip
    caption = (
        f"{what} over the last fifth of the run, best methods first, and the paired difference from {clean(who)} on "
        "the same data and seeds. Whiskers are 95% intervals."
    )
    if any(end.row.published for _, own in panels for end in own):
        caption += " Hollow: published settings."
    rungs: list[tuple[float, _End]] = []
    heads: list[tuple[float, str]] = []
    y = 0.0
    for case, own in panels:
        if headed:
            heads.append((y + _HEAD / 2, case.label))
            y += _HEAD
        for end in own:
            rungs.append((y + _ROW / 2, end))
            y += _ROW
        y += 6 if headed else 0

    def paint(figure: Figure, narrow: bool):
        left, right = figure.subplots(1, 2, width_ratios=(1.1, 1) if narrow else (1.25, 1))
        names = [brief(end.row.label, 20 if narrow else 30) for _, end in rungs]
        for axes in (left, right):
            axes.set_ylim(y, 0)
            picture.value_axis(axes, 3 if narrow else 5)
        picture.name_rows(left, names, [place for place, _ in rungs])
        picture.name_rows(right, [], [])
        right.axvline(0, color=INK, lw=0.9, alpha=0.6)
        for place, label in heads:
            left.text(
                0, place, short(label, 30 if narrow else 60), transform=left.get_yaxis_transform(), weight="bold",
                va="center_baseline", fontsize=11.5,
            ).set_in_layout(False)  # fmt: skip
        left.set_xlabel(what)
        right.set_xlabel(f"vs {short(who, 10 if narrow else 20)}" + (", points" if metric == "accuracy" else ""))
        gaps = [(place, end.row, end.gap) for place, end in rungs if end.gap is not None]
        _dots_of(left, [(place, e.row, e.level) for place, e in rungs], lambda x: value(metric, x))
        if metric == "accuracy":  # no share is above 1
            left.set_xlim(max(left.get_xlim()[0], 0.0), min(left.get_xlim()[1], 1.005))
        _dots_of(right, gaps, lambda x: change(metric, x), zero=True)
        if metric == "accuracy":
            left.xaxis.set_major_formatter(picture.PERCENT)
            right.xaxis.set_major_formatter(picture.POINTS_APART)

    return picture.picture("ends", f"Dot charts of final results. {levels}.", caption, (y + 62,) * 2, paint)


def _dots_of(
    axes: Axes, drawn: list[tuple[float, PlottedMethod, Level]], text: Callable[[float], str], zero: bool = False
) -> None:
    """Draws dots with whiskers; the values of published settings outside the limits are written at the edge."""
    low, high = _reach([(row, level) for _, row, level in drawn], zero)
    axes.set_xlim(low, high)
    for y, row, level in drawn:
        if low <= level.mean <= high:
            shade = colour(row.colour)
            axes.plot(level.ends, [y, y], color=shade, lw=1.7, alpha=0.6 if row.published else 0.9)
            axes.plot([level.mean], [y], "o", color=shade, ms=6, mfc="none" if row.published else shade, mew=1.3)
            continue
        at, side, arrow = (0.0, "left", "◂ {}") if level.mean < low else (1.0, "right", "{} ▸")
        axes.text(
            at, y, arrow.format(text(level.mean)), transform=axes.get_yaxis_transform(), ha=side, va="center_baseline",
            fontsize=10, alpha=0.75,
        ).set_in_layout(False)  # fmt: skip


def _reach(drawn: Sequence[tuple[PlottedMethod, Level]], zero: bool) -> tuple[float, float]:
    """Axis limits: all tuned methods, and published settings that are not far from them."""
    tuned = [end for row, level in drawn if not row.published for end in level.ends]
    tuned += [0.0] if zero else []
    if not tuned:
        return 0.0, 1.0
    low, high = min(tuned), max(tuned)
    room = max(high - low, 1e-9)
    near = [end for row, level in drawn if row.published for end in level.ends]
    low = min([low, *(end for end in near if end > low - 0.8 * room)])
    high = max([high, *(end for end in near if end < high + 0.8 * room)])
    margin = 0.06 * (high - low) or 0.01
    return low - margin, high + margin


class _Series(NamedTuple):
    row: PlottedMethod
    points: list[tuple[float, _End]]  # (position on the axis, final result)


def _over_axis(study: Study, results: Results) -> picture.Picture:
    metric, who, what = results.metric, study.reference, _what(results)
    lines = _lines(study, results)
    key = legend(study, [line.row for line in lines], marker="o")
    caption = (
        f"{what} over the last fifth of the run by {study.axis or 'case'}, and below it the paired difference from "
        f"{clean(who)} on the same data and seeds. Whiskers are 95% intervals."
    )
    caption += " Dashed: published settings." if key.published else ""
    levels = "; ".join(
        f"{clean(row.label)} "
        + " to ".join(f"{value(metric, e.level.mean)} at {x:g}" for x, e in (points[0], points[-1]))
        for row, points in lines
        if not row.published
    )

    def paint(figure: Figure, narrow: bool):
        top, bottom = figure.subplots(2, 1, height_ratios=[1.6, 1.0])
        spots = spots_of([x for line in lines for x, _ in line.points])
        bottom.axhline(0, color=INK, lw=0.9, alpha=0.6)
        for place, (row, points) in enumerate(lines):
            beside = 3.0 * (place - (len(lines) - 1) / 2)
            _line(top, row, [(spots[x], e.level) for x, e in points], beside)
            _line(bottom, row, [(spots[x], e.gap) for x, e in points if e.gap is not None], beside)
        every = [end for line in lines for _, end in line.points]
        top.set_ylim(_reach([(end.row, end.level) for end in every], zero=False))
        bottom.set_ylim(_reach([(end.row, end.gap) for end in every if end.gap is not None], zero=True))
        for axes in (top, bottom):
            places_below(axes, spots, narrow)
            picture.level_lines(axes, 4)
        if metric == "accuracy":
            top.yaxis.set_major_formatter(picture.PERCENT)
            bottom.yaxis.set_major_formatter(picture.POINTS_APART)
        top.tick_params(labelbottom=False)
        top.set_ylabel(what)
        bottom.set_xlabel(study.axis)
        bottom.set_ylabel(heading(f"vs {who}", 12) + (",\npoints" if metric == "accuracy" else ""))
        key.draw(figure, narrow)

    heights = key.heights(340, 300)
    return picture.picture("ends", f"Line charts of final results. {levels}.", caption, heights, paint)


def _lines(study: Study, results: Results) -> list[_Series]:
    lines: dict[str, _Series] = {}
    for case in sorted(results.cases, key=lambda case: case.value or 0.0):
        for end in _ends(study, case, results):
            lines.setdefault(end.row.label, _Series(end.row, [])).points.append((case.value or 0.0, end))
    return list(lines.values())


def _line(axes: Axes, row: PlottedMethod, points: list[tuple[float, Level]], beside: float) -> None:
    """A line with whiskers, shifted by `beside` pixels so that the whiskers of similar methods do not overlap."""
    if not points:
        return
    x = [place for place, _ in points]
    shift = axes.transData + ScaledTranslation(beside / 72, 0, axes.get_figure(root=True).dpi_scale_trans)  # pyright: ignore[reportOptionalMemberAccess]
    width, size, alpha = (1.2, 3, 0.7) if row.published else (1.8, 4.5, 1.0)
    shade = colour(row.colour)
    axes.plot(x, [level.mean for _, level in points], ls=row.style, color=shade, lw=width, alpha=alpha, marker="o",
              ms=size, transform=shift)  # fmt: skip
    for place, level in () if row.published else points:
        axes.plot([place, place], level.ends, color=shade, lw=1.2, alpha=0.6, transform=shift)


def spots_of(places: Sequence[float]) -> dict[float, float]:
    """Positions of the values on the axis; evenly spaced if they include 0 and otherwise span decades."""
    positive = [x for x in places if x > 0]
    uneven = min(places) == 0 and len(positive) > 1 and max(positive) / min(positive) > _DECADES
    return {x: float(i) if uneven else x for i, x in enumerate(sorted(set(places)))}


def places_below(axes: Axes, spots: dict[float, float], narrow: bool) -> None:
    """Sets ticks at the cases, on a logarithmic axis if they span decades."""
    at = list(spots.values())
    low, high = min(at), max(at)
    if low > 0 and high / low > _DECADES:
        axes.set_xscale("log")
        axes.set_xlim(low / (high / low) ** 0.06, high * (high / low) ** 0.06)
    else:
        room = 0.06 * (high - low) or 1.0  # a single case
        axes.set_xlim(low - room, high + room)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: number(x, "g")))
    if len(at) <= (6 if narrow else 9) or list(spots) != at:
        picture.fixed_ticks(axes.xaxis, at, FixedFormatter([number(x, "g") for x in spots]))
