"""Curves over rounds: accuracy, its difference to the baseline, the objective."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from fedtide import summaries
from fedtide.errors import check_one_of
from fedtide.report import picture
from fedtide.report.svg import INK, LIGHT, colour, dash
from fedtide.text import clean, percent, short, value


class Curve(NamedTuple):
    """A quantity over rounds: its mean over seeds and the range of the middle 80 % of them."""

    round: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def learning(rounds: pl.DataFrame, baseline: str) -> picture.Picture:
    """The metric against rounds, and below it the paired difference to the baseline."""
    kind = summaries.metric(rounds)
    finished = summaries.evaluations(rounds).filter(~pl.col("diverged") & pl.col("value").is_not_null())
    methods = summaries.labels(rounds)
    curves = {m: _curve(finished.filter(pl.col("method") == m), "value") for m in methods}
    base = finished.filter(pl.col("method") == baseline).select("seed", "round", base="value")
    # If an objective spans decades, only relative differences are visible.
    relative = kind == "objective" and _decades(curves) is not None
    gap = pl.col("value") / pl.col("base") - 1 if relative else pl.col("value") - pl.col("base")
    against = finished.join(base, on=["seed", "round"]).with_columns(gap=gap)
    gaps = {m: _curve(against.filter(pl.col("method") == m), "gap") for m in methods if m != baseline}
    gaps = {m: c for m, c in gaps.items() if len(c.round)}
    what = "test accuracy" if kind == "accuracy" else "objective"
    ends = [f"{clean(m)} {value(kind, c.mean[-1])}" for m, c in curves.items() if len(c.round)]
    alt = f"Line chart of {what} against rounds. At the end: {', '.join(ends) or 'no run finished'}."
    caption = f"{what.capitalize()} against rounds. {_band(finished)}"
    low = _focus(curves) if kind == "accuracy" else None
    if low is not None:
        caption += f" The axis starts at {percent(low, 0)}; the first rounds are below it."
    if gaps:
        difference = "relative difference" if relative else "difference"
        caption += (
            f" Below: the {difference} from {clean(baseline)} on the same seed, which removes variation between seeds."
        )

    def paint(figure: Figure, narrow: bool):
        ratios = [3.0, 1.5] if gaps else [1.0]
        axes = figure.subplots(len(ratios), 1, sharex=True, squeeze=False, height_ratios=ratios)[:, 0]
        draw_lines(axes[0], curves, methods)
        axes[0].set_ylabel(what.capitalize())
        if low is not None:
            axes[0].set_ylim(bottom=low)
        if kind == "accuracy":
            axes[0].yaxis.set_major_formatter(picture.PERCENT)
        else:
            log_axis(axes[0], _decades(curves))
        if gaps:
            axes[1].axhline(0, color=INK, lw=0.9, alpha=0.6)
            draw_lines(axes[1], gaps, methods)
            _gap_limits(axes[1], gaps)
            who = clean(baseline) if len(clean(baseline)) <= 9 else "baseline"
            axes[1].set_ylabel(f"vs {who}" + (", points" if kind == "accuracy" else ""))
            if kind == "accuracy" or relative:
                axes[1].yaxis.set_major_formatter(picture.POINTS_APART if kind == "accuracy" else picture.PERCENT)
        over_rounds(axes[-1], curves)
        name_lines(figure, axes[0], curves, methods, narrow)

    below = 130 if gaps else 0
    return picture.picture("learning", alt, caption, line_heights(curves, 340 + below, 300 + below), paint)


def objective(rounds: pl.DataFrame) -> picture.Picture | None:
    """The training objective against rounds."""
    finished = summaries.evaluations(rounds).filter(~pl.col("diverged") & pl.col("objective").is_finite())
    methods = summaries.labels(rounds)
    curves = {m: _curve(finished.filter(pl.col("method") == m), "objective") for m in methods}
    if not any(len(c.round) for c in curves.values()):
        return None
    ends = [f"{clean(m)} {value('objective', c.mean[-1])}" for m, c in curves.items() if len(c.round)]
    alt = f"Line chart of the training objective against rounds. At the end: {', '.join(ends)}."
    caption = f"Training objective against rounds. {_band(finished)}"

    def paint(figure: Figure, narrow: bool):
        axes = figure.subplots()
        draw_lines(axes, curves, methods)
        axes.set_ylabel("Objective")
        log_axis(axes, _decades(curves))
        over_rounds(axes, curves)
        name_lines(figure, axes, curves, methods, narrow)

    return picture.picture("objective", alt, caption, line_heights(curves, 280, 260), paint)


def plot(rounds: pl.DataFrame, measure: str | None = None, axes: Axes | None = None) -> Axes:
    """A column of the table of rounds against rounds: means over seeds, and bands that span the middle 80 % of them.

    Diverged seeds are excluded. The axes are new unless given.
    """
    kind = summaries.metric(rounds)
    measure = measure or ("test_accuracy" if kind == "accuracy" else "objective")
    check_one_of("measure", measure, rounds.columns[3:])  # after method, seed and round
    if axes is None:
        from matplotlib import pyplot

        axes = pyplot.subplots()[1]
    diverged = summaries.evaluations(rounds).filter("diverged").select("method", "seed").unique()
    drawn = rounds.join(diverged, on=["method", "seed"], how="anti").filter(pl.col(measure).is_finite())
    methods = summaries.labels(rounds)
    curves = {m: _curve(drawn.filter(pl.col("method") == m), measure) for m in methods}
    curves = {m: c for m, c in curves.items() if len(c.round)}
    draw_lines(axes, curves, methods, lambda i: LIGHT[i % len(LIGHT)])
    if measure in ("test_accuracy", "worst_decile"):
        axes.yaxis.set_major_formatter(picture.PERCENT)
    elif measure in ("objective", "tail_loss", "test_loss"):
        log_axis(axes, _decades(curves))
    axes.set_ylabel(measure.replace("_", " ").capitalize())
    over_rounds(axes, curves)
    if curves:
        axes.legend(frameon=False)
    return axes


def _curve(table: pl.DataFrame, column: str) -> Curve:
    values = table.group_by("round").agg(**picture.over_seeds(column)).sort("round")
    kept = (
        np.unique(np.linspace(0, values.height - 1, min(values.height, picture.POINTS)).astype(int))
        if values.height
        else []
    )
    return Curve(*(values[c].to_numpy()[kept] for c in ("round", "mean", "low", "high")))


def _band(finished: pl.DataFrame) -> str:
    several = finished["seed"].n_unique() > 1
    return "Lines are means over seeds; bands span the middle 80% of the seeds." if several else "One seed."


def draw_lines(axes: Axes, curves: dict[str, Curve], methods: list[str], colour: Callable[[int], str] = colour) -> None:
    """The curves in the colours of `methods`, with their bands."""
    for name, curve in curves.items():
        i = methods.index(name)
        if (curve.high > curve.low).any():
            axes.fill_between(curve.round, curve.low, curve.high, color=colour(i), alpha=0.13, lw=0)
        if len(curve.round) == 1:
            axes.plot(curve.round, curve.mean, "o", color=colour(i), ms=4)
    for name, curve in curves.items():
        i = methods.index(name)
        axes.plot(curve.round, curve.mean, color=colour(i), ls=dash(i), lw=1.9, label=name)
    picture.level_lines(axes, 5)


def _focus(curves: dict[str, Curve]) -> float | None:
    """Start of the axis such that the first, steep rounds do not compress the rest; None for the whole range."""
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
    """Sets limits that ignore the noise of the first tenth of the rounds."""
    later = [(c.low[c.round >= 0.1 * c.round.max()], c.high[c.round >= 0.1 * c.round.max()]) for c in gaps.values()]
    low, high = min(0.0, *(a.min() for a, _ in later)), max(0.0, *(b.max() for _, b in later))
    if high > low:
        axes.set_ylim(low - 0.06 * (high - low), high + 0.06 * (high - low))


def _decades(curves: dict[str, Curve]) -> float | None:
    """The ratio of the largest to the smallest value if it is large and all values are positive."""
    drawn = [c for c in curves.values() if len(c.round)]
    low, high = (min(c.low.min() for c in drawn), max(c.high.max() for c in drawn)) if drawn else (0, 0)
    return high / low if low > 0 and high / low > 30 else None


def log_axis(axes: Axes, ratio: float | None) -> None:
    """A logarithmic axis for values whose largest is `ratio` times the smallest; no change for None."""
    if ratio is None:
        return
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if ratio > 1e3 else (1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def over_rounds(axes: Axes, curves: dict[str, Curve]) -> None:
    last = max((c.round[-1] for c in curves.values() if len(c.round)), default=1)
    axes.set_xlim(0, max(last, 1))
    picture.rounds_below(axes, 6)


def _named_above(drawn: dict[str, Curve], narrow: bool) -> bool:
    return bool(drawn) and (narrow or len(drawn) > 12)


def line_heights(curves: dict[str, Curve], wide: float, narrow: float) -> list[float]:
    """Heights of both layouts, with room for a legend where `name_lines` draws one."""
    drawn = {m: c for m, c in curves.items() if len(c.round)}
    rooms = [
        picture.legend_height([short(m, 20) for m in drawn], n) if _named_above(drawn, n) else 0 for n in (False, True)
    ]
    return [wide + rooms[0], narrow + rooms[1]]


def name_lines(figure: Figure, axes: Axes, curves: dict[str, Curve], methods: list[str], narrow: bool) -> None:
    """Labels at the ends of the lines if there is room beside them, otherwise a legend above."""
    drawn = {m: c for m, c in curves.items() if len(c.round)}
    if not drawn:
        return
    if _named_above(drawn, narrow):
        handles = [
            Line2D([], [], color=colour(methods.index(m)), ls=dash(methods.index(m)), lw=2.2, label=short(m, 20))
            for m in drawn
        ]
        picture.draw_legend(figure, handles, narrow)
        return
    figure.draw_without_rendering()  # fixes the limits
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
    """The closest positions in the same order that are at least `apart` from each other, within [0, 1] if they fit."""
    order = np.argsort(wanted, kind="stable")
    # After subtracting the spacing, the positions only need to be ordered: this is isotonic regression.
    from scipy.optimize import isotonic_regression

    steps = apart * np.arange(len(wanted))
    level = isotonic_regression(wanted[order] - steps).x
    level = np.clip(level, 0, max(0.0, 1 - steps[-1])) if len(wanted) else level
    places = np.empty(len(wanted))
    places[order] = level + steps
    return places
