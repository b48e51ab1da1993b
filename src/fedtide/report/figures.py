"""The report's figures: each in a wide and a narrow layout, with a caption and a text for those who cannot see it."""

import itertools
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from fedtide.report import statistics
from fedtide.report.fleet import Fleet
from fedtide.report.svg import INK, canvas, colour, dash, to_svg
from fedtide.report.words import clean, percent, short, value

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


def _picture(
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


# --- curves over rounds ------------------------------------------------------------------------------------------


class Curve(NamedTuple):
    """A quantity over rounds: its mean over seeds and the range of the middle 80 % of them."""

    round: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


BAND = "Lines are means over seeds; bands hold the middle 80% of the seeds."


def learning(rounds: pl.DataFrame, baseline: str) -> Picture:
    """The metric against rounds, and below it the paired difference to the baseline."""
    kind = statistics.metric(rounds)
    finished = statistics.evaluations(rounds).filter(~pl.col("diverged") & pl.col("value").is_not_null())
    methods = statistics.labels(rounds)
    curves = {m: _curve(finished.filter(pl.col("method") == m), "value") for m in methods}
    base = finished.filter(pl.col("method") == baseline).select("seed", "round", base="value")
    # Over decades of an objective only ratios can be seen.
    relative = kind == "objective" and _decades(curves) is not None
    gap = pl.col("value") / pl.col("base") - 1 if relative else pl.col("value") - pl.col("base")
    against = finished.join(base, on=["seed", "round"]).with_columns(gap=gap)
    gaps = {m: _curve(against.filter(pl.col("method") == m), "gap") for m in methods if m != baseline}
    gaps = {m: c for m, c in gaps.items() if len(c.round)}
    what = "test accuracy" if kind == "accuracy" else "objective"
    ends = [f"{clean(m)} {value(kind, c.mean[-1])}" for m, c in curves.items() if len(c.round)]
    alt = f"Line chart of {what} against rounds. At the end: {', '.join(ends) or 'no run finished'}."
    caption = f"{what.capitalize()} against rounds. {BAND if _several(finished) else 'One seed.'}"
    low = _focus(curves) if kind == "accuracy" else None
    if low is not None:
        caption += f" The axis begins at {percent(low, 0)}; the first rounds lie below it."
    if gaps:
        difference = "relative difference" if relative else "difference"
        caption += f" Below: the {difference} to {clean(baseline)} on the same seed, where what seeds share cancels."

    def draw(narrow: bool):
        height = (300 if narrow else 340) + (130 if gaps else 0) + _room_for_names(curves, narrow)

        def paint(figure: Figure):
            ratios = [3.0, 1.5] if gaps else [1.0]
            axes = figure.subplots(len(ratios), 1, sharex=True, squeeze=False, height_ratios=ratios)[:, 0]
            _lines(axes[0], curves, methods)
            axes[0].set_ylabel(what.capitalize())
            if low is not None:
                axes[0].set_ylim(bottom=low)
            if kind == "accuracy":
                axes[0].yaxis.set_major_formatter(PERCENT)
            else:
                _maybe_log(axes[0], curves)
            if gaps:
                axes[1].axhline(0, color=INK, lw=0.9, alpha=0.6)
                _lines(axes[1], gaps, methods)
                _gap_limits(axes[1], gaps)
                who = clean(baseline) if len(clean(baseline)) <= 9 else "baseline"
                axes[1].set_ylabel(f"vs {who}" + (", points" if kind == "accuracy" else ""))
                if kind == "accuracy" or relative:
                    axes[1].yaxis.set_major_formatter(POINTS_APART if kind == "accuracy" else PERCENT)
            _over_rounds(axes[-1], curves)
            _name_lines(figure, axes[0], curves, methods, narrow)

        return height, paint

    return _picture("learning", alt, caption, draw)


def objective(rounds: pl.DataFrame) -> Picture | None:
    """The training objective against rounds."""
    finished = statistics.evaluations(rounds).filter(~pl.col("diverged") & pl.col("objective").is_finite())
    methods = statistics.labels(rounds)
    curves = {m: _curve(finished.filter(pl.col("method") == m), "objective") for m in methods}
    if not any(len(c.round) for c in curves.values()):
        return None
    ends = [f"{clean(m)} {value('objective', c.mean[-1])}" for m, c in curves.items() if len(c.round)]
    alt = f"Line chart of the training objective against rounds. At the end: {', '.join(ends)}."
    caption = f"Objective that the federation minimises, against rounds. {BAND if _several(finished) else 'One seed.'}"

    def draw(narrow: bool):
        def paint(figure: Figure):
            axes = figure.subplots()
            _lines(axes, curves, methods)
            axes.set_ylabel("Objective")
            _maybe_log(axes, curves)
            _over_rounds(axes, curves)
            _name_lines(figure, axes, curves, methods, narrow)

        return (260 if narrow else 280) + _room_for_names(curves, narrow), paint

    return _picture("objective", alt, caption, draw)


def _curve(table: pl.DataFrame, column: str) -> Curve:
    over_seeds = pl.col(column)
    found = (
        table.group_by("round")
        .agg(mean=over_seeds.mean(), low=over_seeds.quantile(0.1, "linear"), high=over_seeds.quantile(0.9, "linear"))
        .sort("round")
    )
    kept = np.unique(np.linspace(0, found.height - 1, min(found.height, POINTS)).astype(int)) if found.height else []
    return Curve(*(found[c].to_numpy()[kept] for c in ("round", "mean", "low", "high")))


def _several(finished: pl.DataFrame) -> bool:
    return finished["seed"].n_unique() > 1


def _lines(axes: Axes, curves: dict[str, Curve], methods: list[str]) -> None:
    for name, curve in curves.items():
        i = methods.index(name)
        if (curve.high > curve.low).any():
            axes.fill_between(curve.round, curve.low, curve.high, color=colour(i), alpha=0.13, lw=0)
        if len(curve.round) == 1:
            axes.plot(curve.round, curve.mean, "o", color=colour(i), ms=4)
    for name, curve in curves.items():
        i = methods.index(name)
        axes.plot(curve.round, curve.mean, color=colour(i), ls=dash(i), lw=1.9)
    axes.grid(axis="y", color=INK, alpha=0.12, lw=0.7)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=STEPS))


def _focus(curves: dict[str, Curve]) -> float | None:
    """Where to begin the axis so that the first steep rounds do not flatten the rest; None to show everything."""
    drawn = [c for c in curves.values() if len(c.round) > 3]
    if not drawn:
        return None
    top = max(c.high.max() for c in drawn)
    bottom = min(c.low.min() for c in drawn)
    later = min(c.low[c.round >= 0.2 * c.round.max()].min() for c in drawn)
    if top - bottom < 1.5 * (top - later):
        return None
    return max(0.0, np.floor(20 * later - 0.2) / 20)


def _gap_limits(axes: Axes, gaps: dict[str, Curve]) -> None:
    """Limits that the noise of the first tenth of the rounds does not set."""
    later = [(c.low[c.round >= 0.1 * c.round.max()], c.high[c.round >= 0.1 * c.round.max()]) for c in gaps.values()]
    low, high = min(0.0, *(a.min() for a, _ in later)), max(0.0, *(b.max() for _, b in later))
    if high > low:
        axes.set_ylim(low - 0.06 * (high - low), high + 0.06 * (high - low))


def _decades(curves: dict[str, Curve]) -> float | None:
    """The ratio of the largest to the smallest value, where it is large and all values are positive."""
    drawn = [c for c in curves.values() if len(c.round)]
    low, high = (min(c.low.min() for c in drawn), max(c.high.max() for c in drawn)) if drawn else (0, 0)
    return high / low if low > 0 and high / low > 30 else None


def _maybe_log(axes: Axes, curves: dict[str, Curve]) -> None:
    ratio = _decades(curves)
    if ratio is not None:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if ratio > 1e3 else (1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())


def _over_rounds(axes: Axes, curves: dict[str, Curve]) -> None:
    last = max((c.round[-1] for c in curves.values() if len(c.round)), default=1)
    axes.set_xlim(0, max(last, 1))
    axes.set_xlabel("Round")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=STEPS))


def _named_above(drawn: dict[str, Curve], narrow: bool) -> bool:
    return bool(drawn) and (narrow or len(drawn) > 12)


def _room_for_names(curves: dict[str, Curve], narrow: bool) -> int:
    drawn = {m: c for m, c in curves.items() if len(c.round)}
    return _legend_height([short(m, 20) for m in drawn], narrow) if _named_above(drawn, narrow) else 0


def _name_lines(figure: Figure, axes: Axes, curves: dict[str, Curve], methods: list[str], narrow: bool) -> None:
    """Names at the ends of the lines where there is room beside them, otherwise above."""
    drawn = {m: c for m, c in curves.items() if len(c.round)}
    if not drawn:
        return
    if _named_above(drawn, narrow):
        handles = [
            Line2D([], [], color=colour(methods.index(m)), ls=dash(methods.index(m)), lw=2.2, label=short(m, 20))
            for m in drawn
        ]
        _legend(figure, handles, narrow)
        return
    figure.draw_without_rendering()  # settles the limits
    apart = 15 / (axes.bbox.height or 1)
    ends = axes.transAxes.inverted().transform(
        axes.transData.transform([(c.round[-1], c.mean[-1]) for c in drawn.values()])
    )
    places = _spread(np.clip(ends[:, 1], 0, 1), apart)
    for (name, _), end, place in zip(drawn.items(), ends, places, strict=True):
        i = methods.index(name)
        leader = Line2D(
            [end[0], end[0] + 0.02, end[0] + 0.032], [end[1], place, place], color=colour(i), lw=1.4,
            transform=axes.transAxes, clip_on=False, solid_joinstyle="round",
        )  # fmt: skip
        leader.set_in_layout(False)
        axes.add_artist(leader)
        axes.text(end[0] + 0.04, place, short(name, 18), transform=axes.transAxes, va="center_baseline", fontsize=12)


def _spread(wanted: np.ndarray, apart: float) -> np.ndarray:
    """The nearest places at least `apart` from each other (and their order kept), within [0, 1] if they fit."""
    order = np.argsort(wanted, kind="stable")
    # Subtracting the spacing turns "apart" into "in order": the nearest ordered values are isotonic regression.
    from scipy.optimize import isotonic_regression

    steps = apart * np.arange(len(wanted))
    level = isotonic_regression(wanted[order] - steps).x
    level = np.clip(level, 0, max(0.0, 1 - steps[-1])) if len(wanted) else level
    places = np.empty(len(wanted))
    places[order] = level + steps
    return places


def _legend(figure: Figure, handles: list[Any], narrow: bool, at_corner: bool = False) -> None:
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


def _legend_height(names: list[str], narrow: bool) -> int:
    return 18 * -(-len(names) // _legend_columns(names, narrow))


# --- clients × rounds --------------------------------------------------------------------------------------------


class Grid(NamedTuple):
    """Clients × rounds, thinned to what a picture can show."""

    rows: np.ndarray  # positions in the fleet that are shown
    rounds: np.ndarray  # rounds that are shown
    kind: np.ndarray  # class of each row
    note: str  # what was left out, as a sentence, or ""


def grid(clients: pl.DataFrame, fleet: Fleet) -> Grid:
    """All clients and rounds where they fit, evenly chosen ones where not."""
    every = clients["round"].unique().sort().to_numpy()
    rows = _evenly(len(fleet.client), ROWS)
    columns = _evenly(len(every), COLUMNS)
    left_out = []
    if len(rows) < len(fleet.client):
        left_out.append(f"{len(rows):,} of {len(fleet.client):,} clients")
    if len(columns) < len(every):
        left_out.append(f"{len(columns):,} of {len(every):,} rounds")
    note = f" Shown: {' and '.join(left_out)}, evenly chosen." if left_out else ""
    return Grid(rows, every[columns], fleet.kind[rows], note)


def matrix(clients: pl.DataFrame, fleet: Fleet, shown: Grid, column: str) -> np.ndarray:
    """bool[rows, rounds] of one method and seed."""
    place = pl.DataFrame({"client": fleet.client[shown.rows], "row": np.arange(len(shown.rows))})
    time = pl.DataFrame({"round": shown.rounds, "column": np.arange(len(shown.rounds))})
    place, time = place.cast({"client": clients["client"].dtype}), time.cast({"round": clients["round"].dtype})
    on = clients.filter(pl.col(column)).join(place, on="client").join(time, on="round")
    out = np.zeros((len(shown.rows), len(shown.rounds)), bool)
    out[on["row"].to_numpy(), on["column"].to_numpy()] = True
    return out


def available(clients: pl.DataFrame, fleet: Fleet) -> Picture:
    """Who was there, under one seed: clients × rounds."""
    first = clients.row(0, named=True)
    one = clients.filter((pl.col("method") == first["method"]) & (pl.col("seed") == first["seed"]))
    shown = grid(one, fleet)
    here = matrix(one, fleet, shown, "active")
    rate = _with_kind(one, fleet).group_by("kind").agg(pl.col("active").mean()).sort("kind")["active"]
    rates = [f"{clean(name)}: {percent(r, 0)} of the rounds" for name, r in zip(fleet.names, rate, strict=True)]
    alt = f"Picture of who was available in each round. Available on average: {'; '.join(rates)}."
    caption = (
        f"Who was available under seed {first['seed']}: a row is a client, a column a round, a mark means there. "
        f"All methods met the same trace.{shown.note}"
    )

    def draw(narrow: bool):
        def paint(figure: Figure):
            axes = figure.subplots()
            _image(axes, [(here, PRESENT)], shown.rounds)
            _bands(axes, shown, fleet, wrap=12 if narrow else 26, width=270 if narrow else 600)
            axes.xaxis.set_major_locator(MaxNLocator(4 if narrow else 8, integer=True, steps=STEPS))
            axes.set_xlabel("Round")

        return 260 if narrow else 310, paint

    return _picture("available", alt, caption, draw)


def included(clients: pl.DataFrame, fleet: Fleet, methods: list[str]) -> Picture:
    """Whom each method included, under one seed: small multiples of clients × rounds."""
    share = dict(
        clients.group_by("method").agg((pl.col("invited").sum() / pl.col("active").sum()).alias("share")).iter_rows()
    )
    methods = [m for m in methods if m in share]
    runs = clients.group_by("seed").agg(pl.col("method").n_unique()).sort("method", "seed", descending=[True, False])
    seed = runs["seed"][0]
    panels = {}
    one = clients.filter(pl.col("seed") == seed)
    shown = grid(one, fleet)
    methods = [m for m in methods if not one.filter(pl.col("method") == m).is_empty()]
    for method in methods:
        own = one.filter(pl.col("method") == method)
        here, asked = matrix(own, fleet, shown, "active"), matrix(own, fleet, shown, "invited")
        panels[method] = (here & ~asked, asked)
    told = [f"{clean(m)} {percent(share[m], 0)}" for m in methods]
    alt = f"Pictures of whom each method included in each round. Share of the available included: {', '.join(told)}."
    caption = (
        f"Whom each method included under seed {seed}, and whom it left out though available. "
        "The percentage is the share of the available that were included, over all seeds. The colours at the side mark "
        f"the classes as above.{shown.note}"
    )

    def panel(axes: Axes, method: str, first: bool, narrow: bool):
        _image(axes, [(panels[method][0], EXCLUDED), (panels[method][1], INCLUDED)], shown.rounds)
        _bands(axes, shown, fleet, wrap=17 if first and not narrow else 0, width=140 if narrow else 200)

    def legend():
        return [
            Patch(color=INCLUDED, label="included"),
            Patch(color=EXCLUDED, label="available, left out"),
            Patch(facecolor="none", edgecolor=INK, lw=0.6, label="absent"),
        ]

    asides = {m: (share[m], "included") for m in methods}
    several = len(fleet.names) > 1
    return _multiples("included", alt, caption, asides, panel, legend, (130 if several else 2, 12 if several else 2))


def _multiples(
    name: str,
    alt: str,
    caption: str,
    asides: dict[str, tuple[float, str]],
    panel: Callable[[Axes, str, bool, bool], None],
    legend: Callable[[], list[Any]],
    left: tuple[float, float],
) -> Picture:
    """A panel for each method, with a share and what it is a share of beside its name.

    Placed by hand, in pixels, since all panels are alike: `left` is the room at the left of each row, for the wide and
    the narrow layout.
    """
    methods = list(asides)

    def draw(narrow: bool):
        columns = min(len(methods), 2 if narrow else 3)
        rows = -(-len(methods) // columns)
        width, height, across, down, margin = NARROW if narrow else WIDE, 112 if narrow else 150, 24, 30, left[narrow]
        handles = legend()
        top = 30 + _legend_height([h.get_label() for h in handles], narrow)
        total = top + rows * height + (rows - 1) * down + 44
        panel_width = (width - margin - 14 - (columns - 1) * across) / columns

        def paint(figure: Figure):
            figure.set_layout_engine("none")
            _legend(figure, handles, narrow, at_corner=True)
            for n, method in enumerate(methods):
                row, column = divmod(n, columns)
                x, y = margin + column * (panel_width + across), total - top - row * (height + down) - height
                axes = figure.add_axes((x / width, y / total, panel_width / width, height / total))
                panel(axes, method, column == 0, narrow)
                share, what = asides[method]
                axes.set_title(short(method, 13 if narrow else 15), pad=4)
                aside = percent(share, 0) if narrow else f"{percent(share, 0)} {what}"
                axes.set_title(aside, loc="right", pad=4, fontweight="normal", fontsize=11)
                axes.xaxis.set_major_locator(MaxNLocator(4, integer=True, steps=STEPS))
                lowest = n + columns >= len(methods)
                axes.tick_params(labelbottom=lowest)
                if lowest:
                    axes.set_xlabel("Round")

        return total, paint

    return _picture(name, alt, caption, draw)


def _image(axes: Axes, layers: list[tuple[np.ndarray, str]], rounds: np.ndarray) -> None:
    """Marks as pixels on a transparent ground."""
    pixels = np.zeros((*layers[0][0].shape, 4), np.uint8)
    for mask, hexadecimal in layers:
        pixels[mask] = [*bytes.fromhex(hexadecimal[1:]), 255]
    extent = (rounds[0] - 0.5, rounds[-1] + 0.5, len(pixels), 0)
    axes.imshow(pixels, interpolation="none", aspect="auto", extent=extent)
    for side in axes.spines.values():
        side.set_visible(True)
        side.set_alpha(0.35)


def _bands(axes: Axes, shown: Grid, fleet: Fleet, wrap: int, width: float) -> None:
    """Lines between the classes of clients, their colours at the side, and their names in lines of `wrap` characters.

    No names where `wrap` is 0. `width` is roughly that of the picture, in pixels.
    """
    edges = np.searchsorted(shown.kind, np.arange(len(fleet.names) + 1))
    axes.set_yticks([])
    for edge in edges[1:-1]:
        axes.axhline(edge, color=INK, lw=0.7, alpha=0.5)
    if len(fleet.names) == 1:
        return
    middles, names = [], []
    for c, (start, stop) in enumerate(itertools.pairwise(edges)):
        bar = Rectangle((-8 / width, start), 5 / width, stop - start, color=class_colour(c), lw=0, clip_on=False)
        bar.set_transform(axes.get_yaxis_transform())
        axes.add_patch(bar)
        if wrap and stop - start >= 0.07 * len(shown.rows):
            middles.append((start + stop) / 2)
            names.append(_wrapped(fleet.names[c], wrap))
    axes.set_yticks(middles, names)
    axes.tick_params(axis="y", length=0, pad=12)


def _wrapped(name: str, width: int) -> str:
    return "\n".join(textwrap.wrap(short(name, 40), width)[:3])


def _evenly(size: int, most: int) -> np.ndarray:
    return np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(int))


# --- by class of client ------------------------------------------------------------------------------------------


def class_colour(index: int) -> str:
    """Classes take the palette from its other end, to be told from methods."""
    return colour(-1 - index)


class Shares(NamedTuple):
    """How the weight of a method was spread over the classes."""

    round: np.ndarray  # [T]
    share: np.ndarray  # [T, classes] of all the weight given so far, all seeds together

    def misplaced(self, target: np.ndarray) -> float:
        """Total variation between the final shares and the target: the weight that sits with the wrong class."""
        return float(0.5 * np.abs(self.share[-1] - target).sum())


def shares(clients: pl.DataFrame, fleet: Fleet) -> dict[str, Shares]:
    """Cumulative importance by class, for each method that gave any."""
    per_round = (
        _with_kind(clients.select("method", "round", "client", "weight"), fleet)
        .group_by("method", "round", "kind")
        .agg(pl.col("weight").cast(pl.Float64).sum())
    )
    found = {}
    for (method,), table in per_round.group_by("method"):
        times = table["round"].unique().sort().to_numpy()
        given = np.zeros((len(times), len(fleet.names)))
        given[np.searchsorted(times, table["round"].to_numpy()), table["kind"].to_numpy()] = table["weight"].to_numpy()
        total = given.cumsum(0)
        some = total.sum(1) > 0
        if some.any():
            total, times = total[some], times[some]
            kept = _evenly(len(times), POINTS)
            found[str(method)] = Shares(times[kept], (total / total.sum(1, keepdims=True))[kept])
    return found


def importance(clients: pl.DataFrame, fleet: Fleet, methods: list[str]) -> Picture | None:
    """Cumulative importance of each class of clients, against its target."""
    found = shares(clients, fleet)
    methods = [m for m in methods if m in found]
    if not methods or len(fleet.names) < 2:
        return None
    off = {m: found[m].misplaced(fleet.target) for m in methods}
    told = [f"{clean(m)} {percent(off[m], 0)}" for m in methods]
    alt = (
        f"Line charts of each class's share of the weight given so far. Weight with the wrong class: {', '.join(told)}."
    )
    caption = (
        "Cumulative importance: the share of all weight given so far that went to each class of clients; dashed, the "
        "target. The percentage is the weight that ends with the wrong class (total variation from the target)."
    )
    equal = np.ptp(fleet.target) < 1e-6
    top = min(1.0, 1.08 * max(fleet.target.max(), *(found[m].share.max() for m in methods)))

    last = max(found[m].round[-1] for m in methods)

    def panel(axes: Axes, method: str, first: bool, narrow: bool):
        for c, target in enumerate(fleet.target[:1] if equal else fleet.target):
            axes.axhline(target, color=INK if equal else class_colour(c), ls=(0, (3, 2.5)), lw=1.1, alpha=0.8)
        for c in range(len(fleet.names)):
            axes.plot(found[method].round, found[method].share[:, c], color=class_colour(c), lw=1.9)
        axes.set_ylim(0, top)
        axes.set_xlim(0, last)
        axes.yaxis.set_major_formatter(PERCENT)
        axes.yaxis.set_major_locator(MaxNLocator(4, steps=STEPS))
        axes.tick_params(labelleft=first)
        axes.grid(axis="y", color=INK, alpha=0.12, lw=0.7)

    def legend():
        lines = [Line2D([], [], color=class_colour(c), lw=2.2, label=short(k, 40)) for c, k in enumerate(fleet.names)]
        return [*lines, Line2D([], [], color=INK, lw=1.1, ls=(0, (3, 2.5)), label="target")]

    asides = {m: (off[m], "misplaced") for m in methods}
    return _multiples("importance", alt, caption, asides, panel, legend, (42, 42))


def class_accuracy(clients: pl.DataFrame, fleet: Fleet) -> pl.DataFrame:
    """Mean over clients of their final test accuracy: one row a method, seed and class (`kind`)."""
    return (
        _with_kind(statistics.final_clients(clients), fleet)
        .group_by("method", "seed", "kind")
        .agg(accuracy=pl.col("test_accuracy").mean())
    )


def by_class(accuracy: pl.DataFrame, fleet: Fleet, methods: list[str]) -> Picture | None:
    """Final test accuracy of each class of clients under each method."""
    every = list(methods)
    methods = [m for m in methods if m in set(accuracy["method"])]
    if not methods:
        return None
    over_seeds = pl.col("accuracy")
    table = accuracy.group_by("method", "kind").agg(
        mean=over_seeds.mean(), low=over_seeds.quantile(0.1, "linear"), high=over_seeds.quantile(0.9, "linear")
    )
    found = {(m, k): (mean, low, high) for m, k, mean, low, high in table.iter_rows()}
    kinds = [k for k in range(len(fleet.names)) if any((m, k) in found for m in methods)]
    told = "; ".join(
        f"{clean(fleet.names[k])}: "
        + ", ".join(f"{clean(m)} {percent(found[m, k][0])}" for m in methods if (m, k) in found)
        for k in kinds
    )
    alt = f"Dot chart of the final test accuracy by class of client. {told}."
    several = accuracy["seed"].n_unique() > 1
    caption = "Final test accuracy on the clients' own data, as the mean over the clients of a class."
    if several:
        caption += " Dots are means over seeds; whiskers hold the middle 80% of the seeds."

    def draw(narrow: bool):
        slot = 12 if narrow else 13
        band = slot * len(methods) + 16

        def paint(figure: Figure):
            axes = figure.subplots()
            for place, k in enumerate(kinds):
                top = place * band
                if place % 2 == 0 and len(kinds) > 1:
                    axes.axhspan(top, top + band, color=INK, alpha=0.05, lw=0)
                for row, m in enumerate(m for m in methods if (m, k) in found):
                    mean, low, high = found[m, k]
                    y, i = top + 8 + slot * (row + 0.5), every.index(m)
                    axes.plot([low, high], [y, y], color=colour(i), lw=1.6, alpha=0.75)
                    axes.plot([mean], [y], "o", color=colour(i), ms=6)
            axes.set_ylim(len(kinds) * band, 0)
            names = [_wrapped(fleet.names[k], 14 if narrow else 24) for k in kinds]
            axes.set_yticks([(p + 0.5) * band for p in range(len(kinds))], names)
            axes.tick_params(axis="y", length=0)
            axes.spines["left"].set_visible(False)
            axes.grid(axis="x", color=INK, alpha=0.14, lw=0.7)
            axes.xaxis.set_major_locator(MaxNLocator(4 if narrow else 7, steps=STEPS))
            axes.xaxis.set_major_formatter(PERCENT)
            axes.set_xlabel("Test accuracy")
            handles = [
                Line2D([], [], color=colour(every.index(m)), marker="o", ms=6, lw=1.6, label=short(m, 20))
                for m in methods
            ]
            _legend(figure, handles, narrow)

        legend = _legend_height([short(m, 20) for m in methods], narrow)
        return 50 + legend + band * len(kinds), paint

    return _picture("by-class", alt, caption, draw)


def _with_kind(clients: pl.DataFrame, fleet: Fleet) -> pl.DataFrame:
    return clients.join(fleet.frame.cast({"client": clients["client"].dtype}), on="client")
