"""Mean weights of the clients of each kind."""

from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from fedtide.report.picture import Picture, group_height, grouped_rows, panel_heights, panels, picture, ticks
from fedtide.report.svg import INK, colour
from fedtide.reproduce.page.panels import MOST_PANELS, PlottedMethod, legend, named, rows
from fedtide.reproduce.results import CaseResult, Level, Results, level
from fedtide.reproduce.study import Study
from fedtide.text import clean, short

_COLUMNS = 3  # of panels, in the wide layout


class _Weighted(NamedTuple):
    row: PlottedMethod
    levels: dict[str, Level]  # by kind of client


def weights(study: Study, results: Results) -> Picture | None:
    """The mean weight of the clients of each kind in units of their importance, a panel for each case."""
    drawn = [(case, own) for case in results.cases if (own := _weighted(study, case))][:MOST_PANELS]
    if not drawn:
        return None
    kinds = list(dict.fromkeys(kind for _, own in drawn for one in own for kind in one.levels))
    key = legend(study, [one.row for _, own in drawn for one in own], marker="o")
    several = len(drawn) > 1
    means = "; ".join(
        named(case, several, f"{clean(one.row.label)}: ")
        + ", ".join(f"{clean(kind)} {mean.mean:.2f}" for kind, mean in one.levels.items())
        for case, own in drawn
        for one in own
    )
    caption = (
        "Mean weight over all rounds of the clients of each kind, in units of their importance; 1 is the weight that "
        "the objective asks for. Whiskers are 95% intervals."
    )
    caption += " Hollow: published settings." if key.published else ""
    highest = max([1.0, *(end for _, own in drawn for one in own for mean in one.levels.values() for end in mean.ends)])
    across = max(len(own) for _, own in drawn)

    def paint(figure: Figure, narrow: bool):
        columns = 1 if narrow else _COLUMNS
        for at, axes in enumerate(panels(figure, len(drawn), columns)):
            case, own = drawn[at]
            _panel(axes, kinds, own, across, narrow)
            axes.set_xlim(-0.015 * highest, 1.06 * highest)
            axes.tick_params(labelleft=at % columns == 0)
            if several:
                axes.set_title(short(case.label, 32))
            if at + columns >= len(drawn):
                axes.set_xlabel("Weight / importance")
        key.draw(figure, narrow)

    each = tuple(len(kinds) * group_height(across, narrow) + (44 if several else 20) for narrow in (False, True))
    heights = key.heights(*panel_heights(len(drawn), (_COLUMNS, 1), (each[0], each[1]), 34))
    alt = f"Dot charts of mean weights by kind of client, in units of their importance. {means}."
    return picture("weights", alt, caption, heights, paint)


def _weighted(study: Study, case: CaseResult) -> list[_Weighted]:
    """The methods whose weights were recorded, with the levels that are finite."""
    record, found = case.inclusion, []
    if record is None:
        return []
    for row in rows(study, case):
        invited = record.methods.get(row.label)
        if invited is None or invited.weight is None:
            continue
        known = zip(record.kinds, (level(case.replicas(weight)) for weight in invited.weight), strict=True)
        found.append(_Weighted(row, {kind: mean for kind, mean in known if mean is not None}))
    return [one for one in found if one.levels]


def _panel(axes: Axes, kinds: list[str], own: list[_Weighted], across: int, narrow: bool) -> None:
    places = grouped_rows(axes, kinds, across, narrow)
    ticks(axes.xaxis, 4, FuncFormatter(lambda x, _: f"{x:g}"))
    axes.axvline(1, color=INK, lw=1, alpha=0.6)
    for at, (row, levels) in enumerate(own):
        shade = colour(row.colour)
        for kind, mean in levels.items():
            y = places[kinds.index(kind), at]
            axes.plot(mean.ends, [y, y], color=shade, lw=1.7, alpha=0.9)
            axes.plot([mean.mean], [y], "o", color=shade, ms=6, mfc="none" if row.published else shade, mew=1.3)
