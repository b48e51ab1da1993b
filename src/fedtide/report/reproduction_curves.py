"""Figures of a reproduction over rounds and at the end: one panel for each case."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from fedtide.report.curves import Curve, name_lines, over_rounds
from fedtide.report.maps import evenly
from fedtide.report.picture import PERCENT, STEPS, Picture, draw_legend, legend_height, picture
from fedtide.report.reproduction_numbers import (
    Facts,
    Row,
    measure_of,
    measured,
    order,
    reference,
    replicas,
    rows,
    values,
)
from fedtide.report.statistics import Metric
from fedtide.report.svg import INK, colour, dash
from fedtide.report.words import clean, percent, short, value

DASHED = (0, (3.2, 2.2))
AS_PUBLISHED = "as published"
MOST_PANELS = 12
_POINTS = 1200  # in a figure
_SOON = 0.15  # of the rounds, the first ones, may leave the axis
_MOST_BANDS = 6
_NAMED_AT_ENDS = 9  # so many lines and less are named where they end


def curves(study: Facts, results: Facts) -> Picture:
    """Test accuracy (or the objective) over rounds, one panel for each case."""
    cases = results["cases"][:MOST_PANELS]
    kind: Metric = "accuracy" if measure_of(results) == "late" else "objective"
    panels = _thin([_curves(study, case, kind) for case in cases])
    labels, who = order(study), reference(study)
    shown = [label for label in labels if any(row.label == label for panel in panels for row, _ in panel)]
    published = any(row.published for panel in panels for row, _ in panel)
    what = "test accuracy" if kind == "accuracy" else "objective"
    limits = [_limits(panel) for panel in panels]
    if kind == "accuracy":
        limits = _shared(limits)
    single = len(cases) == 1
    caption = f"{what.capitalize()} over rounds: means over {_replicas(cases)}."
    if kind == "accuracy" and any(_banded(panel) for panel in panels):
        caption += " Bands hold the middle 80% of them, without what all methods share."
    if published:
        caption += " Dashed: at published settings."
    below = _below(panels, limits) if kind == "accuracy" else []
    if below:
        caption += f" Below what is shown: {', '.join(below)}."
    if len(results["cases"]) > len(cases):
        caption += f" Shown: the first {len(cases)} of {len(results['cases'])} cases."

    def draw(narrow: bool):
        columns = min(len(cases), (1 if len(cases) <= 3 else 2) if narrow else (2 if len(cases) in (2, 4) else 3))
        lines = -(-len(cases) // columns)
        ends = single and not narrow and len(shown) <= _NAMED_AT_ENDS
        height = (290 if narrow else 340) if single else (190 if narrow and columns == 1 else 168 if narrow else 215)
        names = [short(label, 22) for label in shown] + ([AS_PUBLISHED] if published else [])

        def paint(figure: Figure):
            grid = figure.subplots(lines, columns, squeeze=False)
            for at, axes in enumerate(grid.flat):
                if at >= len(cases):
                    axes.set_visible(False)
                    continue
                _panel(axes, panels[at], limits[at], kind, who)
                plain = {row.label: curve for row, curve in panels[at]}
                over_rounds(axes, plain)
                axes.xaxis.set_major_locator(MaxNLocator(6 if single else 3, integer=True, steps=STEPS))
                if at // columns < lines - 1:
                    axes.set_xlabel("")
                if not single:
                    small = narrow and columns > 1
                    axes.set_title(short(cases[at]["label"], 18 if small else 34), fontsize=11 if small else 12)
                if at % columns == 0 and (single or not narrow):
                    axes.set_ylabel(what.capitalize())
            if ends:
                tuned = {row.label: curve for row, curve in panels[0] if not row.published}
                name_lines(figure, grid[0, 0], tuned, labels, narrow)
            else:
                draw_legend(figure, _handles(labels, shown, published), narrow)

        return lines * height + (0 if ends else 8 + legend_height(names, narrow)), paint

    return picture("curves", f"Line charts of {what} over rounds. {_ends(cases, panels, kind)}", caption, draw)


def rare_classes(study: Facts, results: Facts, classes: Sequence[int]) -> Picture | None:
    """Accuracy on some classes over rounds, one panel for each case and class."""
    cases = [case for case in results["cases"] if any(m.get("classes_curve") for m in case["methods"])]
    wanted = [(case, c) for case in cases for c in classes][:MOST_PANELS]
    if not wanted:
        return None
    labels, who = order(study), reference(study)
    panels = []
    for case, c in wanted:
        drawn = [row for row in rows(study, case) if row.found.get("classes_curve")]
        at = np.array(case["rounds"], float)
        mean = [np.array([point[c] for point in row.found["classes_curve"]], float) for row in drawn]
        panels.append([(row, Curve(at, m, m, m)) for row, m in zip(drawn, mean, strict=True)])
    panels = _thin(panels)
    shown = [label for label in labels if any(row.label == label for panel in panels for row, _ in panel)]
    published = any(row.published for panel in panels for row, _ in panel)
    told = "; ".join(
        f"{_title(case, c, cases)}: " + ", ".join(f"{clean(r.label)} {percent(k.mean[-1])}" for r, k in panel)
        for (case, c), panel in zip(wanted, panels, strict=True)
    )
    caption = f"Accuracy on single classes over rounds: means over {_replicas(cases)}."
    caption += " Dashed: at published settings." if published else ""

    def draw(narrow: bool):
        columns = min(len(wanted), 2 if narrow else 3)
        lines = -(-len(wanted) // columns)
        names = [short(label, 22) for label in shown] + ([AS_PUBLISHED] if published else [])

        def paint(figure: Figure):
            for at, axes in enumerate(figure.subplots(lines, columns, squeeze=False).flat):
                if at >= len(wanted):
                    axes.set_visible(False)
                    continue
                _panel(axes, panels[at], (-0.02, 1.02), "accuracy", who)
                over_rounds(axes, {row.label: curve for row, curve in panels[at]})
                axes.xaxis.set_major_locator(MaxNLocator(3, integer=True, steps=STEPS))
                axes.set_title(short(_title(*wanted[at], cases), 20 if narrow else 34))
                axes.tick_params(labelleft=at % columns == 0)
                if at // columns < lines - 1:
                    axes.set_xlabel("")
            draw_legend(figure, _handles(labels, shown, published), narrow)

        return lines * (165 if narrow else 200) + 8 + legend_height(names, narrow), paint

    return picture("rare-classes", f"Line charts of accuracy by class over rounds. {told}.", caption, draw)


def _title(case: Facts, c: int, cases: Sequence[Facts]) -> str:
    return f"Class {c}" if len(cases) == 1 else f"{clean(case['label'])}: class {c}"


def _curves(study: Facts, case: Facts, kind: Metric) -> list[tuple[Row, Curve]]:
    """Means over replicas. Bands leave out what all methods share under a replica: their median in each round."""
    at, found = np.array(case["rounds"], float), rows(study, case)
    if kind == "objective":
        means = {row.label: np.array(row.found["objective_curve"], float) for row in found}
        kept = {label: np.isfinite(mean) for label, mean in means.items()}
        return [(row, Curve(at[kept[row.label]], *[means[row.label][kept[row.label]]] * 3)) for row in found]
    known = {row.label: values(row.found, "curve") for row in found}
    own = {label: replicas(case, of) for label, of in known.items() if of is not None}
    tuned = [own[row.label] for row in found if row.label in own and not row.published]
    shared = np.median(tuned, axis=0) if len(tuned) > 1 else np.zeros(1)
    made = []
    for row in found:
        curve = Curve(at[:0], at[:0], at[:0], at[:0])
        if row.label in own:
            low, high = np.quantile(own[row.label] - shared, (0.1, 0.9), axis=0) + shared.mean(axis=0)
            curve = Curve(at, own[row.label].mean(axis=0), np.clip(low, 0, 1), np.clip(high, 0, 1))
        made.append((row, curve))
    return made


def _thin(panels: list[list[tuple[Row, Curve]]]) -> list[list[tuple[Row, Curve]]]:
    """Fewer points where there are many lines: a figure stays small."""
    most = int(np.clip(_POINTS // max(1, sum(map(len, panels))), 14, 50))
    return [
        [
            (row, Curve(*(part[evenly(len(part), most)] for part in curve)) if len(curve.round) else curve)
            for row, curve in panel
        ]
        for panel in panels
    ]


def _banded(panel: list[tuple[Row, Curve]]) -> bool:
    """Whether bands are drawn: of many methods they would cover each other."""
    tuned = [curve for row, curve in panel if not row.published and len(curve.round)]
    return len(tuned) <= _MOST_BANDS and any((curve.high > curve.low).any() for curve in tuned)


def _panel(axes: Axes, drawn: list[tuple[Row, Curve]], limits: tuple[float, float], kind: Metric, who: str) -> None:
    for row, curve in drawn if _banded(drawn) else ():
        if not row.published and len(curve.round):
            axes.fill_between(curve.round, curve.low, curve.high, color=colour(row.colour), alpha=0.11, lw=0)
    faint = 0.75 if sum(row.published for row, _ in drawn) <= 8 else 0.4
    for row, curve in sorted(drawn, key=lambda pair: not pair[0].published):
        style = DASHED if row.published else dash(row.colour)
        width, alpha = (1.2, faint) if row.published else (2.5 if row.label == who else 1.7, 1.0)
        axes.plot(curve.round, curve.mean, color=colour(row.colour), ls=style, lw=width, alpha=alpha)
    axes.grid(axis="y", color=INK, alpha=0.12, lw=0.7)
    low, high = limits
    if kind == "accuracy":
        axes.set_ylim(low, high)
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=STEPS))
        axes.yaxis.set_major_formatter(PERCENT)
    elif low > 0 and high / low > 30:
        axes.set_yscale("log")
        axes.set_ylim(low / 1.2, high * 1.2)
        axes.yaxis.set_major_locator(LogLocator(numticks=6))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=STEPS))


def _limits(drawn: list[tuple[Row, Curve]]) -> tuple[float, float]:
    """Where the axis begins and ends: the first steep rounds, and published settings that fail, may leave it."""
    found = [curve for row, curve in drawn if not row.published and len(curve.round)]
    if not found:
        found = [curve for _, curve in drawn if len(curve.round)]
    if not found:
        return 0.0, 1.0
    later = [(c.low[c.round >= _SOON * c.round[-1]].min(), c.high.max()) for c in found]
    low, high = min(a for a, _ in later), max(b for _, b in later)
    room = max(high - low, 1e-9)
    for row, curve in drawn:
        if row.published and len(curve.round):
            end = curve.mean[curve.round >= _SOON * curve.round[-1]]
            low = min(low, end.min()) if end.min() > low - 0.25 * room else low
            high = max(high, end.max())
    first = min(c.low.min() for c in found)
    low = first if low - first < 0.3 * room else low
    margin = 0.04 * (high - low)
    return (low if low <= 0 else max(low - margin, 0.0)), high + margin


def _shared(limits: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """One range for all panels where that flattens none of them."""
    low, high = min(a for a, _ in limits), max(b for _, b in limits)
    narrowest = min(b - a for a, b in limits)
    return [(low, high)] * len(limits) if high - low < 2 * narrowest else limits


def _below(panels: list[list[tuple[Row, Curve]]], limits: list[tuple[float, float]]) -> list[str]:
    gone = {
        clean(row.label): curve.mean[-1]
        for panel, (low, _) in zip(panels, limits, strict=True)
        for row, curve in panel
        if len(curve.round) and (curve.mean[1:] if len(curve.mean) > 1 else curve.mean).max() < low
    }
    return [f"{name} (ends at {percent(end)})" for name, end in gone.items()]


def _replicas(cases: Sequence[Facts]) -> str:
    draws = {len(set(case["draw"])) for case in cases}
    runs = {len(case["draw"]) for case in cases}
    if len(draws) == len(runs) == 1:
        n, m = draws.pop(), runs.pop()
        if n > 1:
            each = f", {m // n} seeds each" if m > n else ""
            return f"{n} data draws{each}"
        return f"{m} seeds" if m > 1 else "one run"
    return "all runs"


def _handles(labels: list[str], shown: list[str], published: bool) -> list[Line2D]:
    handles = [
        Line2D([], [], color=colour(i), ls=dash(i), lw=2.2, label=short(label, 22))
        for i, label in enumerate(labels)
        if label in shown
    ]
    if published:
        handles.append(Line2D([], [], color=INK, ls=DASHED, lw=1.2, alpha=0.75, label=AS_PUBLISHED))
    return handles


def _ends(cases: Sequence[Facts], panels: list[list[tuple[Row, Curve]]], kind: Metric) -> str:
    told, measure = [], "late" if kind == "accuracy" else "objective"
    for case, panel in zip(cases, panels, strict=True):
        known = {row.label: measured(case, row.found, measure) for row, _ in panel if not row.published}
        means = {label: found.mean for label, found in known.items() if found is not None}
        ranked = sorted(means, key=lambda label: means[label], reverse=kind == "accuracy")
        ends = [f"{clean(label)} {value(kind, means[label])}" for label in ranked[: 8 if len(cases) == 1 else 2]]
        told.append(f"{clean(case['label'])}{': ' if case['label'] else ''}{', '.join(ends)}")
    return f"Best at the end: {'; '.join(told)}."
