"""The figures of the theory page."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from fedtide.report.curves import Curve, name_lines, over_rounds, room_for_names
from fedtide.report.maps import wrapped
from fedtide.report.picture import PERCENT, STEPS, Picture, draw_legend, legend_height, picture
from fedtide.report.svg import INK, colour, dash
from fedtide.report.theory_words import PARTS, Kind, error, kinds
from fedtide.report.words import clean, percent, short
from fedtide.theory.outlook import Outlook

_BAND = 34  # pixels of a row


def presence(outlook: Outlook) -> Picture:
    """How often each kind of client is there, and how long it stays away."""
    groups = kinds(outlook)
    told = "; ".join(
        f"{k.name}: {len(k.clients)} clients, there {percent(k.availability, 0)}, away {k.absent_run:.3g} at a time"
        for k in groups
    )
    caption = (
        "How often each kind of client is there, and how many rounds in a row it stays away and stays, on average. "
        "Persistence lengthens both and leaves the share of rounds as it is."
    )

    def draw(narrow: bool):
        height = _BAND * len(groups)

        def paint(figure: Figure):
            shape = (2, 1) if narrow else (1, 2)
            share, runs = np.ravel(figure.subplots(*shape))
            _rows(share, groups, narrow, names=True)
            _rows(runs, groups, narrow, names=narrow)
            share.set_title("Share of rounds there", loc="left")
            runs.set_title("Mean rounds in a row", loc="left")
            for y, kind in enumerate(groups):
                share.barh(y, kind.availability, height=0.45, color=colour(0), lw=0)
                stays = [kind.present_run, kind.absent_run]
                finite = [s for s in stays if 0 < s < np.inf]
                runs.plot(finite, [y] * len(finite), color=INK, alpha=0.25, lw=1.2)
                for length, index in zip(stays, (2, 1), strict=True):
                    if 0 < length < np.inf:
                        runs.plot([length], [y], "o", color=colour(index), ms=7)
            share.set_xlim(0, 1)
            share.xaxis.set_major_formatter(PERCENT)
            share.xaxis.set_major_locator(MaxNLocator(4, steps=STEPS))
            runs.set_xscale("log")
            lengths = [s for k in groups for s in (k.present_run, k.absent_run) if np.isfinite(s)]
            runs.set_xlim(0.8, max([*lengths, 10]) * 1.3)
            runs.xaxis.set_major_locator(LogLocator(numticks=6))
            runs.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
            runs.xaxis.set_minor_formatter(NullFormatter())
            dots = [
                Line2D([], [], color=colour(i), marker="o", ms=6, lw=0, label=name)
                for i, name in ((2, "there"), (1, "away"))
            ]
            draw_legend(figure, dots, narrow)

        return (2 * height + 170) if narrow else height + 95, paint

    return picture("presence", f"Who is there. {told}.", caption, draw)


def importance(outlook: Outlook) -> Picture | None:
    """The share of importance that each method gives each kind of client, against the target."""
    groups = kinds(outlook)
    known = {label: f.importance for label, f in outlook.forecasts.items() if f.importance is not None}
    if not known or len(groups) < 2:
        return None
    labels = list(outlook.forecasts)
    shares = {label: [float(p[k.clients].sum()) for k in groups] for label, p in known.items()}
    told = "; ".join(
        f"{k.name} (target {percent(k.target, 0)}): "
        + ", ".join(f"{clean(label)} {percent(s[i], 0)}" for label, s in shares.items())
        for i, k in enumerate(groups)
    )
    caption = (
        "The importance that each kind of client will have in the long run; the line is the target. A dot to its right "
        "means that the model will be made more for those clients than it should."
    )

    def draw(narrow: bool):
        slot = 12 if narrow else 13
        band = slot * len(known) + 16

        def paint(figure: Figure):
            axes = figure.subplots()
            for place, kind in enumerate(groups):
                top = place * band
                if place % 2 == 0:
                    axes.axhspan(top, top + band, color=INK, alpha=0.05, lw=0)
                axes.plot([kind.target] * 2, [top, top + band], color=INK, lw=1.4, alpha=0.7)
                for row, label in enumerate(known):
                    y, i = top + 8 + slot * (row + 0.5), labels.index(label)
                    axes.plot([kind.target, shares[label][place]], [y, y], color=colour(i), lw=1.6, alpha=0.75)
                    axes.plot([shares[label][place]], [y], "o", color=colour(i), ms=6)
            axes.set_ylim(len(groups) * band, 0)
            names = [wrapped(k.name, 14 if narrow else 24) for k in groups]
            axes.set_yticks([(p + 0.5) * band for p in range(len(groups))], names)
            axes.tick_params(axis="y", length=0)
            axes.spines["left"].set_visible(False)
            axes.grid(axis="x", color=INK, alpha=0.14, lw=0.7)
            axes.set_xlim(left=-0.01)
            axes.xaxis.set_major_locator(MaxNLocator(4 if narrow else 7, steps=STEPS))
            axes.xaxis.set_major_formatter(PERCENT)
            axes.set_xlabel("Share of the importance")
            handles = [
                Line2D([], [], color=colour(labels.index(m)), marker="o", ms=6, lw=1.6, label=short(m, 20))
                for m in known
            ]
            draw_legend(figure, [*handles, Line2D([], [], color=INK, lw=1.4, alpha=0.7, label="target")], narrow)

        room = legend_height([*(short(m, 20) for m in known), "target"], narrow)
        return 50 + room + band * len(groups), paint

    return picture("importance", f"Share of importance by kind of client. {told}.", caption, draw)


def paths(outlook: Outlook) -> Picture | None:
    """The predicted error against rounds, with what stays of it."""
    known = {label: f.path for label, f in outlook.forecasts.items() if f.path is not None and not f.diverges}
    if not known:
        return None
    labels = list(outlook.forecasts)
    curves = {}
    for label, path in known.items():
        shown = np.maximum(path.error, 1e-12)
        curves[label] = Curve(path.rounds, shown, shown, shown)
    ends = ", ".join(f"{clean(label)} {error(path.error[-1])}" for label, path in known.items())
    floors = {label: path.bias for label, path in known.items() if path.bias > 1e-9}
    caption = "Predicted error F(w) − F* against rounds, as the mean over runs."
    if floors:
        caption += " Dotted: the bias, which stays however long one trains."

    def draw(narrow: bool):
        def paint(figure: Figure):
            axes = figure.subplots()
            for label, curve in curves.items():
                i = labels.index(label)
                axes.plot(curve.round, curve.mean, color=colour(i), ls=dash(i), lw=1.9)
            lowest = min(c.mean.min() for c in curves.values())
            for label, floor in floors.items():
                if floor > 0.5 * lowest:
                    axes.axhline(floor, color=colour(labels.index(label)), lw=1.2, ls=(0, (1.2, 2)), alpha=0.9)
            axes.grid(axis="y", color=INK, alpha=0.12, lw=0.7)
            axes.set_ylabel("Predicted error")
            axes.set_yscale("log")
            highest = max(c.mean.max() for c in curves.values())
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if highest > 1e3 * lowest else (1.0, 2.0, 5.0)))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
            axes.yaxis.set_minor_formatter(NullFormatter())
            over_rounds(axes, curves)
            name_lines(figure, axes, curves, labels, narrow)

        return (300 if narrow else 340) + room_for_names(curves, narrow), paint

    return picture("paths", f"Line chart of the predicted error. At the end: {ends}.", caption, draw)


def parts(outlook: Outlook) -> Picture | None:
    """What the predicted error at the end is made of."""
    known = {label: f.path for label, f in outlook.forecasts.items() if f.path is not None and not f.diverges}
    if not known:
        return None
    amounts = {label: [max(path.convergence[-1], 0.0), path.bias, path.cloud[-1]] for label, path in known.items()}
    told = "; ".join(
        f"{clean(label)}: " + ", ".join(f"{name} {error(a)}" for name, a in zip(PARTS.values(), amount, strict=True))
        for label, amount in amounts.items()
    )
    caption = (
        f"What the predicted error after {outlook.rounds:,} rounds is made of. Still to go: what the mean run has not "
        "covered yet. Bias: what no training removes. Spread of runs: who happens to be there, and minibatches."
    )

    def draw(narrow: bool):
        def paint(figure: Figure):
            axes = figure.subplots()
            for y, amount in enumerate(amounts.values()):
                left = 0.0
                for i, width in enumerate(amount):
                    axes.barh(y, width, left=left, height=0.5, color=colour((6, 1, 3)[i]), lw=0)
                    left += width
            axes.set_ylim(len(amounts) - 0.4, -0.6)
            axes.set_yticks(range(len(amounts)), [short(label, 14 if narrow else 22) for label in amounts])
            axes.tick_params(axis="y", length=0)
            axes.spines["left"].set_visible(False)
            axes.set_xlim(0, 1.03 * max(sum(a) for a in amounts.values()))
            axes.xaxis.set_major_locator(MaxNLocator(4 if narrow else 7, steps=STEPS))
            axes.grid(axis="x", color=INK, alpha=0.14, lw=0.7)
            axes.set_xlabel("Predicted error")
            handles = [
                Patch(color=colour(c), lw=0, label=name) for c, name in zip((6, 1, 3), PARTS.values(), strict=True)
            ]
            draw_legend(figure, handles, narrow)

        return 50 + legend_height(list(PARTS.values()), narrow) + 30 * len(amounts), paint

    return picture("parts", f"Bar chart of the parts of the predicted error. {told}.", caption, draw)


def trials(outlook: Outlook, label: str) -> Picture | None:
    """The two sides of CA-Fed's comparison for every client, at its last trial."""
    found = outlook.forecasts[label].exclusions
    assert found is not None
    last = {trial.client: trial for trial in found.trials}
    if not last:
        return None
    gain = np.array([t.faster for t in last.values()])
    price = np.array([t.biased for t in last.values()])
    out = np.array([t.excluded for t in last.values()])
    caption = (
        "What CA-Fed weighs for each client: by how much leaving it out lowers the mean gap of the others, and by how "
        "much that raises the price of bias, 4κ̄²TV²Γ. Above the line a client is left out."
    )
    alt = f"Scatter plot of gain against price for {len(last)} clients; {int(out.sum())} are left out."

    def draw(narrow: bool):
        def paint(figure: Figure):
            axes = figure.subplots()
            top = 1.08 * max(gain.max(), price.max(), 1e-12)
            low = min(gain.min(), 0.0)
            axes.plot([0, top], [0, top], color=INK, alpha=0.5, lw=1)
            axes.axhline(0, color=INK, alpha=0.25, lw=0.8)
            for mask, index in ((~out, 0), (out, 1)):
                axes.plot(price[mask], gain[mask], "o", color=colour(index), ms=5.5, alpha=0.8, mew=0)
            axes.set_xlim(-0.02 * max(price.max(), 1e-12), 1.08 * max(price.max(), 1e-12))
            axes.set_ylim(low - 0.08 * (max(gain.max(), price.max()) - low), 1.1 * max(gain.max(), price.max(), 1e-12))
            axes.set_xlabel("Price: more bias")
            axes.set_ylabel("Gain: smaller gap")
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_locator(MaxNLocator(4 if narrow else 6, steps=STEPS))
            axes.grid(color=INK, alpha=0.1, lw=0.7)
            names = (("kept", 0), ("left out", 1))
            handles = [Line2D([], [], color=colour(i), marker="o", ms=6, lw=0, label=n) for n, i in names]
            draw_legend(figure, handles, narrow)

        return 300 if narrow else 320, paint

    return picture("trials", alt, caption, draw)


def _rows(axes: Axes, groups: list[Kind], narrow: bool, names: bool) -> None:
    axes.set_ylim(len(groups) - 0.4, -0.6)
    words = [f"{wrapped(k.name, 18 if narrow else 26)} ({len(k.clients):,})" for k in groups]
    axes.set_yticks(range(len(groups)), words if names else [""] * len(groups))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=INK, alpha=0.14, lw=0.7)
