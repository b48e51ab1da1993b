"""Tables as pictures: accuracies over a grid of two arguments, and by class."""

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from fedtide.report.picture import Picture, picture
from fedtide.report.reproduction_numbers import Facts, brief, coordinates, measured, replicas, rows, values, watched
from fedtide.report.svg import INK, colour
from fedtide.report.words import clean, short

_PALEST, _STRONGEST = 0.03, 0.55  # of colour, so that numbers stay legible
_MOST_PANELS = 12
_MOST_NUMBERED = 16  # with more columns, cells have no numbers


class Heat(NamedTuple):
    """A table of shares: `nan` where there is nothing."""

    title: str
    down: list[str]
    across: list[str]
    cells: np.ndarray  # [down, across]
    below: Sequence[str] = ()  # what else there is to compare with


def grid(study: Facts, results: Facts) -> Picture | None:
    """Accuracy over two arguments of a method, of all classes and of those that claims are about.

    Where no method stands for a pair of arguments: of methods (down) in all cases (across).
    """
    found: list[Heat] = []
    names = ("", "")
    for case in results["cases"]:
        places = {row.label: _place(row.found) for row in rows(study, case)}
        inside = {label: place for label, place in places.items() if place is not None}
        if not inside:
            continue
        names = next(iter(inside.values()))[0]
        down, across = (sorted({at[i] for _, at in inside.values()}) for i in (0, 1))
        head = clean(case["label"]) if len(results["cases"]) > 1 else ""
        for what, of in _quantities(study, case):
            cells = np.full((len(down), len(across)), np.nan)
            for label, (_, at) in inside.items():
                cells[down.index(at[0]), across.index(at[1])] = of.get(label, np.nan)
            others = [f"{clean(label)}: {100 * of[label]:.1f}" for label in of if label not in inside]
            title = ": ".join(filter(None, (head, what)))
            labels = [f"{x:g}" for x in down], [f"{x:g}" for x in across]
            found.append(Heat(title, *labels, cells, others))
    found = found[:_MOST_PANELS]
    if not found:
        return _by_case(study, results)
    caption = (
        f"Accuracy in percent over the last fifth of the run for each {names[0]} (down) and {names[1]} (across); means "
        "over all runs. The stronger the colour, the better; framed: the best."
    )
    told = "; ".join(f"{heat.title}: {_best(heat, names)}" for heat in found)
    return _drawn("grid", f"Tables of accuracy over {names[0]} and {names[1]}. {told}.", caption, found, names)


def _by_case(study: Facts, results: Facts) -> Picture | None:
    cases = results["cases"]
    known = [{row.label: measured(case, row.found, "late") for row in rows(study, case)} for case in cases]
    labels = list(dict.fromkeys(label for of in known for label, level in of.items() if level is not None))
    if not labels:
        return None
    levels = [[of.get(label) for of in known] for label in labels]
    cells = np.array([[np.nan if level is None else level.mean for level in own] for own in levels])
    heat = Heat("", labels, [case["label"] for case in cases], cells)
    caption = (
        "Accuracy in percent over the last fifth of the run; means over all runs. The stronger the colour, the better; "
        "framed: the best of its column."
    )
    best = [f"{clean(case['label'])}: {clean(labels[i])}" for case, i in zip(cases, _argmax(cells), strict=True)]
    alt = f"Table of accuracy, methods down and cases across. Best of each: {'; '.join(best)}."
    return _drawn("grid", alt, caption, [heat], ("", ""), by_column=True)


def _argmax(cells: np.ndarray) -> list[int]:
    return np.nan_to_num(cells, nan=-1.0).argmax(axis=0).tolist()


def classes(study: Facts, results: Facts) -> Picture | None:
    """Accuracy by class under each method."""
    found = []
    for case in results["cases"]:
        own = [(row, values(row.found, "classes")) for row in rows(study, case)]
        means = {row.label: replicas(case, of).mean(axis=0) for row, of in own if of is not None}
        if means:
            cells = np.array(list(means.values()))
            title = clean(case["label"]) if len(results["cases"]) > 1 else ""
            found.append(Heat(title, list(means), [str(c) for c in range(cells.shape[1])], cells))
    if not found:
        return None
    caption = (
        "Accuracy on each class in percent over the last fifth of the run; means over all runs. The stronger the "
        "colour, the better; framed: the best method for the class."
    )
    told = "; ".join(
        (f"{heat.title}: " if heat.title else "")
        + ", ".join(
            f"{clean(name)} {100 * np.nanmin(cells):.0f} to {100 * np.nanmax(cells):.0f}%"
            for name, cells in zip(heat.down, heat.cells, strict=True)
        )
        for heat in found[:_MOST_PANELS]
    )
    alt = f"Tables of accuracy by class. Worst and best class: {told}."
    return _drawn("classes", alt, caption, found[:_MOST_PANELS], ("", "class"), by_column=True)


def telling_classes(study: Facts, results: Facts, most: int = 3) -> list[int]:
    """The classes that claims are about; otherwise those on which methods differ most."""
    named = watched(study)
    if named:
        return named[:most]
    case = results["cases"][0]
    found = [values(row.found, "classes") for row in rows(study, case)]
    means = [of.mean(axis=0) for of in found if of is not None]
    return sorted(np.argsort(-np.ptp(means, axis=0), kind="stable")[:most].tolist()) if means else []


def _place(method: Facts) -> tuple[tuple[str, str], tuple[float, float]] | None:
    """The two arguments that a cell stands for: of the label, or as they were written."""
    _, numbers = coordinates(method["label"])
    if len(numbers) < 2:
        written = method.get("written") or {}
        numbers = {sign: written[name] for name, sign in (("alpha", "α"), ("gamma", "γ")) if name in written}
    if len(numbers) < 2:
        return None
    (first, x), (second, y) = list(numbers.items())[:2]
    return (first, second), (float(x), float(y))


def _quantities(study: Facts, case: Facts) -> list[tuple[str, dict[str, float]]]:
    """What is told for every method of a case: overall accuracy, then classes."""
    own = rows(study, case)
    overall = {row.label: measured(case, row.found, "late") for row in own}
    found = [("All classes", {label: known.mean for label, known in overall.items() if known is not None})]
    for c in watched(study):
        by_class = {row.label: values(row.found, "classes") for row in own}
        told = {label: float(replicas(case, of).mean(axis=0)[c]) for label, of in by_class.items() if of is not None}
        found += [(f"Class {c}", told)] if told else []
    return found


def _best(heat: Heat, names: tuple[str, str]) -> str:
    if np.isnan(heat.cells).all():
        return "nothing"
    r, c = np.unravel_index(np.nanargmax(heat.cells), heat.cells.shape)
    return f"best {100 * heat.cells[r, c]:.1f}% at {names[0]} = {heat.down[r]}, {names[1]} = {heat.across[c]}"


def _drawn(
    name: str, alt: str, caption: str, found: Sequence[Heat], names: tuple[str, str], by_column: bool = False
) -> Picture:
    def draw(narrow: bool):
        most = max(len(heat.across) for heat in found)
        columns = 1 if narrow or most > 7 else min(len(found), 2 if most > 5 else 3)
        lines = -(-len(found) // columns)
        cell = 22 if most > 7 else 26
        # By row of panels, the pixels of its tallest table with its title and what stands below.
        folds = [found[at * columns : (at + 1) * columns] for at in range(lines)]
        heights = [cell * max(len(heat.down) for heat in fold) for fold in folds]
        around = (
            46 + (20 if any(heat.title for heat in found) else 0) + (20 if any(heat.below for heat in found) else 0)
        )

        def paint(figure: Figure):
            axes = figure.subplots(lines, columns, squeeze=False, height_ratios=heights)
            for at, own in enumerate(axes.flat):
                if at >= len(found):
                    own.set_visible(False)
                    continue
                _table(own, found[at], narrow, by_column)
                own.set_ylabel(names[0], rotation=0, ha="right", va="center")
                own.xaxis.set_label_position("top")
                own.set_xlabel(names[1])
                if found[at].title:
                    own.set_title(short(found[at].title, 40), pad=6)
                for line, text in enumerate(found[at].below):
                    # By pixels below the table, whose height differs.
                    own.annotate(short(text, 46), (0, 0), (0, -6 - 16 * line), xycoords="axes fraction",
                                 textcoords="offset points", va="top", fontsize=11)  # fmt: skip

        return sum(heights) + lines * around, paint

    return picture(name, alt, caption, draw)


def _table(axes: Axes, heat: Heat, narrow: bool, by_column: bool) -> None:
    shape = heat.cells.shape
    low, high = np.nanmin(heat.cells), np.nanmax(heat.cells)
    # Most cells are near the best; a failure far below must not make them all look alike.
    low = max(low, high - 4 * (high - np.nanmedian(heat.cells))) if high > np.nanmedian(heat.cells) else low
    numbered = shape[1] <= _MOST_NUMBERED
    decimals = 0 if shape[1] > 7 and narrow else 1
    size = 9 if shape[1] > 9 and narrow else 10.5
    best = np.nanmax(heat.cells, axis=0 if by_column else None)
    for (r, c), share in np.ndenumerate(heat.cells):
        if np.isnan(share):
            continue
        near = 1.0 if high == low else float(np.clip((share - low) / (high - low), 0, 1))
        strength = _PALEST + (_STRONGEST - _PALEST) * near**1.5
        axes.add_patch(Rectangle((c + 0.03, r + 0.05), 0.94, 0.9, color=colour(0), alpha=strength, lw=0))
        top = share == (best[c] if by_column else best)
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
    wide = 26 if narrow else 40  # characters that all columns have room for
    names = ["\n".join(textwrap.wrap(short(name, 24), max(4, wide // shape[1]))) for name in heat.across]
    axes.set_xticks(np.arange(0, shape[1], every) + 0.5, names[::every])
    axes.set_yticks(np.arange(shape[0]) + 0.5, [brief(name, 18 if narrow else 30) for name in heat.down])
    axes.yaxis.set_tick_params(labelsize=10 if narrow else 11)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
