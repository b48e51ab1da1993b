"""Which method is best where."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from fedtide.report.picture import Picture, draw_legend, legend_height, picture
from fedtide.report.reproduction_numbers import Facts, Level, coordinates, level, order, replicas, rows, values
from fedtide.report.svg import INK, LIGHT, colour
from fedtide.report.words import clean, short

_HORIZONS = (0.1, 0.3, 1.0)  # of the rounds, at which methods are compared
_WINDOW = 0.2  # of the rounds up to a horizon that are averaged
_CLEAR, _PALE = 0.45, 0.12  # of colour


class _Winner(NamedTuple):
    first: str
    second: str
    lead: Level
    clear: bool  # the whole interval of the lead is above 0


def winners(study: Facts, results: Facts) -> list[tuple[int, dict[str, _Winner]]]:
    """At several horizons, the best method of each case and its paired lead over the next, in points."""
    last = max(case["rounds"][-1] for case in results["cases"])
    found = []
    for share in _HORIZONS:
        horizon = round(share * last)
        best = {}
        for case in results["cases"]:
            at = np.array(case["rounds"])
            inside = (at > (1 - _WINDOW) * horizon) & (at <= horizon)
            inside = inside if inside.any() else at == at[np.abs(at - horizon).argmin()]
            scores = {}
            for row in rows(study, case):
                curve = None if row.published else values(row.found, "curve")
                if curve is not None:
                    scores[row.label] = replicas(case, 100 * curve[:, inside].mean(axis=1))
            ranked = sorted(scores, key=lambda label: -scores[label].mean())
            if len(ranked) > 1:
                lead = level(scores[ranked[0]] - scores[ranked[1]])
                best[case["label"]] = _Winner(ranked[0], ranked[1], lead, lead.low is not None and lead.low > 0)
        if best:
            found.append((horizon, best))
    return found


def codes(labels: Sequence[str]) -> dict[str, str]:
    """One or two letters for each label, all different."""
    found: dict[str, str] = {}
    for label in labels:
        letters = re.sub(r"[^A-Za-z0-9]", "", label) or label
        capitals = re.sub(r"[^A-Z0-9]", "", label.removeprefix("Fed")) or letters
        tries = [capitals[0].upper(), capitals[:2].upper(), *(letters[0].upper() + x.lower() for x in letters[1:])]
        found[label] = next((t for t in tries if t not in found.values()), letters)
    return found


def best_map(study: Facts, results: Facts) -> Picture | None:
    """Which method is best where, and by how much: a table for each horizon."""
    found = winners(study, results)
    places = {case["label"]: coordinates(case["label"]) for case in results["cases"]}
    placed = {label: list(numbers.items())[:2] for label, (_, numbers) in places.items() if len(numbers) > 1}
    labels = order(study)
    if not found:
        return None
    names = tuple(name for name, _ in next(iter(placed.values()))) if placed else ("", "")
    loose = [label for label in places if label not in placed]
    down = sorted({at[1][1] for at in placed.values()}, reverse=True)
    across = sorted({at[0][1] for at in placed.values()})
    tall = len(down) + (0.3 + 0.8 * len(loose) if loose else 0)  # rows, in cells
    code = codes(labels)
    leaders = [label for label in labels if any(w.first == label for _, best in found for w in best.values())]
    # With more methods than colours, those that lead must differ.
    shades = {m: i for i, m in enumerate(labels if len(labels) <= len(LIGHT) else leaders)}
    counted = [(horizon, Counter(w.first for w in best.values() if w.clear), len(best)) for horizon, best in found]
    told = []
    for horizon, leads, cells in counted:
        some = [f"{clean(label)} in {n}" for label, n in leads.most_common()] or ["nobody"]
        told.append(f"after {horizon:,} rounds {', '.join(some)} of {cells}")
    caption = (
        "The best method in each cell and its lead over the next one, in points of test accuracy, on the same data and "
        f"seeds. Pale and hatched with two names: the lead is within noise. Clearly ahead: {'; '.join(told)}."
    )

    def draw(narrow: bool):
        columns = 1 if narrow else min(len(found), 3)
        lines = -(-len(found) // columns)
        height = 40 * max(len(down), 1) + 30 * len(loose)
        handles = [Patch(color=colour(shades[m]), alpha=_CLEAR, label=f"{code[m]}  {short(m, 20)}") for m in leaders]
        handles.append(Patch(facecolor="none", edgecolor=INK, hatch="////", lw=0.5, alpha=0.4, label="within noise"))

        def paint(figure: Figure):
            for at, axes in enumerate(figure.subplots(lines, columns, squeeze=False).flat):
                if at >= len(found):
                    axes.set_visible(False)
                    continue
                horizon, best = found[at]
                for label, won in best.items():
                    if label in placed:
                        (_, x), (_, y) = placed[label]
                        _won(axes, (across.index(x), down.index(y)), 1, won, shades, code)
                    else:
                        row = len(down) + 0.25 + loose.index(label) * 0.8
                        _won(axes, (0, row), max(len(across), 1), won, shades, code, label)
                axes.set_title(f"After {horizon:,} rounds")
                axes.set_xlim(0, max(len(across), 1))
                axes.set_ylim(tall, 0)
                axes.set_xticks(np.arange(len(across)) + 0.5, [f"{x:g}" for x in across])
                axes.set_yticks(np.arange(len(down)) + 0.5, [f"{y:g}" for y in down])
                axes.xaxis.tick_top()
                axes.xaxis.set_label_position("top")
                axes.tick_params(length=0)
                axes.spines[:].set_visible(False)
                axes.set_xlabel(names[0])
                if at % columns == 0:
                    turn: dict[str, Any] = {"rotation": 0, "ha": "right"} if len(names[1]) <= 3 else {}
                    axes.set_ylabel(names[1], y=1 - len(down) / 2 / tall, **turn)
            draw_legend(figure, handles, narrow)

        room = legend_height([str(h.get_label()) for h in handles], narrow)
        return lines * (height + 60) + 10 + room, paint

    return picture("map", f"Maps of the best method. Clearly ahead: {'; '.join(told)}.", caption, draw)


def _won(
    axes: Axes, at: tuple[float, float], wide: float, won: _Winner, shades: dict[str, int], code: dict[str, str],
    name: str = "",
) -> None:  # fmt: skip
    x, y = at
    high = 0.72 if name else 0.94
    shade = colour(shades[won.first])
    axes.add_patch(
        Rectangle((x + 0.03, y + 0.03), wide - 0.06, high, color=shade, alpha=_CLEAR if won.clear else _PALE, lw=0)
    )
    if not won.clear:
        hatch = Rectangle((x + 0.03, y + 0.03), wide - 0.06, high, fill=False, edgecolor=INK, lw=0, alpha=0.18)
        hatch.set_hatch("////")
        axes.add_patch(hatch)
    who = code[won.first] if won.clear else f"{code[won.first]}≈{code[won.second]}"
    lead = f"+{won.lead.mean:.1f}"
    middle = y + high / 2 + 0.03
    if name:
        axes.text(x + 0.12, middle, f"{short(name, 22)}:  {who}  {lead}", va="center_baseline", fontsize=10.5)
        return
    axes.text(x + wide / 2, middle - 0.17, who, ha="center", va="center_baseline", fontsize=11,
              weight="bold" if won.clear else "normal")  # fmt: skip
    axes.text(x + wide / 2, middle + 0.21, lead, ha="center", va="center_baseline", fontsize=9.5)
