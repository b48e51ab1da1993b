"""The figures of a study by kind, and their SVG as files."""

import re
from collections.abc import Callable

from fedtide.report import svg
from fedtide.report.picture import Picture
from fedtide.reproduce.page.activity import activity
from fedtide.reproduce.page.best import best
from fedtide.reproduce.page.curves import curves, rare_classes
from fedtide.reproduce.page.ends import ends
from fedtide.reproduce.page.estimates import estimates
from fedtide.reproduce.page.heat import classes, grid
from fedtide.reproduce.page.inclusion import inclusion, regions
from fedtide.reproduce.page.maps import best_map
from fedtide.reproduce.page.weights import weights
from fedtide.reproduce.results import Results
from fedtide.reproduce.study import FigureKind, Study

FIGURES: dict[FigureKind, dict[str, Callable[[Study, Results], Picture | None]]] = {
    "map": {"map": best_map},
    "curves": {"curves": curves},
    "ends": {"ends": ends},
    "grid": {"grid": grid},
    "classes": {"classes": classes, "rare-classes": rare_classes},
    "inclusion": {"inclusion": inclusion},
    "weights": {"weights": weights},
    "activity": {"activity": activity},
    "best": {"best": best},
    "estimates": {"estimates": estimates},
    "regions": {"regions": regions},
}
"""The figures of each kind by name; a function returns None if results lack the numbers."""

_INK = {"light": "#1b2026", "dark": "#e6eaee"}


def pictures(study: Study, results: Results) -> dict[str, Picture]:
    """The figures by name, in the order of the study's `shows`, without those whose numbers are missing."""
    drawn = {name: draw(study, results) for kind in study.shows for name, draw in FIGURES[kind].items()}
    return {name: picture for name, picture in drawn.items() if picture is not None}


def standalone(drawing: str) -> str:
    """A picture's SVG as a file, for light pages and, as FILE.svg#only-dark, for dark ones."""

    def theme(name: str) -> str:
        palette = svg.LIGHT if name == "light" else svg.DARK
        return f"color:{_INK[name]};" + "".join(f"--c{i}:{shade};" for i, shade in enumerate(palette))

    opening, body = re.match(r"(<svg[^>]*>)(.*)</svg>", drawing, re.DOTALL).groups()  # type: ignore[union-attr]
    width, height = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', opening).groups()  # type: ignore[union-attr]
    family = f"svg{{font-family:{svg.FONT}}}"
    style = f"<style>{family}#only-dark{{{theme('light')}}}#only-dark:target{{{theme('dark')}}}</style>"
    body = re.sub(r"var\((--c\d), #\w+\)", r"var(\1)", slim(body))
    opening = opening.replace("<svg", f'<svg width="{float(width):g}" height="{float(height):g}"', 1)
    return f'{opening}{style}<g id="only-dark">{body}</g></svg>\n'


def slim(drawing: str) -> str:
    """The SVG with coordinates to a tenth of a pixel, without rotations by 0 and without its own font."""

    def shorter(match: re.Match[str]) -> str:
        numbers = re.sub(r"-?\d+\.\d{2,}", lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), match[2])
        numbers = " ".join(numbers.split())
        # After a move, line commands are implicit.
        return f'{match[1]}"{numbers if re.search("[^-MLz0-9. ]", numbers) else numbers.replace(" L ", " ")}"'

    drawing = re.sub(r"font: (\d+)? ?([\d.]+px) [^;\"]*", _font, drawing)
    drawing = re.sub(r' transform="rotate\(-?0 [^"]*"|font-family: [^;"]*; ', "", drawing)
    return re.sub(r'(\b(?:d|x|y)=)"([^"]*)"', shorter, drawing)


def _font(match: re.Match[str]) -> str:
    return f"font-size: {match[2]}" + (f"; font-weight: {match[1]}" if match[1] else "")
