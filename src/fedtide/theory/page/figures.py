"""The figures of the theory page."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from fedtide.report import picture
from fedtide.report.curves import Curve, draw_lines, line_heights, log_axis, name_lines, over_rounds
from fedtide.report.svg import INK, colour
from fedtide.text import clean, percent, short
from fedtide.theory.exclusions import SettledExclusions
from fedtide.theory.page.words import Kind, error, kinds
from fedtide.theory.prediction import Prediction
from fedtide.theory.trajectory import Parts

_BAND = 34  # pixels of a row


def presence(prediction: Prediction) -> picture.Picture:
    """Availability of each kind of client, and the mean lengths of availability and absence."""
    groups = kinds(prediction)
    text = "; ".join(
        f"{k.name}: {len(k.clients)} clients, π = {percent(k.availability, 0)}, absences of {k.absent_run:.3g} rounds"
        for k in groups
    )
    caption = (
        "Availability of each kind of client, and the mean lengths of its available and unavailable periods. "
        "Correlation lengthens both periods and does not change the availability."
    )

    def paint(figure: Figure, narrow: bool):
        share, runs = picture.panels(figure, 2, 1 if narrow else 2)
        _rows(share, groups, narrow, names=True)
        _rows(runs, groups, narrow, names=narrow)
        share.set_title("Availability π", loc="left")
        runs.set_title("Mean length in rounds", loc="left")
        for y, kind in enumerate(groups):
            share.barh(y, kind.availability, height=0.45, color=colour(0), lw=0)
            stays = [kind.present_run, kind.absent_run]
            finite = [s for s in stays if 0 < s < np.inf]
            runs.plot(finite, [y] * len(finite), color=INK, alpha=0.25, lw=1.2)
            for length, index in zip(stays, (2, 1), strict=True):
                if 0 < length < np.inf:
                    runs.plot([length], [y], "o", color=colour(index), ms=7)
        share.set_xlim(0, 1)
        share.xaxis.set_major_formatter(picture.PERCENT)
        runs.set_xscale("log")
        lengths = [s for k in groups for s in (k.present_run, k.absent_run) if np.isfinite(s)]
        runs.set_xlim(0.8, max([*lengths, 10]) * 1.3)
        runs.xaxis.set_major_locator(LogLocator(numticks=6))
        runs.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
        runs.xaxis.set_minor_formatter(NullFormatter())
        picture.draw_legend(figure, [picture.dot(2, "available"), picture.dot(1, "unavailable")], narrow)

    height = _BAND * len(groups)
    return picture.picture(
        "presence", f"Availability by kind of client. {text}.", caption, (height + 95, 2 * height + 170), paint
    )


def importance(prediction: Prediction) -> picture.Picture | None:
    """The share of importance of each kind of client under each method, against the target."""
    groups = kinds(prediction)
    known = {label: f.importance for label, f in prediction.methods.items() if f.importance is not None}
    if not known or len(groups) < 2:
        return None
    labels = list(prediction.methods)
    shares = {label: [float(p[k.clients].sum()) for k in groups] for label, p in known.items()}
    text = "; ".join(
        f"{k.name} (target {percent(k.target, 0)}): "
        + ", ".join(f"{clean(label)} {percent(s[i], 0)}" for label, s in shares.items())
        for i, k in enumerate(groups)
    )
    caption = (
        "Effective importance of each kind of client; the line is the target. A dot to the right of the line means "
        "that the limit favours these clients."
    )

    def paint(figure: Figure, narrow: bool):
        axes = figure.subplots()
        heights = picture.grouped_rows(axes, [k.name for k in groups], len(known), narrow)
        band = picture.group_height(len(known), narrow)
        for place, (kind, rows) in enumerate(zip(groups, heights, strict=True)):
            axes.plot([kind.target] * 2, [place * band, (place + 1) * band], color=INK, lw=1.4, alpha=0.7)
            for y, label in zip(rows, known, strict=True):
                i, share = labels.index(label), shares[label][place]
                axes.plot([kind.target, share], [y, y], color=colour(i), lw=1.6, alpha=0.75)
                axes.plot([share], [y], "o", color=colour(i), ms=6)
        axes.set_xlim(left=-0.01)
        axes.set_xlabel("Share of importance")
        handles = [picture.dot(labels.index(m), short(m, 20), lw=1.6) for m in known]
        picture.draw_legend(figure, [*handles, Line2D([], [], color=INK, lw=1.4, alpha=0.7, label="target")], narrow)

    names = [*(short(m, 20) for m in known), "target"]
    heights = picture.grouped_heights(names, len(known), len(groups))
    return picture.picture("importance", f"Share of importance by kind of client. {text}.", caption, heights, paint)


def paths(prediction: Prediction) -> picture.Picture | None:
    """The predicted error against rounds, and its bias."""
    known = prediction.paths
    if not known:
        return None
    labels = list(prediction.methods)
    curves = {}
    for label, path in known.items():
        shown = np.maximum(path.error, 1e-12)
        curves[label] = Curve(path.rounds, shown, shown, shown)
    ends = ", ".join(f"{clean(label)} {error(path.error[-1])}" for label, path in known.items())
    floors = {label: path.bias for label, path in known.items() if path.bias > 1e-9}
    caption = "Predicted error F(w) − F* against rounds, mean over runs."
    if floors:
        caption += " Dotted: the bias, which longer training does not reduce."

    def paint(figure: Figure, narrow: bool):
        axes = figure.subplots()
        draw_lines(axes, curves, labels)
        lowest = min(c.mean.min() for c in curves.values())
        for label, floor in floors.items():
            if floor > 0.5 * lowest:
                axes.axhline(floor, color=colour(labels.index(label)), lw=1.2, ls=(0, (1.2, 2)), alpha=0.9)
        axes.set_ylabel("Predicted error")
        log_axis(axes, max(c.mean.max() for c in curves.values()) / lowest)
        over_rounds(axes, curves)
        name_lines(figure, axes, curves, labels, narrow)

    heights = line_heights(curves, 340, 300)
    return picture.picture("paths", f"Line chart of the predicted error. At the end: {ends}.", caption, heights, paint)


def parts(prediction: Prediction) -> picture.Picture | None:
    """The parts of the predicted error at the end."""
    known = prediction.paths
    if not known:
        return None
    amounts = {label: [max(amount, 0.0) for amount in path.parts] for label, path in known.items()}
    text = "; ".join(
        f"{clean(label)}: " + ", ".join(f"{name} {error(a)}" for name, a in zip(Parts._fields, amount, strict=True))
        for label, amount in amounts.items()
    )
    caption = (
        f"Parts of the predicted error after {prediction.rounds:,} rounds. Convergence: the error of the mean run "
        "above that of its limit. Bias: the error of the limit. Variance: the effect of random availability and "
        "minibatches."
    )

    def paint(figure: Figure, narrow: bool):
        axes = figure.subplots()
        for y, amount in enumerate(amounts.values()):
            left = 0.0
            for i, width in enumerate(amount):
                axes.barh(y, width, left=left, height=0.5, color=colour((6, 1, 3)[i]), lw=0)
                left += width
        picture.name_rows(axes, [short(label, 14 if narrow else 22) for label in amounts])
        picture.value_axis(axes, 4 if narrow else 7)
        axes.set_xlim(0, 1.03 * max(sum(a) for a in amounts.values()))
        axes.set_xlabel("Predicted error")
        handles = [Patch(color=colour(c), lw=0, label=name) for c, name in zip((6, 1, 3), Parts._fields, strict=True)]
        picture.draw_legend(figure, handles, narrow)

    heights = picture.with_legend(list(Parts._fields), *(50 + 30 * len(amounts),) * 2)
    return picture.picture("parts", f"Bar chart of the parts of the predicted error. {text}.", caption, heights, paint)


def trials(exclusions: SettledExclusions) -> picture.Picture | None:
    """Both sides of CA-Fed's comparison for every client, at its last trial."""
    if not exclusions.trials:
        return None
    last = exclusions.decisive
    gain, cost = np.array([t.faster for t in last]), np.array([t.biased for t in last])
    out = np.array([t.excluded for t in last])
    caption = (
        "CA-Fed's comparison for each client: the decrease of the mean gap of the others if it is excluded (gain), and "
        "the increase of the bias term 4κ̄²TV²Γ (cost). Clients above the line are excluded."
    )
    alt = f"Scatter plot of gain against cost for {len(last)} clients; {int(out.sum())} are excluded."

    def paint(figure: Figure, narrow: bool):
        axes = figure.subplots()
        top = 1.08 * max(gain.max(), cost.max(), 1e-12)
        low = min(gain.min(), 0.0)
        axes.plot([0, top], [0, top], color=INK, alpha=0.5, lw=1)
        axes.axhline(0, color=INK, alpha=0.25, lw=0.8)
        for mask, index in ((~out, 0), (out, 1)):
            axes.plot(cost[mask], gain[mask], "o", color=colour(index), ms=5.5, alpha=0.8, mew=0)
        axes.set_xlim(-0.02 * max(cost.max(), 1e-12), 1.08 * max(cost.max(), 1e-12))
        axes.set_ylim(low - 0.08 * (max(gain.max(), cost.max()) - low), 1.1 * max(gain.max(), cost.max(), 1e-12))
        axes.set_xlabel("Cost: more bias")
        axes.set_ylabel("Gain: smaller gap")
        picture.ticks(axes.xaxis, 4 if narrow else 6)
        picture.ticks(axes.yaxis, 4 if narrow else 6)
        picture.grid(axes, alpha=0.1)
        picture.draw_legend(figure, [picture.dot(0, "kept"), picture.dot(1, "excluded")], narrow)

    return picture.picture("trials", alt, caption, (320, 300), paint)


def _rows(axes: Axes, groups: list[Kind], narrow: bool, names: bool) -> None:
    picture.name_rows(
        axes, [f"{picture.wrapped(k.name, 18 if narrow else 26)} ({len(k.clients):,})" if names else "" for k in groups]
    )
    picture.value_axis(axes, 4)
