"""Figures of invited clients and of decision regions."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from fedtide.report import picture
from fedtide.report.svg import LIGHT, colour
from fedtide.reproduce.page.panels import brief, named
from fedtide.reproduce.results import Inclusion, Regions, Results
from fedtide.reproduce.study import Study
from fedtide.text import clean, percent, short

_MOST_POINTS = 150  # samples drawn per panel


def inclusion(study: Study, results: Results) -> picture.Picture | None:
    """The fraction of the available clients of each kind that is invited, over time."""
    recorded = [(case, case.inclusion) for case in results.cases if case.inclusion is not None]
    if not recorded:
        return None
    kinds = list(dict.fromkeys(kind for _, record in recorded for kind in record.kinds))
    methods = {label for _, record in recorded for label in record.methods}

    def title(case, label: str) -> str:
        if len(recorded) == 1:
            return clean(label)
        return named(case, several=True, text=clean(label) if len(methods) > 1 else "")

    shown = [(title(case, label), record, label) for case, record in recorded for label in record.methods]
    shares = "; ".join(
        f"{name}: "
        + ", ".join(
            f"{clean(kind)} {percent(float(np.nanmean(share)), 0)}"
            for kind, share in zip(record.kinds, record.methods[label].share, strict=True)
        )
        for name, record, label in shown
    )
    who = clean(*methods) if len(methods) == 1 else "the method"
    caption = f"Fraction of the available clients of each kind that {who} invites, over rounds."

    names = [short(kind, 40) for kind in kinds]
    handles = [Line2D([], [], color=picture.class_colour(i), lw=2.2, label=name) for i, name in enumerate(names)]
    layout = 3, 1 if len(shown) < 3 else 2  # columns, wide and narrow

    def paint(figure: Figure, narrow: bool):
        columns = layout[narrow]
        for at, axes in enumerate(picture.panels(figure, len(shown), columns)):
            name, record, label = shown[at]
            _invited(axes, record, label, kinds)
            axes.tick_params(labelleft=at % columns == 0)
            axes.set_title(short(name, 20 if narrow and columns > 1 else 32))
            if at // columns == (len(shown) - 1) // columns:
                axes.set_xlabel("Round")
        picture.draw_legend(figure, handles, narrow)

    heights = picture.with_legend(names, *picture.panel_heights(len(shown), layout, (240, 190), 10))
    return picture.picture(
        "inclusion", f"Line charts of invited clients. Over all rounds, {shares}.", caption, heights, paint
    )


def _invited(axes: Axes, record: Inclusion, label: str, kinds: list[str]) -> None:
    for kind, present, invited in zip(record.kinds, record.present, record.methods[label].invited, strict=True):
        some = present > 0
        at = np.array(record.rounds)[some]
        axes.plot(at, invited[some] / present[some], color=picture.class_colour(kinds.index(kind)), lw=1.9)
    axes.set_ylim(0, 1.02)
    axes.set_xlim(left=0)
    picture.level_lines(axes, 4, picture.PERCENT)
    picture.rounds_below(axes, 4, name=False)


def regions(study: Study, results: Results) -> picture.Picture | None:
    """Predictions of the final models over the plane of the samples, by case (rows) and method (columns)."""
    recorded = [(case, case.regions) for case in results.cases if case.regions is not None]
    if not recorded:
        return None
    labels = list(dict.fromkeys(label for _, record in recorded for label in record.answers))
    several = len(recorded) > 1
    shown = [(case, record, label) for case, record in recorded for label in labels if label in record.answers]
    across = sorted(shown, key=lambda one: labels.index(one[2]))  # methods as rows: fewer rows on wide pages
    classes = 1 + max(max(record.classes) for _, record in recorded)
    missing = [
        f"{f'{clean(case.label)}, ' if several else ''}{clean(label)}: never predicts "
        + ", ".join(f"class {c}" for c in gone)
        for case, record, label in shown
        if (gone := sorted(set(record.classes) - {int(c) for row in record.answers[label] for c in row}))
    ]
    caption = (
        "Decision regions of the final models (first data draw and seed); points are training samples. "
        f"{'; '.join(missing) + '.' if missing else 'Every class is predicted somewhere.'}"
    )

    turned = len(labels) < len(recorded) <= 4  # in the wide layout
    layout = min(len(recorded) if turned else len(labels), 4), min(len(labels), 2)  # columns, wide and narrow

    def paint(figure: Figure, narrow: bool):
        for at, axes in enumerate(picture.panels(figure, len(shown), layout[narrow])):
            case, record, label = (across if turned and not narrow else shown)[at]
            _region(axes, record, label)
            names = [case.label, label] if several else [label]
            axes.set_title("\n".join(brief(name, 20 if narrow else 30) for name in names), fontsize=11)
        handles = [
            Line2D([], [], color=colour(c), marker="os"[c % 2], ms=6, lw=0, label=f"class {c}") for c in range(classes)
        ]
        picture.draw_legend(figure, handles, narrow)

    above = 32 if several else 18
    heights = picture.panel_heights(
        len(shown), layout, (picture.WIDE / max(layout[0], 3) + above, picture.NARROW / 2 + above), 24
    )
    text = "; ".join(missing) or "every method predicts every class somewhere"
    return picture.picture("regions", f"Decision regions and samples on a plane. {text}.", caption, heights, paint)


def _region(axes: Axes, record: Regions, label: str) -> None:
    answers = np.array([[int(c) for c in row] for row in record.answers[label]])
    (left, bottom), (right, top) = record.low, record.high
    layers = [(answers == c, LIGHT[c % len(LIGHT)], 78) for c in range(answers.max() + 1)]
    picture.pixel_map(axes, layers, (left, right, bottom, top), origin="lower")
    kinds = np.array(record.classes)
    for c in np.unique(kinds):
        own = record.points[kinds == c]
        own = own[: max(20, round(_MOST_POINTS * len(own) / len(kinds)))]
        # Strokes of zero length are dots and need a tenth of the text of markers.
        path = Path(np.repeat(own, 2, axis=0), [Path.MOVETO, Path.LINETO] * len(own))
        path.should_simplify = False
        cap = "round" if c % 2 == 0 else "projecting"
        axes.add_patch(PathPatch(path, edgecolor=colour(int(c)), fill=False, lw=4.2 - 0.8 * (c % 2), capstyle=cap))
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
    axes.set_xticks([])
    axes.set_yticks([])
