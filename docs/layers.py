"""Draws the layers of packages from the import contract in pyproject.toml. `docs/generate.py` calls this."""

import itertools
import textwrap
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

# Rows of the picture, from top to bottom: modules that share a box, and what they do.
ROWS: dict[str, dict[str, str]] = {
    "Interfaces": {
        "cli": "commands, progress, tables in the terminal",
        "adapters": "the same methods on Flower, on real devices, on Ray",
        "track": "callbacks for TensorBoard, MLflow, wandb",
    },
    "Subjects": {
        "fleet": "log, model, diagnosis, recommendation",
        "reproduce": "studies, claims, verdicts",
        "theory": "bounds, predictions",
        "tuning": "search space, trials, choice",
    },
    "Runs": {
        "experiments": "TOML, typed configurations, objects",
        "simulation": "rounds compiled into one program; records",
        "report": "SVG, page frame, the page of a run",
    },
    "Methods": {"methods": "one paper, one file: five parts and declared facts"},
    "Parts": {
        "availability": "which clients are available",
        "estimators": "estimates of π and λ",
        "participation": "which clients to invite",
        "solvers": "local training",
        "aggregation": "one direction from many updates",
        "servers": "one step of the model",
        "problems": "data, model and loss",
        "clock": "devices, barriers",
    },
    "Base": {
        "data, partitioners": "data sets, and how to split them",
        "text": "formatting",
        "summaries": "tables of records",
        "statistics, work, schedules, staleness, files, tomls, rows, minimise, attackers": "one module each",
        "types": "what parts exchange",
        "catalogue, kinds": "entries by name, arguments by kind",
        "streams, errors, declared": "randomness, errors, facts",
    },
}
COLOURS = {  # box, border and arrows, names, other text
    "light": ("#eef5f5", "#a9b5b9", "#1c2326", "#5a666b"),
    "dark": ("#1f2d30", "#5f6b70", "#e6e6e6", "#a8b0b4"),
}
WIDTH, LEFT, HEIGHT, GAP = 920, 88, 76, 14
NAME, TEXT = 13, 12  # font sizes


class Box(NamedTuple):
    x: float
    width: float
    modules: tuple[str, ...]
    text: str


def contract() -> list[set[str]]:
    """The layers, from top to bottom; modules of one layer do not import each other."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    return [set(layer.split(" | ")) for layer in layers]


def picture(theme: str) -> str:
    """The layers as SVG; an arrow between boxes of a row means that the left one may import the right one."""
    layers = contract()
    level = {module: i for i, layer in enumerate(layers) for module in layer}
    rows = {label: _boxes(row) for label, row in ROWS.items()}
    drawn = [box.modules for boxes in rows.values() for box in boxes]
    assert sorted(itertools.chain(*drawn)) == sorted(level), "a module of the contract is missing"
    assert all(len({level[m] for m in modules}) == 1 for modules in drawn), "a box mixes layers"
    levels = [level[modules[0]] for modules in drawn]
    assert levels == sorted(levels), "the rows are in another order than the contract"

    box_colour, line, ink, grey = COLOURS[theme]
    height = len(rows) * (HEIGHT + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" '
        f'role="img" aria-label="Packages in layers; imports point down">'
    ]
    for number, (label, boxes) in enumerate(rows.items()):
        top = GAP / 2 + number * (HEIGHT + GAP)
        parts.append(_text(4, top + HEIGHT / 2 + 5, NAME, grey, label, "start"))
        for box, following in itertools.zip_longest(boxes, boxes[1:]):
            parts.append(
                f'<rect x="{box.x:.1f}" y="{top:g}" width="{box.width:.1f}" height="{HEIGHT}" rx="6" '
                f'fill="{box_colour}" stroke="{line}"/>'
            )
            names = textwrap.wrap(", ".join(box.modules), int(box.width / 8), break_long_words=False)
            lines = textwrap.wrap(box.text, int(box.width / 6.9))
            y = top + HEIGHT / 2 - 8 * (len(names) + len(lines)) + 13
            middle = box.x + box.width / 2
            for i, name in enumerate(names):
                parts.append(_text(middle, y + 16 * i, NAME, ink, name, "middle", 600))
            for i, words in enumerate(lines, len(names)):
                parts.append(_text(middle, y + 16 * i, TEXT, grey, words, "middle"))
            if following and level[box.modules[0]] < level[following.modules[0]]:
                parts.append(_arrow(box.x + box.width + 3, top + HEIGHT / 2, "h7 m-4 -4 l4 4 l-4 4", line))
        if number < len(rows) - 1:
            parts.append(_arrow(LEFT + (WIDTH - LEFT) / 2, top + HEIGHT + 3, "v7 m-4 -4 l4 4 l4 -4", line))
    return "\n".join([*parts, "</svg>\n"])


def _boxes(row: dict[str, str]) -> list[Box]:
    """A row's boxes from left to right; those of several modules are wider."""
    shares = [0.85 + 0.15 * len(names.split(", ")) for names in row]
    unit = (WIDTH - LEFT - 4 - GAP * (len(row) - 1)) / sum(shares)
    starts = (LEFT + unit * sum(shares[:i]) + GAP * i for i in range(len(row)))
    return [
        Box(x, unit * share, tuple(names.split(", ")), text)
        for x, share, (names, text) in zip(starts, shares, row.items(), strict=True)
    ]


def _text(x: float, y: float, size: int, colour: str, text: str, anchor: str, weight: int = 400) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" '
        f'fill="{colour}">{text}</text>'
    )


def _arrow(x: float, y: float, path: str, colour: str) -> str:
    return f'<path d="M{x:.1f} {y:.1f} {path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
