"""The samples of each class held by each client: a figure of clients × classes."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fedtide.errors import require
from fedtide.files import atomic
from fedtide.report.picture import INCLUDED, PRESENT, ROWS, STEPS, WIDE, framed, grid
from fedtide.report.svg import INK, canvas
from fedtide.statistics import evenly
from fedtide.text import short

_ROW = 19  # height of a client with numbers, in pixels
_NUMBERED = 40  # most clients for which cells show numbers
_NAMED = 30  # most classes for which each is named
_LEFT, _TOTALS, _GAP = 58, 150, 26  # pixels


def holdings(counts: np.ndarray, class_names: Sequence[str], notes: Sequence[str] = ()) -> Figure:
    """The number of samples of each class that each client holds (darker cells hold more), and its total.

    `counts` is [clients, classes]; `notes` are lines below the figure. If there are too many clients to draw, a subset
    is shown. `save` writes the figure to a file.
    """
    counts = np.asarray(counts)
    require(counts.ndim == 2 and counts.size > 0, "shape of counts", counts.shape, "(clients, classes), one or more")
    require(
        len(class_names) == counts.shape[1], "class_names", f"{len(class_names)} names", f"{counts.shape[1]}: classes"
    )
    rows = evenly(len(counts), ROWS)
    shown = counts[rows]
    if len(rows) < len(counts):
        notes = [*notes, f"Shown: {len(rows):,} of {len(counts):,} clients, evenly spaced."]
    lines = [line for note in notes for line in textwrap.wrap(note, 118)]
    width = WIDE - _LEFT - _TOTALS - _GAP - 24
    column = width / counts.shape[1]
    fits = max(map(len, class_names)) * 7.5 <= column
    tilted = not fits and len(class_names) <= _NAMED
    longest = max(len(short(name, 14)) for name in class_names)
    top = 34 + (round(8 + 5 * longest) if tilted else 14)
    height = float(np.clip(_ROW * len(rows), 3 * _ROW, 560))
    total = top + height + 38 + 16 * len(lines)
    with canvas(WIDE, total) as figure:
        figure.set_layout_engine("none")
        cells, bars = (
            figure.add_axes((x / WIDE, 1 - (top + height) / total, w / WIDE, height / total))
            for x, w in ((_LEFT, width), (_LEFT + width + _GAP, _TOTALS))
        )
        _cells(cells, shown, column if height >= 12 * len(rows) else 0)
        _name_classes(cells, class_names, fits, tilted)
        _name_clients(cells, rows)
        figure.text(_LEFT / WIDE, 1 - 8 / total, "Samples by class", va="top", weight="bold")
        figure.text((_LEFT + width + _GAP) / WIDE, 1 - 8 / total, "Total", va="top", weight="bold")
        _totals(bars, shown.sum(1))
        for i, line in enumerate(reversed(lines)):
            figure.text(_LEFT / WIDE, (10 + 16 * i) / total, line, fontsize=11, alpha=0.8)
    return figure


def save(figure: Figure, path: Path | str) -> None:
    """Writes the figure atomically, in the format of the suffix: .svg, .png or .pdf."""
    path = Path(path)
    kind = path.suffix.lower().removeprefix(".")
    require(kind in ("svg", "png", "pdf"), "file", str(path), "a file name ending in .svg, .png or .pdf")
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "holdings"}), atomic(path) as temporary:
        figure.savefig(temporary, format=kind, dpi=144, facecolor="white", metadata=metadata)


def _cells(axes: Axes, counts: np.ndarray, column: float) -> None:
    """Cells whose opacity is the square root of their share of the largest, so that small counts stay visible.

    Numbers are added where columns are wide enough.
    """
    clients, classes = counts.shape
    strength = np.sqrt(counts / max(counts.max(), 1))
    pixels = np.zeros((clients, classes, 4))
    pixels[..., :3] = np.array(list(bytes.fromhex(INCLUDED[1:]))) / 255
    pixels[..., 3] = np.where(counts > 0, 0.1 + 0.9 * strength, 0)
    axes.imshow(pixels, interpolation="none", aspect="auto", extent=(-0.5, classes - 0.5, clients - 0.5, -0.5))
    if clients <= 2 * _NUMBERED and classes <= 2 * _NAMED:
        axes.set_xticks(np.arange(classes + 1) - 0.5, minor=True)
        axes.set_yticks(np.arange(clients + 1) - 0.5, minor=True)
        axes.grid(which="minor", color=INK, alpha=0.1, lw=0.6)
    axes.tick_params(which="both", length=0)
    framed(axes)
    texts = [f"{count:,.0f}" for count in counts.flat]
    if column >= 7 * max(map(len, texts)) + 4:
        for (client, label), count in np.ndenumerate(counts):
            if count:
                strong = pixels[client, label, 3] > 0.85  # dark text is more legible on all but the darkest cells
                axes.text(label, client, f"{count:,.0f}", ha="center", va="center_baseline", fontsize=10.5,
                          color="#ffffff" if strong else INK)  # fmt: skip


def _name_classes(axes: Axes, names: Sequence[str], fits: bool, tilted: bool) -> None:
    axes.xaxis.tick_top()
    texts = [short(name, 14) for name in names]
    if tilted:
        axes.set_xticks(range(len(names)), texts, rotation=40, ha="left", rotation_mode="anchor")
    elif fits:
        axes.set_xticks(range(len(names)), texts)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(10, integer=True, steps=STEPS))
        axes.set_xlim(-0.5, len(names) - 0.5)


def _name_clients(axes: Axes, rows: np.ndarray) -> None:
    """Labels clients at round numbers."""
    last, digits = int(rows[-1]), range(12)
    step = next(n * 10**k for k in digits for n in (1, 2, 5) if n * 10**k * 25 >= last + 1)
    named = np.arange(0, last + 1, step)
    axes.set_yticks(np.searchsorted(rows, named), [f"{client:,}" for client in named])
    axes.set_ylabel("Client")


def _totals(axes: Axes, totals: np.ndarray) -> None:
    axes.barh(range(len(totals)), totals, height=0.72 if len(totals) <= 2 * _NUMBERED else 1, color=PRESENT, lw=0)
    axes.set_ylim(len(totals) - 0.5, -0.5)
    axes.set_xlim(0, 1.04 * max(totals.max(), 1))
    axes.set_yticks([])
    axes.spines["left"].set_alpha(0.35)
    axes.xaxis.set_major_locator(MaxNLocator(3, integer=True, steps=STEPS))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    grid(axes, "x", 0.14)
    axes.set_axisbelow(True)
