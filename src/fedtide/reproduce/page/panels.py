"""Shared by the figures of a study: methods and their colours, legends, labels."""

import re
import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fedtide.report.picture import draw_legend, with_legend
from fedtide.report.svg import INK, colour, dash
from fedtide.reproduce.results import CaseResult, MethodResult
from fedtide.reproduce.study import Study
from fedtide.text import clean, short

DASHED = (0, (3.2, 2.2))
AS_PUBLISHED = "as published"
MOST_PANELS = 12


class PlottedMethod(NamedTuple):
    """A method of a case, and how it is drawn."""

    method: MethodResult
    colour: int
    published: bool  # a variant of a tuned method, at published settings

    @property
    def label(self) -> str:
        return self.method.label

    @property
    def style(self):
        return DASHED if self.published else dash(self.colour)


def rows(study: Study, case: CaseResult) -> list[PlottedMethod]:
    """The methods of a case in the order in which they ran."""
    order, published = study.order, study.published
    colours = {label: order.index(owner) for label, owner in (dict(zip(order, order, strict=True)) | published).items()}
    return [PlottedMethod(m, colours.get(m.label, len(order)), m.label in published) for m in case.methods]


class Legend(NamedTuple):
    """The legend of a figure: an entry for each tuned method, and one for all published settings."""

    colours: dict[str, int]
    published: bool
    marker: str = "None"

    def _names(self) -> list[str]:
        return [short(label, 22) for label in self.colours] + [AS_PUBLISHED] * self.published

    def heights(self, wide: float, narrow: float) -> tuple[float, float]:
        """Heights of both layouts with room for the legend."""
        return with_legend(self._names(), wide, narrow)

    def draw(self, figure: Figure, narrow: bool) -> None:
        handles = [
            Line2D([], [], color=colour(i), ls=dash(i), lw=2.2, marker=self.marker, ms=4.5, label=short(label, 22))
            for label, i in self.colours.items()
        ]
        if self.published:
            handles.append(Line2D([], [], color=INK, ls=DASHED, lw=1.2, alpha=0.75, label=AS_PUBLISHED))
        draw_legend(figure, handles, narrow)


def legend(study: Study, drawn: Sequence[PlottedMethod], marker: str = "None") -> Legend:
    """The legend of a figure with these methods."""
    shown = {row.label for row in drawn}
    colours = {label: i for i, label in enumerate(study.order) if label in shown}
    return Legend(colours, any(row.published for row in drawn), marker)


def named(case: CaseResult, several: bool, text: str = "") -> str:
    """The text, preceded by the label of the case if there are several cases."""
    return ": ".join(filter(None, (clean(case.label) if several else "", text)))


def heading(label: str, width: int) -> str:
    """The title of a panel, in at most two lines of this width.

    >>> heading("heterogeneous within and among clusters", 24)
    'heterogeneous within and\\namong clusters'
    """
    return "\n".join(textwrap.wrap(short(label, 2 * width - 4), width)[:2])


def brief(label: str, most: int) -> str:
    """A label shortened to at most `most` characters.

    >>> brief("CA-Fed, published rates", 14)
    'CA-Fed, publ.'
    """
    return short(re.sub(r", published rates?$", ", publ.", label), most)
