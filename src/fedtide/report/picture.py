"""A figure in a wide and a narrow layout, with a caption and a text for those who cannot see it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from fedtide.report.svg import canvas, colour, to_svg

WIDE, NARROW = 820, 358  # CSS pixels: a laptop's column, a phone's
POINTS, ROWS, COLUMNS = 300, 300, 800  # at most so many points a curve, clients and rounds a picture

# Pixels of pictures have no theme, so these colours stand on white and on black alike.
PRESENT, INCLUDED, EXCLUDED = "#64798c", "#3182bd", "#e6752e"

STEPS = [1, 2, 2.5, 5, 10]
PERCENT = FuncFormatter(lambda x, _: f"{round(100 * x, 6):g}%".replace("-", "−"))
POINTS_APART = FuncFormatter(lambda x, _: f"{round(100 * x, 6):+g}".replace("-", "−") if abs(x) > 1e-9 else "0")


class Picture(NamedTuple):
    """A figure twice, for wide and for narrow pages, and its words."""

    wide: str
    narrow: str
    alt: str
    caption: str


def picture(
    name: str, alt: str, caption: str, draw: Callable[[bool], tuple[float, Callable[[Figure], None]]]
) -> Picture:
    """Draws both layouts; `draw(narrow)` gives a height and what to put on the figure."""
    layouts = []
    for narrow in (False, True):
        height, paint = draw(narrow)
        with canvas(NARROW if narrow else WIDE, height) as figure:
            paint(figure)
            layouts.append(to_svg(figure, f"{name}-{'narrow' if narrow else 'wide'}", alt))
    return Picture(layouts[0], layouts[1], alt, caption)


def draw_legend(figure: Figure, handles: list[Any], narrow: bool, at_corner: bool = False) -> None:
    """A legend above everything, read along its rows; `at_corner` where nothing else makes room for it."""
    columns = _legend_columns([h.get_label() for h in handles], narrow)
    rows = -(-len(handles) // columns)
    across = [handles[r * columns + c] for c in range(columns) for r in range(rows) if r * columns + c < len(handles)]
    place: dict[str, Any] = (
        {"loc": "upper left", "bbox_to_anchor": (0, 0.99)} if at_corner else {"loc": "outside upper left"}
    )
    figure.legend(handles=across, ncols=columns, **place)


def _legend_columns(names: list[str], narrow: bool) -> int:
    """As many as fit beside each other."""
    room = (NARROW if narrow else WIDE) // (42 + 7 * max(map(len, names)))
    return int(np.clip(room, 1, min(6, len(names))))


def legend_height(names: list[str], narrow: bool) -> int:
    return 18 * -(-len(names) // _legend_columns(names, narrow))


def class_colour(index: int) -> str:
    """Classes take the palette from its other end, to be told from methods."""
    return colour(-1 - index)
