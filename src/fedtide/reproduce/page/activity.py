"""Clients × rounds: which clients were available, and which of them were invited."""

import itertools

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from fedtide.report.picture import (
    EXCLUDED,
    INCLUDED,
    Picture,
    draw_legend,
    panel_heights,
    panels,
    picture,
    pixel_map,
    rounds_below,
    with_legend,
    wrapped,
)
from fedtide.report.svg import INK
from fedtide.reproduce.page.panels import MOST_PANELS, heading, named
from fedtide.reproduce.results import Activity, Results
from fedtide.reproduce.study import Study
from fedtide.text import clean, percent

_MOST_KINDS = 12
_TITLE = 28  # characters in a line
_NAMED = 0.07  # smallest fraction of the clients of a kind whose name fits beside its rows


def activity(study: Study, results: Results) -> Picture | None:
    """Invited and excluded clients in each round, a panel for each case and method."""
    recorded = [(case, case.activity) for case in results.cases if case.activity is not None]
    shown = [(case, record, label) for case, record in recorded for label in record.methods][:MOST_PANELS]
    if not shown:
        return None
    methods, several = {label for _, _, label in shown}, len(recorded) > 1
    titles = [named(case, several, clean(label) if len(methods) > 1 or not several else "") for case, _, label in shown]
    invited = "; ".join(f"{title}: {_invited(*one[1:])}" for title, one in zip(titles, shown, strict=True))
    who = clean(*methods) if len(methods) == 1 else "the method"
    caption = (
        f"Clients that {who} invites, and available clients that it excludes: each row is a client, each column a "
        "round of the first data draw and seed."
    )
    handles = [
        Patch(color=INCLUDED, label="invited"),
        Patch(color=EXCLUDED, label="available, excluded"),
        Patch(facecolor="none", edgecolor=INK, lw=0.6, label="unavailable"),
    ]
    layout = 3, 1  # columns, wide and narrow

    def paint(figure: Figure, narrow: bool):
        columns, before = layout[narrow], None
        for at, axes in enumerate(panels(figure, len(shown), columns)):
            _, record, label = shown[at]
            first = at % columns == 0
            _panel(axes, record, label, names=first or record.clients != before, narrow=narrow)
            axes.set_title(heading(titles[at], _TITLE))
            rounds_below(axes, 5, name=at + columns >= len(shown))
            before = record.clients
        draw_legend(figure, handles, narrow)

    two_lines = any("\n" in heading(title, _TITLE) for title in titles)
    heights = panel_heights(len(shown), layout, (270, 220), 34 if two_lines else 14)
    names = [str(handle.get_label()) for handle in handles]
    alt = (
        f"Maps of invited clients by round. Of the rounds in which clients are available, they are invited: {invited}."
    )
    return picture("activity", alt, caption, with_legend(names, *heights), paint)


def _states(record: Activity, label: str) -> np.ndarray:
    """[clients, rounds]: 0 unavailable, 1 available only, 2 invited."""
    return np.array([[int(state) for state in row] for row in record.methods[label]])


def _invited(record: Activity, label: str) -> str:
    """The percentage of available client-rounds that are invited, by kind."""
    states, of_clients = _states(record, label), np.array(record.clients)
    kinds = list(dict.fromkeys(record.clients))
    groups = {kind: states[of_clients == kind] for kind in kinds}
    if len(kinds) > _MOST_KINDS:
        groups = {"all clients": states}
    shares = {kind: own[own > 0] == 2 for kind, own in groups.items()}
    return ", ".join(
        f"{clean(kind)} {percent(float(share.mean()), 0) if share.size else 'never available'}"
        for kind, share in shares.items()
    )


def _panel(axes: Axes, record: Activity, label: str, names: bool, narrow: bool) -> None:
    states = _states(record, label)
    clients, rounds = states.shape
    layers = [(states == 1, EXCLUDED, 255), (states == 2, INCLUDED, 255)]
    pixel_map(axes, layers, (0.5, rounds + 0.5, clients, 0))
    runs = [(kind, len(list(own))) for kind, own in itertools.groupby(record.clients)]
    axes.set_yticks([])
    if len(runs) > _MOST_KINDS:
        axes.set_ylabel("Client" if names else "")
        return
    edges = np.cumsum([0, *(count for _, count in runs)])
    for edge in edges[1:-1]:
        axes.axhline(edge, color=INK, lw=0.9)
    if names and len(runs) > 1:
        tall = [i for i, (_, count) in enumerate(runs) if count >= _NAMED * clients]
        axes.set_yticks((edges[tall] + edges[1:][tall]) / 2, [wrapped(runs[i][0], 12 if narrow else 14) for i in tall])
        axes.tick_params(axis="y", length=0)
