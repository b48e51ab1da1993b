"""Who was there and invited, and what models answer on a plane."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator

from fedtide.report.picture import PERCENT, STEPS, Picture, class_colour, draw_legend, legend_height, picture
from fedtide.report.reproduction_numbers import Facts, brief
from fedtide.report.svg import INK, LIGHT, colour
from fedtide.report.words import clean, percent, short

_MOST_POINTS = 150  # of samples a panel


def inclusion(study: Facts, results: Facts) -> Picture | None:
    """Of the clients of each kind that are there, the share that is invited, over time."""
    found = [
        (case, record, label)
        for case in results["cases"]
        if (record := case.get("inclusion"))
        for label in record["methods"]
    ]
    if not found:
        return None
    kinds = list(dict.fromkeys(kind for _, record, _ in found for kind in record["kinds"]))
    cases, methods = ({one[i] for one in ((case["label"], label) for case, _, label in found)} for i in (0, 1))

    def title(case: Facts, label: str) -> str:
        if len(cases) == 1:
            return clean(label)
        return clean(case["label"]) + (f": {clean(label)}" if len(methods) > 1 else "")

    told = "; ".join(
        f"{title(case, label)}: "
        + ", ".join(
            f"{clean(kind)} {percent(float(np.mean(share)), 0)}"
            for kind, share in zip(record["kinds"], record["methods"][label]["share"], strict=True)
        )
        for case, record, label in found
    )
    who = clean(*methods) if len(methods) == 1 else "the method"
    caption = f"Of the clients of each kind that are there, the share that {who} invites, over rounds."

    def draw(narrow: bool):
        columns = min(len(found), 1 if narrow and len(found) < 3 else 2 if narrow else 3)
        lines = -(-len(found) // columns)
        handles: list[Any] = [
            Line2D([], [], color=class_colour(i), lw=2.2, label=short(kind, 40)) for i, kind in enumerate(kinds)
        ]

        def paint(figure: Figure):
            for at, axes in enumerate(figure.subplots(lines, columns, squeeze=False).flat):
                if at >= len(found):
                    axes.set_visible(False)
                    continue
                case, record, label = found[at]
                for i, kind in enumerate(record["kinds"]):
                    shade = class_colour(kinds.index(kind))
                    there, asked = (np.array(v) for v in (record["present"][i], record["methods"][label]["invited"][i]))
                    seen = there > 0
                    axes.plot(np.array(record["rounds"])[seen], asked[seen] / there[seen], color=shade, lw=1.9)
                axes.set_ylim(0, 1.02)
                axes.set_xlim(left=0)
                axes.yaxis.set_major_formatter(PERCENT)
                axes.yaxis.set_major_locator(MaxNLocator(4, steps=STEPS))
                axes.xaxis.set_major_locator(MaxNLocator(4, integer=True, steps=STEPS))
                axes.tick_params(labelleft=at % columns == 0)
                axes.grid(axis="y", color=INK, alpha=0.12, lw=0.7)
                axes.set_title(short(title(case, label), 20 if narrow and columns > 1 else 32))
                if at // columns == lines - 1:
                    axes.set_xlabel("Round")
            draw_legend(figure, handles, narrow)

        room = legend_height([h.get_label() for h in handles], narrow)
        return lines * (190 if narrow else 240) + 10 + room, paint

    return picture("inclusion", f"Line charts of who is invited. Over all rounds, {told}.", caption, draw)


def regions(study: Facts, results: Facts) -> Picture | None:
    """What the final models answer on the plane that the samples lie in: a row a case, a column a method."""
    cases = [case for case in results["cases"] if case.get("regions")]
    labels = list(dict.fromkeys(label for case in cases for label in case["regions"]["answers"]))
    if not cases or not labels:
        return None
    found = [(case, label) for case in cases for label in labels if label in case["regions"]["answers"]]
    across = sorted(found, key=lambda one: labels.index(one[1]))  # a row a method: fewer rows where there is room
    classes = 1 + max(max(case["regions"]["classes"]) for case in cases)
    missing = [
        f"{_titled(case, label, cases)}: never answers {', '.join(f'class {c}' for c in gone)}"
        for case, label in found
        if (gone := _never(case["regions"], label))
    ]
    caption = (
        "Decision regions of the final model (first data draw and seed); the points are samples. "
        f"{'; '.join(missing) + '.' if missing else 'Every class has its region.'}"
    )

    def draw(narrow: bool):
        turned = not narrow and len(labels) < len(cases) <= 4
        columns = min(len(cases) if turned else len(labels), 2 if narrow else 4)
        lines = -(-len(found) // columns)

        def paint(figure: Figure):
            for at, axes in enumerate(figure.subplots(lines, columns, squeeze=False).flat):
                if at >= len(found):
                    axes.set_visible(False)
                    continue
                case, label = (across if turned else found)[at]
                _region(axes, case["regions"], label)
                names = [label] if len(cases) == 1 else [case["label"], label]
                axes.set_title("\n".join(brief(name, 20 if narrow else 30) for name in names), fontsize=11)
            handles = [
                Line2D([], [], color=colour(c), marker="os"[c % 2], ms=6, lw=0, label=f"class {c}")
                for c in range(classes)
            ]
            draw_legend(figure, handles, narrow)

        return lines * (
            (358 if narrow else 820) / max(columns, 2 if narrow else 3) + (18 if len(cases) == 1 else 32)
        ) + 24, paint

    said = "; ".join(missing) or "every class has its region under every method"
    return picture("regions", f"Decision regions and samples on a plane. {said}.", caption, draw)


def _titled(case: Facts, label: str, cases: Sequence[Facts]) -> str:
    return clean(label) if len(cases) == 1 else f"{clean(case['label'])}, {clean(label)}"


def _never(record: Facts, label: str) -> list[int]:
    answers = {int(c) for row in record["answers"][label] for c in row}
    return sorted(set(record["classes"]) - answers)


def _region(axes: Axes, record: Facts, label: str) -> None:
    answers = np.array([[int(c) for c in row] for row in record["answers"][label]])
    pixels = np.zeros((*answers.shape, 4), np.uint8)
    for c in range(answers.max() + 1):
        pixels[answers == c] = [*bytes.fromhex(LIGHT[c % len(LIGHT)][1:]), 78]
    (left, bottom), (right, top) = record["low"], record["high"]
    axes.imshow(pixels, extent=(left, right, bottom, top), origin="lower", interpolation="none", aspect="auto")
    points, kinds = np.array(record["points"], float), np.array(record["classes"])
    for c in np.unique(kinds):
        own = points[kinds == c]
        own = own[: max(20, round(_MOST_POINTS * len(own) / len(points)))]
        # Strokes of no length are dots: a tenth of the text that markers take.
        path = Path(np.repeat(own, 2, axis=0), [Path.MOVETO, Path.LINETO] * len(own))
        path.should_simplify = False
        cap = "round" if c % 2 == 0 else "projecting"
        axes.add_patch(PathPatch(path, edgecolor=colour(int(c)), fill=False, lw=4.2 - 0.8 * (c % 2), capstyle=cap))
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(True)
        side.set_alpha(0.35)
