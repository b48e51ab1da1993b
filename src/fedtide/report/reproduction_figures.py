"""The figures of a reproduction, by what its study shows."""

import re

from fedtide.report import svg
from fedtide.report.picture import Picture
from fedtide.report.reproduction_curves import curves, rare_classes
from fedtide.report.reproduction_ends import ends
from fedtide.report.reproduction_fleet import inclusion, regions
from fedtide.report.reproduction_heat import classes, grid, telling_classes
from fedtide.report.reproduction_maps import best_map
from fedtide.report.reproduction_numbers import Facts

_INK = {"light": "#1b2026", "dark": "#e6eaee"}
_DRAW = {
    "map": best_map,
    "curves": curves,
    "ends": ends,
    "grid": grid,
    "classes": classes,
    "inclusion": inclusion,
    "regions": regions,
}


def pictures(study: Facts, results: Facts) -> dict[str, Picture]:
    """By name, in the order of what the study shows; what its numbers lack is left out."""
    found: dict[str, Picture | None] = {}
    for name in study["shows"]:
        found[name] = _DRAW[name](study, results)
        if name == "classes" and found[name] is not None:
            found["rare-classes"] = rare_classes(study, results, telling_classes(study, results))
    return {name: picture for name, picture in found.items() if picture is not None}


def standalone(drawing: str) -> str:
    """A picture's SVG as a file of its own, for light pages and, as FILE.svg#only-dark, for dark ones."""

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
    """Coordinates to a tenth of a pixel, turns by nothing left out, and the font that of what is around."""

    def shorter(found: re.Match[str]) -> str:
        numbers = re.sub(r"-?\d+\.\d{2,}", lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), found[2])
        numbers = " ".join(numbers.split())
        # After a move, lines are understood.
        return f'{found[1]}"{numbers if re.search("[^-MLz0-9. ]", numbers) else numbers.replace(" L ", " ")}"'

    drawing = re.sub(r"font: (\d+)? ?([\d.]+px) [^;\"]*", _font, drawing)
    drawing = re.sub(r' transform="rotate\(-?0 [^"]*"|font-family: [^;"]*; ', "", drawing)
    return re.sub(r'(\b(?:d|x|y)=)"([^"]*)"', shorter, drawing)


def _font(found: re.Match[str]) -> str:
    return f"font-size: {found[2]}" + (f"; font-weight: {found[1]}" if found[1] else "")
