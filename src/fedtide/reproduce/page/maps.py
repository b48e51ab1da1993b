"""Map of the best method."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from fedtide.report.picture import Picture, draw_legend, panel_heights, panels, picture, with_legend
from fedtide.report.svg import INK, LIGHT, colour
from fedtide.reproduce.results import Level, Results, level
from fedtide.reproduce.study import Study
from fedtide.text import clean, short

_HORIZONS = (0.1, 0.3, 1.0)  # fractions of the rounds at which methods are compared
_WINDOW = 0.2  # fraction of the rounds up to a horizon over which accuracy is averaged
_CLEAR, _PALE = 0.45, 0.12  # opacity


class Winner(NamedTuple):
    """The best method of a case."""

    first: str
    second: str
    lead: Level
    clear: bool  # the lead is significant: its whole interval is above 0


class Horizon(NamedTuple):
    """The best method of each case after a number of rounds."""

    rounds: int
    best: dict[str, Winner]  # by case

    @property
    def clear(self) -> Counter[str]:
        """The number of cases in which each method is significantly ahead."""
        return Counter(won.first for won in self.best.values() if won.clear)


def winners(study: Study, results: Results) -> list[Horizon]:
    """At several horizons, the best method of each case and its paired lead over the second, in points."""
    last = max(case.rounds[-1] for case in results.cases)
    horizons = [Horizon(round(share * last), {}) for share in _HORIZONS]
    for horizon, best in horizons:
        for case in results.cases:
            at = np.array(case.rounds)
            inside = (at > (1 - _WINDOW) * horizon) & (at <= horizon)
            inside = inside if inside.any() else at == at[np.abs(at - horizon).argmin()]
            curves = {m.label: m.values("curve") for m in case.methods if m.label not in study.published}
            scores = {
                label: case.replicas(100 * curve[:, inside].mean(axis=1))
                for label, curve in curves.items()
                if curve is not None
            }
            ranked = sorted(scores, key=lambda label: -scores[label].mean())
            if len(ranked) > 1 and (lead := level(scores[ranked[0]] - scores[ranked[1]])) is not None:
                best[case.label] = Winner(ranked[0], ranked[1], lead, lead.low is not None and lead.low > 0)
    return [horizon for horizon in horizons if horizon.best]


def codes(labels: Sequence[str]) -> dict[str, str]:
    """Distinct codes of one or two letters for the labels."""
    result: dict[str, str] = {}
    for label in labels:
        letters = re.sub(r"[^A-Za-z0-9]", "", label) or label
        capitals = re.sub(r"[^A-Z0-9]", "", label.removeprefix("Fed")) or letters
        tries = [capitals[0].upper(), capitals[:2].upper(), *(letters[0].upper() + x.lower() for x in letters[1:])]
        result[label] = next((t for t in tries if t not in result.values()), letters)
    return result


def best_map(study: Study, results: Results) -> Picture | None:
    """The best method in each cell and its lead, with a panel for each horizon."""
    horizons = winners(study, results)
    if not horizons:
        return None
    known = {case.label: study.case(case.label).coordinates for case in results.cases}
    across, down = (sorted({list(at.values())[i] for at in known.values()}) for i in (0, 1))
    down.reverse()
    names = list(next(iter(known.values())))
    labels = study.order
    code = codes(labels)
    leaders = [label for label in labels if any(w.first == label for _, best in horizons for w in best.values())]
    # With more methods than colours, only the best methods of some cell have distinct colours.
    shades = {m: i for i, m in enumerate(labels if len(labels) <= len(LIGHT) else leaders)}
    ahead = "; ".join(
        f"after {horizon.rounds:,} rounds "
        + (", ".join(f"{clean(label)} in {n}" for label, n in horizon.clear.most_common()) or "no method in any")
        + f" of {len(horizon.best)} cells"
        for horizon in horizons
    )
    caption = (
        "The best method in each cell and its lead over the second best, in points of test accuracy, on the same data "
        "and seeds. Pale, hatched cells with two names: the lead is not significant at 5%. Significantly ahead: "
        f"{ahead}."
    )

    handles = [Patch(color=colour(shades[m]), alpha=_CLEAR, label=f"{code[m]}  {short(m, 20)}") for m in leaders]
    handles.append(Patch(facecolor="none", edgecolor=INK, hatch="////", lw=0.5, alpha=0.4, label="not significant"))

    def paint(figure: Figure, narrow: bool):
        columns = 1 if narrow else 3
        for at, axes in enumerate(panels(figure, len(horizons), columns)):
            for label, won in horizons[at].best.items():
                x, y = known[label].values()
                _won(axes, (across.index(x), down.index(y)), won, shades, code)
            axes.set_title(f"After {horizons[at].rounds:,} rounds")
            axes.set_xlim(0, len(across))
            axes.set_ylim(len(down), 0)
            axes.set_xticks(np.arange(len(across)) + 0.5, [f"{x:g}" for x in across])
            axes.set_yticks(np.arange(len(down)) + 0.5, [f"{y:g}" for y in down])
            axes.xaxis.tick_top()
            axes.xaxis.set_label_position("top")
            axes.tick_params(length=0)
            axes.spines[:].set_visible(False)
            axes.set_xlabel(names[0])
            if at % columns == 0:
                turn: dict[str, Any] = {"rotation": 0, "ha": "right"} if len(names[1]) <= 3 else {}
                axes.set_ylabel(names[1], **turn)
        draw_legend(figure, handles, narrow)

    row = 40 * len(down) + 60
    sizes = panel_heights(len(horizons), (3, 1), (row, row), 10)
    heights = with_legend([str(handle.get_label()) for handle in handles], *sizes)
    return picture("map", f"Maps of the best method. Significantly ahead: {ahead}.", caption, heights, paint)


def _won(axes: Axes, at: tuple[float, float], won: Winner, shades: dict[str, int], code: dict[str, str]) -> None:
    x, y = at
    box = (x + 0.03, y + 0.03), 0.94, 0.94
    axes.add_patch(Rectangle(*box, color=colour(shades[won.first]), alpha=_CLEAR if won.clear else _PALE, lw=0))
    if not won.clear:
        hatch = Rectangle(*box, fill=False, edgecolor=INK, lw=0, alpha=0.18)
        hatch.set_hatch("////")
        axes.add_patch(hatch)
    who = code[won.first] if won.clear else f"{code[won.first]}≈{code[won.second]}"
    axes.text(x + 0.5, y + 0.33, who, ha="center", va="center_baseline", fontsize=11,
              weight="bold" if won.clear else "normal")  # fmt: skip
    axes.text(x + 0.5, y + 0.71, f"+{won.lead.mean:.1f}", ha="center", va="center_baseline", fontsize=9.5)
