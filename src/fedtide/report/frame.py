"""The frame of every page: templates, their filters and colours."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup

from fedtide import text as words
from fedtide.report import svg
from fedtide.report.picture import Picture


class Cell(NamedTuple):
    """A cell of a table, and the interval below it."""

    text: str
    spread: str | None = None
    best: bool = False


def page(package: str, template: str, figures: Mapping[str, Picture | None], **values: Any) -> str:
    """A page from a template of a package, which extends the templates of this package.

    Figures that are None are left out.
    """
    folders = dict.fromkeys((package, "fedtide.report"))
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(name) for name in folders]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "clean": words.clean,
        "short": words.short,
        "drawing": lambda text: Markup(text),  # SVG made by this package, with escaped labels
        "setting": words.setting,
        "unbroken": words.unbroken,
        "settings": words.settings,
        "sentence": lambda name: str(name).replace("_", " "),
    }
    values["figures"] = {name: figure for name, figure in figures.items() if figure is not None}
    values |= {"palette": [svg.LIGHT, svg.DARK], "paper": svg.PAPER}
    return environment.get_template(template).render(values)
