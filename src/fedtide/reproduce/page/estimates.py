"""Errors of the estimates of availability and correlation."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from fedtide.report.picture import Picture, draw_legend, grid, level_lines, picture, with_legend
from fedtide.report.svg import colour
from fedtide.reproduce.page.ends import places_below, spots_of
from fedtide.reproduce.results import Level, Results, level
from fedtide.reproduce.study import Study
from fedtide.text import clean, number

_NAMES = {"availability": "availability π̂", "correlation": "correlation λ̂"}

_Points = list[tuple[float, Level]]  # (value of the case, mean error)


def estimates(study: Study, results: Results) -> Picture | None:
    """The mean absolute errors of an estimator over the values of the cases."""
    lines = {_NAMES[name]: points for name in _NAMES if (points := _points(results, name))}
    if not lines:
        return None
    axis = clean(study.axis or "case")
    errors = "; ".join(
        f"{name}: " + ", ".join(f"{error.mean:.2g} at {number(x, 'g')}" for x, error in points)
        for name, points in lines.items()
    )
    caption = (
        f"Mean absolute error of the estimates over all clients before the first round, by {axis}. Whiskers are 95% "
        "intervals."
    )
    marks = dict(zip(lines, "os", strict=False))
    handles = [
        Line2D([], [], color=colour(i), lw=2, marker=marks[name], ms=5, label=name) for i, name in enumerate(lines)
    ]

    def paint(figure: Figure, narrow: bool):
        axes = figure.subplots()
        spots = spots_of([x for points in lines.values() for x, _ in points])
        for i, (name, points) in enumerate(lines.items()):
            x, means = [spots[value] for value, _ in points], [error.mean for _, error in points]
            axes.plot(x, means, color=colour(i), lw=2, marker=marks[name], ms=5)
            for place, (_, error) in zip(x, points, strict=True):
                axes.plot([place, place], error.ends, color=colour(i), lw=1.2, alpha=0.7)
        places_below(axes, spots, narrow)
        _errors(axes, [error for points in lines.values() for _, error in points])
        axes.set_xlabel(study.axis)
        axes.set_ylabel("Mean absolute error")
        draw_legend(figure, handles, narrow)

    heights = with_legend(list(lines), 270, 240)
    alt = f"Line chart of the mean absolute errors of estimates by {axis}. {errors}."
    return picture("estimates", alt, caption, heights, paint)


def _points(results: Results, name: str) -> _Points:
    """The mean error of each case that has a value other than 0, by value."""
    found: _Points = []
    for case in results.cases:
        errors = getattr(case.estimates, name, None)
        error = None if errors is None else level(case.replicas(errors))
        if case.value and error is not None:
            found.append((case.value, error))
    return sorted(found)


def _errors(axes: Axes, errors: list[Level]) -> None:
    """A vertical axis of errors, logarithmic if they span more than a decade."""
    low, high = min(error.mean for error in errors), max(error.mean for error in errors)
    if low <= 0 or high / low <= 10:
        axes.set_ylim(0, 1.1 * max(high, *(error.ends[1] for error in errors)) or 1)
        level_lines(axes, 5)
        return
    axes.set_yscale("log")
    bottom = [end for error in errors if (end := error.ends[0]) > low / 3]  # an interval may reach below 0
    axes.set_ylim(min([low, *bottom]) / 1.2, 1.2 * max(error.ends[1] for error in errors))
    grid(axes, "y")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=8))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
