"""The best value of an argument over rounds."""

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter

from fedtide.report.picture import (
    Picture,
    draw_legend,
    fixed_ticks,
    grid,
    panel_heights,
    panels,
    picture,
    rounds_below,
    with_legend,
)
from fedtide.report.svg import INK, colour
from fedtide.reproduce.page.ends import spots_of
from fedtide.reproduce.page.panels import MOST_PANELS, named, rows
from fedtide.reproduce.results import CaseResult, Results, level
from fedtide.reproduce.study import Study
from fedtide.text import clean, number, short

_MOST_CHANGES = 8  # named in the alternative text of a panel
_PALE = {"lw": 8, "alpha": 0.28}


class _Best(NamedTuple):
    rounds: list[int]
    values: list[float]  # that were tried, from the smallest
    best: np.ndarray  # [points], the position of the best value
    tied: np.ndarray  # bool[values, points], not significantly worse than the best
    colours: list[int]


def best(study: Study, results: Results) -> Picture | None:
    """The value of `study.best` with the highest accuracy in each round, a panel for each case."""
    drawn = [(case, found) for case in results.cases if (found := _found(study, case)) is not None][:MOST_PANELS]
    if not drawn:
        return None
    name, several = clean(study.axis or study.best), len(drawn) > 1
    caption = (
        f"The value of {name} with the highest mean test accuracy after each round. Pale: values that are not "
        "significantly worse than the best at 5% (paired)."
    )
    looks = {"best value": {"lw": 2}, "not significantly worse": _PALE}
    handles = [Line2D([], [], color=INK, label=what, **look) for what, look in looks.items()]
    layout = min(len(drawn), 3), 1  # columns, wide and narrow

    def paint(figure: Figure, narrow: bool):
        columns = layout[narrow]
        for at, axes in enumerate(panels(figure, len(drawn), columns)):
            case, found = drawn[at]
            _panel(axes, found)
            rounds_below(axes, 8 if columns == 1 and not narrow else 5, name=at + columns >= len(drawn))
            axes.set_ylabel("" if at % columns else short(name, 24))
            axes.set_title(short(case.label, 34) if several else "")
        draw_legend(figure, handles, narrow)

    each = 60 + 24 * max(len(found.values) for _, found in drawn)
    heights = with_legend(list(looks), *panel_heights(len(drawn), layout, (each, each), 24))
    texts = "; ".join(named(case, several, _in_words(found)) for case, found in drawn)
    alt = f"Step charts of the value of {name} with the highest test accuracy. {texts}."
    return picture("best", alt, caption, heights, paint)


def _found(study: Study, case: CaseResult) -> _Best | None:
    """The best value in each round; None if fewer than two were tried."""
    tried: dict[float, tuple[int, np.ndarray]] = {}  # (colour, accuracy [replicas, points]) by value
    for row in rows(study, case):
        value, curve = row.method.written.get(study.best or ""), row.method.values("curve")
        if isinstance(value, int | float) and not isinstance(value, bool) and curve is not None:
            tried.setdefault(float(value), (row.colour, case.replicas(curve)))
    values = sorted(tried)
    if len(values) < 2:
        return None
    curves = np.array([tried[value][1] for value in values])  # [values, replicas, points]
    highest = curves.mean(axis=1).argmax(axis=0)
    leads = [[level(curves[at, :, i] - one[:, i]) for i, at in enumerate(highest)] for one in curves]
    tied = [[lead is None or lead.low is None or lead.low <= 0 for lead in row] for row in leads]
    return _Best(case.rounds, values, highest, np.array(tied), [tried[value][0] for value in values])


def _in_words(found: _Best) -> str:
    begins = [i for i in range(len(found.best)) if i == 0 or found.best[i] != found.best[i - 1]]
    texts = [f"{number(found.values[found.best[i]], 'g')} from round {found.rounds[i]}" for i in begins]
    if len(texts) > _MOST_CHANGES:
        texts = [texts[0], f"{len(texts) - 2} changes", texts[-1]]
    last = ", ".join(number(found.values[i], "g") for i in np.flatnonzero(found.tied[:, -1]))
    return f"{', '.join(texts)}; not significantly worse in the last: {last}"


def _panel(axes: Axes, found: _Best) -> None:
    y = list(spots_of(found.values).values())
    if y[0] > 0 and y[-1] / y[0] > 100:
        axes.set_yscale("log")
    at = np.array(found.rounds, float)
    edges = np.concatenate([at[:1], (at[1:] + at[:-1]) / 2, at[-1:]])
    for place, tied, shade in zip(y, found.tied, found.colours, strict=True):
        pale = np.where(np.repeat(tied, 2), place, np.nan)
        axes.plot(np.repeat(edges, 2)[1:-1], pale, color=colour(shade), solid_capstyle="butt", **_PALE)
    axes.step(at, np.array(y)[found.best], where="mid", color=INK, lw=2)
    grid(axes, "y")
    axes.plot([at[0]] * len(y), y, lw=0)  # the axis has all values, also those that are never best
    axes.margins(x=0.02, y=0.08)
    fixed_ticks(axes.yaxis, y, FixedFormatter([number(value, "g") for value in found.values]))
