"""Figures over rounds, with a panel for each case."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from fedtide.report.curves import Curve, name_lines, over_rounds
from fedtide.report.picture import PERCENT, STEPS, Picture, level_lines, panel_heights, panels, picture
from fedtide.report.svg import colour
from fedtide.reproduce.page.heat import selected_classes
from fedtide.reproduce.page.panels import MOST_PANELS, PlottedMethod, heading, legend, named, rows
from fedtide.reproduce.results import CaseResult, Results
from fedtide.reproduce.study import Study
from fedtide.statistics import Metric, evenly
from fedtide.text import clean, percent, value

_POINTS = 1200  # at most, in a figure
_SOON = 0.15  # the first fraction of the rounds, which may be outside the axis limits
_MOST_BANDS = 6
_NAMED_AT_ENDS = 9  # up to so many lines are labelled at their ends


class _DrawnCurve(NamedTuple):
    row: PlottedMethod
    curve: Curve


def curves(study: Study, results: Results) -> Picture:
    """Test accuracy (or the objective) over rounds, a panel for each case."""
    cases, kind = results.cases[:MOST_PANELS], results.metric
    drawn = _thin([_lines(study, case, kind) for case in cases])
    key = legend(study, [line.row for lines in drawn for line in lines])
    what = "test accuracy" if kind == "accuracy" else "objective"
    limits = [_limits(lines) for lines in drawn]
    if kind == "accuracy":
        limits = _shared(limits)
    single = len(cases) == 1
    caption = f"{what.capitalize()} over rounds, mean over {_replicas(cases)}."
    if kind == "accuracy" and any(_banded(lines) for lines in drawn):
        caption += " Bands: 10th to 90th percentile after removing the per-replica median over methods."
    if key.published:
        caption += " Dashed: published settings."
    below = _below(drawn, limits) if kind == "accuracy" else []
    if below:
        caption += f" Below the range of the axis: {', '.join(below)}."
    if len(results.cases) > len(cases):
        caption += f" Shown: the first {len(cases)} of {len(results.cases)} cases."

    layout = 2 if len(cases) in (2, 4) else 3, 1 if len(cases) <= 3 else 2  # columns, wide and narrow
    at_ends = single and len(key.colours) <= _NAMED_AT_ENDS  # of the wide layout

    def paint(figure: Figure, narrow: bool):
        columns = layout[narrow]
        axes = _paint(figure, columns, drawn, limits, kind, study.reference, ticks=6 if single else 3)
        for at, (case, own) in enumerate(zip(cases, axes, strict=True)):
            if not single:
                small = narrow and columns > 1
                own.set_title(heading(case.label, 18 if small else 30), fontsize=11 if small else 12)
            if at % columns == 0 and (single or not narrow):
                own.set_ylabel(what.capitalize())
        if at_ends and not narrow:
            tuned = {line.row.label: line.curve for line in drawn[0] if not line.row.published}
            name_lines(figure, axes[0], tuned, study.order, narrow)
        else:
            key.draw(figure, narrow)

    each = (340, 290) if single else (215, 190 if layout[1] == 1 else 168)
    wide, narrow = key.heights(*panel_heights(len(cases), layout, each, 8))
    alt = f"Line charts of {what} over rounds. {_ends(cases, drawn, results)}"
    return picture("curves", alt, caption, (each[0] if at_ends else wide, narrow), paint)


def rare_classes(study: Study, results: Results) -> Picture | None:
    """Accuracy on selected classes over rounds, a panel for each case and class."""
    cases = [case for case in results.cases if any(m.classes_curve is not None for m in case.methods)]
    wanted = [(case, c) for case in cases for c in selected_classes(study, results)][:MOST_PANELS]
    if not wanted:
        return None
    titles = [f"Class {c}" if len(cases) == 1 else named(case, several=True, text=f"class {c}") for case, c in wanted]
    drawn = _thin([_class_lines(study, case, c) for case, c in wanted])
    key = legend(study, [line.row for lines in drawn for line in lines])
    ends = "; ".join(
        f"{title}: " + ", ".join(f"{clean(row.label)} {percent(curve.mean[-1])}" for row, curve in lines)
        for title, lines in zip(titles, drawn, strict=True)
    )
    caption = f"Accuracy on single classes over rounds, mean over {_replicas(cases)}."
    caption += " Dashed: published settings." if key.published else ""

    def paint(figure: Figure, narrow: bool):
        limits, columns = [(-0.02, 1.02)] * len(wanted), 2 if narrow else 3
        axes = _paint(figure, columns, drawn, limits, "accuracy", study.reference, ticks=3)
        for at, (title, own) in enumerate(zip(titles, axes, strict=True)):
            own.set_title(heading(title, 20 if narrow else 30))
            own.tick_params(labelleft=at % columns == 0)
        key.draw(figure, narrow)

    heights = key.heights(*panel_heights(len(wanted), (3, 2), (200, 165), 8))
    return picture("rare-classes", f"Line charts of accuracy by class over rounds. {ends}.", caption, heights, paint)


def _lines(study: Study, case: CaseResult, kind: Metric) -> list[_DrawnCurve]:
    """Means over replicas, with percentiles around them.

    Replicas differ more than methods do. What all methods share in a replica, their median in each round, is removed
    before percentiles are taken, so that bands show the variation that is relevant to the comparison.
    """
    at, every = np.array(case.rounds, float), rows(study, case)
    if kind == "objective":
        return [_DrawnCurve(row, _mean_curve(at, row.method.objective_curve)) for row in every]
    known = {row.label: row.method.values("curve") for row in every}
    own = {label: case.replicas(values) for label, values in known.items() if values is not None}
    tuned = [own[row.label] for row in every if row.label in own and not row.published]
    shared = np.median(tuned, axis=0) if len(tuned) > 1 else np.zeros(1)
    lines = []
    for row in every:
        curve = _mean_curve(at, None)
        if row.label in own:
            low, high = np.quantile(own[row.label] - shared, (0.1, 0.9), axis=0) + shared.mean(axis=0)
            curve = Curve(at, own[row.label].mean(axis=0), np.clip(low, 0, 1), np.clip(high, 0, 1))
        lines.append(_DrawnCurve(row, curve))
    return lines


def _class_lines(study: Study, case: CaseResult, c: int) -> list[_DrawnCurve]:
    at, every = np.array(case.rounds, float), rows(study, case)
    known = [(row, row.method.classes_curve) for row in every]
    return [_DrawnCurve(row, _mean_curve(at, means[:, c])) for row, means in known if means is not None]


def _mean_curve(at: np.ndarray, means: np.ndarray | None) -> Curve:
    """The finite values of a curve, without a band."""
    kept = np.isfinite(means) if means is not None else np.zeros(len(at), bool)
    own = means[kept] if means is not None else at[kept]
    return Curve(at[kept], own, own, own)


def _thin(drawn: list[list[_DrawnCurve]]) -> list[list[_DrawnCurve]]:
    """Reduces the points per curve if there are many curves, which keeps the figure small."""
    most = int(np.clip(_POINTS // max(1, sum(map(len, drawn))), 14, 50))

    def thinned(curve: Curve) -> Curve:
        return Curve(*(part[evenly(len(part), most)] for part in curve)) if len(curve.round) else curve

    return [[_DrawnCurve(row, thinned(curve)) for row, curve in lines] for lines in drawn]


def _banded(lines: list[_DrawnCurve]) -> bool:
    """Whether bands are drawn; the bands of many methods would overlap."""
    tuned = [curve for row, curve in lines if not row.published and len(curve.round)]
    return len(tuned) <= _MOST_BANDS and any((curve.high > curve.low).any() for curve in tuned)


def _paint(
    figure: Figure, columns: int, drawn: list[list[_DrawnCurve]], limits: Sequence[tuple[float, float]], kind: Metric,
    reference: str, ticks: int,
) -> list[Axes]:  # fmt: skip
    """Draws the panels; the line of the reference is wider."""
    every = panels(figure, len(drawn), columns)
    for at, (axes, lines) in enumerate(zip(every, drawn, strict=True)):
        _panel(axes, lines, limits[at], kind, reference)
        over_rounds(axes, {row.label: curve for row, curve in lines})
        axes.xaxis.set_major_locator(MaxNLocator(ticks, integer=True, steps=STEPS))
        if at // columns < (len(drawn) - 1) // columns:
            axes.set_xlabel("")
    return every


def _panel(axes: Axes, lines: list[_DrawnCurve], limits: tuple[float, float], kind: Metric, reference: str) -> None:
    for row, curve in lines if _banded(lines) else ():
        if not row.published and len(curve.round):
            axes.fill_between(curve.round, curve.low, curve.high, color=colour(row.colour), alpha=0.11, lw=0)
    faint = 0.75 if sum(row.published for row, _ in lines) <= 8 else 0.4
    for row, curve in sorted(lines, key=lambda line: not line.row.published):
        width, alpha = (1.2, faint) if row.published else (2.5 if row.label == reference else 1.7, 1.0)
        axes.plot(curve.round, curve.mean, color=colour(row.colour), ls=row.style, lw=width, alpha=alpha)
    low, high = limits
    level_lines(axes, 5, PERCENT if kind == "accuracy" else None)
    if kind == "accuracy":
        axes.set_ylim(low, high)
    elif low > 0 and high / low > 30:
        axes.set_yscale("log")
        axes.set_ylim(low / 1.2, high * 1.2)
        axes.yaxis.set_major_locator(LogLocator(numticks=6))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())


def _limits(lines: list[_DrawnCurve]) -> tuple[float, float]:
    """Axis limits, which may exclude the first steep rounds and published settings that fail."""
    known = [(row, curve) for row, curve in lines if len(curve.round)]
    shown = [curve for row, curve in known if not row.published] or [curve for _, curve in known]
    if not shown:
        return 0.0, 1.0
    low = min(c.low[c.round >= _SOON * c.round[-1]].min() for c in shown)
    high = max(c.high.max() for c in shown)
    room = max(high - low, 1e-9)
    for row, curve in known:  # published settings extend the limits unless they are far below
        if row.published:
            end = curve.mean[curve.round >= _SOON * curve.round[-1]].min()
            low = min(low, end) if end > low - 0.25 * room else low
            high = max(high, curve.mean.max())
    first = min(c.low.min() for c in shown)
    low = first if low - first < 0.3 * room else low
    margin = 0.04 * (high - low)
    return (low if low <= 0 else max(low - margin, 0.0)), high + margin


def _shared(limits: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The same limits for all panels, unless that makes a panel much flatter."""
    low, high = min(a for a, _ in limits), max(b for _, b in limits)
    narrowest = min(b - a for a, b in limits)
    return [(low, high)] * len(limits) if high - low < 2 * narrowest else limits


def _below(drawn: list[list[_DrawnCurve]], limits: list[tuple[float, float]]) -> list[str]:
    hidden = {
        clean(row.label): curve.mean[-1]
        for lines, (low, _) in zip(drawn, limits, strict=True)
        for row, curve in lines
        if len(curve.round) and curve.mean[min(1, len(curve.mean) - 1) :].max() < low
    }
    return [f"{name} (ends at {percent(end)})" for name, end in hidden.items()]


def _replicas(cases: Sequence[CaseResult]) -> str:
    sizes = {(len(set(case.draw)), len(case.draw)) for case in cases}
    if len(sizes) > 1:
        return "all runs"
    draws, runs = sizes.pop()
    if draws > 1:
        return f"{draws} data draws" + (f", {runs // draws} seeds each" if runs > draws else "")
    return f"{runs} seeds" if runs > 1 else "one run"


def _ends(cases: Sequence[CaseResult], drawn: list[list[_DrawnCurve]], results: Results) -> str:
    kind, texts = results.metric, []
    for case, lines in zip(cases, drawn, strict=True):
        known = {row.label: case.level(row.method, results.measure) for row, _ in lines if not row.published}
        means = {label: level.mean for label, level in known.items() if level is not None}
        ranked = sorted(means, key=lambda label: means[label], reverse=kind == "accuracy")
        ends = [f"{clean(label)} {value(kind, means[label])}" for label in ranked[: 8 if len(cases) == 1 else 2]]
        texts.append(named(case, several=True, text=", ".join(ends)))
    return f"Best in the final window: {'; '.join(texts)}."
