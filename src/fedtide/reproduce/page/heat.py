"""Heat maps: accuracies over a grid of two arguments, and by class."""

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from fedtide.report.picture import Picture, panels, picture
from fedtide.report.svg import INK, colour
from fedtide.reproduce.page.panels import MOST_PANELS, brief, named
from fedtide.reproduce.results import CaseResult, Results
from fedtide.reproduce.study import Study
from fedtide.text import clean, short

_PALEST, _STRONGEST = 0.03, 0.55  # opacity, low enough that numbers are legible
_MOST_NUMBERED = 16  # columns; with more of them, cells have no numbers


class Heat(NamedTuple):
    """A table of accuracies; nan for empty cells."""

    title: str
    down: list[str]
    across: list[str]
    cells: np.ndarray  # [down, across]
    below: Sequence[str] = ()  # accuracies outside the grid


def grid(study: Study, results: Results) -> Picture | None:
    """Accuracy over two arguments of a method, on all classes and on those that claims are about.

    If the study has no grid, accuracy by method (down) and case (across).
    """
    heats: list[Heat] = []
    for case in results.cases:
        cells = {m.label: cell for m in case.methods if (cell := study.cell(m.label)) is not None}
        if not cells:
            continue
        down, across = (sorted({cell[i] for cell in cells.values()}) for i in (0, 1))
        for what, means in _quantities(study, case):
            table = np.full((len(down), len(across)), np.nan)
            for label, (y, x) in cells.items():
                table[down.index(y), across.index(x)] = means.get(label, np.nan)
            others = [f"{clean(label)}: {100 * means[label]:.1f}" for label in means if label not in cells]
            title = named(case, len(results.cases) > 1, what)
            heats.append(Heat(title, [f"{y:g}" for y in down], [f"{x:g}" for x in across], table, others))
    heats, names = heats[:MOST_PANELS], list(study.grid)
    if not heats:
        return _by_case(results)
    caption = (
        f"Accuracy in percent over the last fifth of the run for each {names[0]} (down) and {names[1]} (across), mean "
        "over all runs. Stronger colour means higher accuracy; the best cell has a frame."
    )
    bests = "; ".join(f"{heat.title}: {_best(heat, names)}" for heat in heats)
    return _picture("grid", f"Tables of accuracy over {names[0]} and {names[1]}. {bests}.", caption, heats, names)


def _by_case(results: Results) -> Picture | None:
    known = [{m.label: case.level(m, "final") for m in case.methods} for case in results.cases]
    labels = list(dict.fromkeys(label for levels in known for label, level in levels.items() if level is not None))
    if not labels:
        return None
    cells = np.array([[level.mean if (level := of.get(label)) else np.nan for of in known] for label in labels])
    heat = Heat("", labels, [case.label for case in results.cases], cells)
    caption = (
        "Accuracy in percent over the last fifth of the run, mean over all runs. Stronger colour means higher "
        "accuracy; the best cell of each column has a frame."
    )
    first = np.nan_to_num(cells, nan=-1.0).argmax(axis=0)
    best = [f"{clean(case.label)}: {clean(labels[i])}" for case, i in zip(results.cases, first, strict=True)]
    alt = f"Table of accuracy, methods down and cases across. Best of each: {'; '.join(best)}."
    return _picture("grid", alt, caption, [heat], ("", ""), by_column=True)


def classes(study: Study, results: Results) -> Picture | None:
    """Accuracy by class for each method."""
    heats = []
    for case in results.cases:
        means = _by_class(case)
        if means:
            cells = np.array(list(means.values()))
            title = named(case, len(results.cases) > 1)
            heats.append(Heat(title, list(means), [str(c) for c in range(cells.shape[1])], cells))
    heats = heats[:MOST_PANELS]
    if not heats:
        return None
    caption = (
        "Accuracy on each class in percent over the last fifth of the run, mean over all runs. Stronger colour means "
        "higher accuracy; the best method for each class has a frame."
    )
    ranges = "; ".join(
        (f"{heat.title}: " if heat.title else "")
        + ", ".join(
            f"{clean(name)} {100 * np.nanmin(cells):.0f} to {100 * np.nanmax(cells):.0f}%"
            for name, cells in zip(heat.down, heat.cells, strict=True)
        )
        for heat in heats
    )
    alt = f"Tables of accuracy by class. Worst and best class: {ranges}."
    return _picture("classes", alt, caption, heats, ("", "class"), by_column=True)


def selected_classes(study: Study, results: Results, most: int = 3) -> list[int]:
    """The classes that claims are about, or else those on which methods differ most."""
    if study.claimed_classes:
        return study.claimed_classes[:most]
    known = [method.values("classes") for method in results.cases[0].methods]
    means = [values.mean(axis=0) for values in known if values is not None]
    return sorted(np.argsort(-np.ptp(means, axis=0), kind="stable")[:most].tolist()) if means else []


def _by_class(case: CaseResult) -> dict[str, np.ndarray]:
    """The mean accuracy [classes] of each method."""
    known = {method.label: method.values("classes") for method in case.methods}
    return {label: case.replicas(values).mean(axis=0) for label, values in known.items() if values is not None}


def _quantities(study: Study, case: CaseResult) -> list[tuple[str, dict[str, float]]]:
    """Accuracy of each method of a case: on all classes, then on those that claims are about."""
    overall = {method.label: case.level(method, "final") for method in case.methods}
    quantities = [("All classes", {label: level.mean for label, level in overall.items() if level is not None})]
    means = _by_class(case)
    if means:
        quantities += [
            (f"Class {c}", {label: float(own[c]) for label, own in means.items()}) for c in study.claimed_classes
        ]
    return quantities


def _best(heat: Heat, names: Sequence[str]) -> str:
    if np.isnan(heat.cells).all():
        return "no values"
    r, c = np.unravel_index(np.nanargmax(heat.cells), heat.cells.shape)
    return f"best {100 * heat.cells[r, c]:.1f}% at {names[0]} = {heat.down[r]}, {names[1]} = {heat.across[c]}"


def _picture(
    name: str, alt: str, caption: str, heats: Sequence[Heat], names: Sequence[str], by_column: bool = False
) -> Picture:
    most = max(len(heat.across) for heat in heats)
    layout = 1 if most > 7 else 2 if most > 5 else 3, 1  # columns, wide and narrow

    def row_heights(columns: int) -> list[int]:
        """The height in pixels of the tallest table in each row of panels."""
        folds = [heats[at : at + columns] for at in range(0, len(heats), columns)]
        return [(22 if most > 7 else 26) * max(len(heat.down) for heat in fold) for fold in folds]

    def paint(figure: Figure, narrow: bool):
        columns = layout[narrow]
        axes = panels(figure, len(heats), columns, height_ratios=row_heights(columns))
        for own, heat in zip(axes, heats, strict=True):
            _table(own, heat, narrow, by_column)
            own.set_ylabel(names[0], rotation=0, ha="right", va="center")
            own.xaxis.set_label_position("top")
            own.set_xlabel(names[1])
            if heat.title:
                own.set_title(short(heat.title, 40), pad=6)
            for line, text in enumerate(heat.below):
                # In pixels below the table, since table heights differ.
                own.annotate(short(text, 46), (0, 0), (0, -6 - 16 * line), xycoords="axes fraction",
                             textcoords="offset points", va="top", fontsize=11)  # fmt: skip

    around = 46 + 20 * any(heat.title for heat in heats) + 20 * any(heat.below for heat in heats)  # titles and notes
    heights = [sum(height + around for height in row_heights(columns)) for columns in layout]
    return picture(name, alt, caption, heights, paint)


def _table(axes: Axes, heat: Heat, narrow: bool, by_column: bool) -> None:
    shape = heat.cells.shape
    low, high = np.nanmin(heat.cells), np.nanmax(heat.cells)
    # Most cells are near the best; a failure far below must not give them all the same colour.
    low = max(low, high - 4 * (high - np.nanmedian(heat.cells))) if high > np.nanmedian(heat.cells) else low
    numbered = shape[1] <= _MOST_NUMBERED
    decimals = 0 if shape[1] > 7 and narrow else 1
    size = 9 if shape[1] > 9 and narrow else 10.5
    best = np.broadcast_to(np.nanmax(heat.cells, axis=0 if by_column else None), shape)
    for (r, c), share in np.ndenumerate(heat.cells):
        if np.isnan(share):
            continue
        near = 1.0 if high == low else float(np.clip((share - low) / (high - low), 0, 1))
        strength = _PALEST + (_STRONGEST - _PALEST) * near**1.5
        axes.add_patch(Rectangle((c + 0.03, r + 0.05), 0.94, 0.9, color=colour(0), alpha=strength, lw=0))
        top = share == best[r, c]
        if top and shape[0] > 1:
            axes.add_patch(Rectangle((c + 0.03, r + 0.05), 0.94, 0.9, fill=False, edgecolor=INK, lw=1.3))
        if numbered:
            text = f"{100 * share:.{decimals}f}"
            axes.text(c + 0.5, r + 0.5, text, ha="center", va="center_baseline", fontsize=size,
                      weight="bold" if top else "normal")  # fmt: skip
    axes.set_xlim(0, shape[1])
    axes.set_ylim(shape[0], 0)
    axes.xaxis.tick_top()
    every = 1 if numbered else 5
    wide = 26 if narrow else 40  # characters that fit in all columns together
    names = ["\n".join(textwrap.wrap(short(name, 24), max(4, wide // shape[1]))) for name in heat.across]
    axes.set_xticks(np.arange(0, shape[1], every) + 0.5, names[::every])
    axes.set_yticks(np.arange(shape[0]) + 0.5, [brief(name, 18 if narrow else 30) for name in heat.down])
    axes.yaxis.set_tick_params(labelsize=10 if narrow else 11)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
