"""From a matplotlib figure to an inline SVG that follows the page's light or dark theme.

Colours are drawn as stand-ins and then replaced: ink by `currentColor`, the palette by CSS variables that fall back
to the light palette where no page defines them.
"""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from io import StringIO
from typing import Any

import matplotlib
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

# Two palettes for one identity: with the whole range of lightness on each background, neighbours stay apart for
# readers with any of the three colour deficiencies, and each colour keeps a contrast of 3 with its background.
LIGHT = ("#1373b3", "#cc7a24", "#005f3a", "#8a1a6c", "#6b6207", "#dd416f", "#0f9499", "#1a2592")
DARK = ("#4ea2e8", "#f0a04a", "#a8ecc4", "#d08ab8", "#f3e557", "#f0606c", "#57e6ea", "#7b7ff0")
PAPER = {"light": "#ffffff", "dark": "#14171c"}

INK = "#010203"
_STAND_INS = tuple(f"#a1b2{i:02x}" for i in range(len(LIGHT)))
_DASHES = ("-", (0, (5, 1.6)), (0, (1.2, 1.4)))
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text remains text: small, searchable, in the reader's font
    "text.parse_math": False,  # dollar signs in labels are literal
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # included in matplotlib and wide: text that fits in it fits in other fonts
    "font.size": 12,
    "axes.labelsize": 12,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "legend.fontsize": 11.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.linewidth": 0.8,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "axes.unicode_minus": True,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.handlelength": 1.6,
    "legend.columnspacing": 1.4,
    "legend.borderpad": 0,
    "legend.borderaxespad": 0.35,
    "path.simplify": True,
}


def colour(index: int) -> str:
    """The stand-in for a colour of the palette, which repeats."""
    return _STAND_INS[index % len(_STAND_INS)]


def dash(index: int):
    """Solid for the first cycle of the palette, dashed and dotted for the next ones."""
    return _DASHES[index // len(_STAND_INS) % len(_DASHES)]


@contextmanager
def canvas(width: float, height: float) -> Iterator[Figure]:
    """A figure of this size in CSS pixels, in the report's style. Must be converted to SVG inside the block."""
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Gg]lyph")  # the browser provides missing glyphs
        layout = ConstrainedLayoutEngine(w_pad=0.04, h_pad=0.06, hspace=0.03)
        figure = Figure(figsize=(width / 72, height / 72), dpi=72, layout=layout)
        yield figure


def to_svg(figure: Figure, name: str, alt: str) -> str:
    """The figure as an `<svg>` element with an accessible name, whose ids begin with `name`."""
    buffer = StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with matplotlib.rc_context({"svg.hashsalt": name}):  # deterministic ids: equal figures give equal text
        FigureCanvasSVG(figure).print_svg(buffer, metadata=nothing)  # savefig draws everything twice
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.DOTALL)
    used = set(re.findall(r'(?:url\(#|xlink:href="#)([^")]+)', text))
    text = re.sub(r' id="([^"]+)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", text)
    text = re.sub(r'(url\(#|xlink:href="#)(?=[^")]+)', rf"\g<1>{name}-", text)
    text = re.sub(r"font: ([^;\"]*?)([\d.]+)px [^;\"]*", rf"font: \g<1>\g<2>px {FONT}", text)
    text = text.replace(INK, "currentColor")
    for i, (stand_in, light) in enumerate(zip(_STAND_INS, LIGHT, strict=True)):
        text = text.replace(stand_in, f"var(--c{i}, {light})")
    text = re.sub(r"\n\s*", "\n", text).strip()
    box = re.search(r'viewBox="[^"]+"', text)
    assert box is not None  # matplotlib always writes one
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" {box[0]}'
    return f'{opening} role="img" aria-label="{escape(alt)}">{text[text.index(">") + 1 :]}'
