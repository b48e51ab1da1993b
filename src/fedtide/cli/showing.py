"""Commands that show: `methods`, `availability`, `cite`."""

import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedtide.cli.faults import explained
from fedtide.cli.layout import columns, show
from fedtide.cli.picture import picture
from fedtide.errors import FedtideError, did_you_mean

_ROUNDS_IN_PICTURE = 72


def methods(
    name: Annotated[str | None, typer.Argument(help="A method of the list.", show_default=False)] = None,
) -> None:
    """List the methods, or explain one: its equations, facts, settings and reference.

    \b
    Examples:
      fedtide methods
      fedtide methods ca_fed
    """
    with explained():
        from fedtide import methods as catalogue

        if name is not None:
            return _explain_method(_find(catalogue.CATALOGUE, name))
        table = columns("name", "what it does", "unbiased when", "needs")
        for entry in catalogue.CATALOGUE.values():
            table.add_row(entry.name, escape(entry.summary), escape(entry.facts.unbiased), _needs(entry.facts))
        show(table, "", "More: fedtide methods NAME")


def availability(
    name: Annotated[str | None, typer.Argument(help="A process of the list.", show_default=False)] = None,
) -> None:
    """List the availability processes, or explain one: its arguments, an example and what it looks like.

    \b
    Examples:
      fedtide availability
      fedtide availability markov
    """
    with explained():
        from fedtide import availability as catalogue

        if name is not None:
            return _explain_process(_find(catalogue.CATALOGUE, name))
        table = columns("name", "who is there")
        for entry in catalogue.CATALOGUE.values():
            table.add_row(entry.name, escape(entry.summary))
        show(table, "", "More: fedtide availability NAME")


def cite(
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="Methods.", show_default=False)],
) -> None:
    """Print the BibTeX entries of methods.

    \b
    Examples:
      fedtide cite ca_fed fedavg >> paper.bib
    """
    with explained():
        from fedtide import methods as catalogue

        typer.echo("\n\n".join(dict.fromkeys(_find(catalogue.CATALOGUE, name).bibtex for name in names)))


def _find(catalogue: dict[str, Any], name: str) -> Any:
    if name not in catalogue:
        raise FedtideError(f"'{name}' is unknown; {did_you_mean(name, catalogue)}")
    return catalogue[name]


def _explain_method(entry: Any) -> None:
    facts = entry.facts
    table = columns("fact", "")
    table.add_row("unbiased when", escape(facts.unbiased))
    table.add_row("needs", _needs(facts))
    table.add_row("server memory", facts.server_memory)
    table.add_row("client memory", facts.client_memory)
    table.add_row("sent besides the model", facts.extra_up)
    table.add_row("received besides it", facts.extra_down)
    show(f"[bold]{escape(entry.title)}[/]", "", *_prose(entry.equations), "", table, "")
    show(_settings(entry.build), "")
    _show_toml("[[methods]]", entry.name, _defaults(entry.build))
    show("Also: label, local = {steps or epochs, batch}, and tables that replace a part:", "")
    typer.echo(
        'solver = {name = "proximal", rate = 0.1, mu = 0.01}  # or estimator, participation, aggregation, server\n'
    )
    show("[bold]Reference[/]", "")
    typer.echo(entry.bibtex)


def _settings(build: Callable[..., Any]) -> Table:
    from fedtide.experiments import as_written, settings
    from fedtide.experiments.arguments import in_words
    from fedtide.experiments.config import toml

    table = columns("argument", "is", "default")
    for name, parameter in settings(build).items():
        written = as_written(parameter.default)
        if parameter.default is inspect.Parameter.empty:
            default = "(needed)"
        else:
            default = "–" if written is None else written["name"] if isinstance(written, dict) else toml(written)
        table.add_row(name, escape(in_words(parameter.annotation)), escape(default))
    return table


def _show_toml(header: str, name: str, arguments: dict[str, Any]) -> None:
    from fedtide.experiments import as_written, dumps

    show("[bold]In a configuration[/]", "")
    typer.echo("\n".join((header, dumps({"name": name, **as_written(arguments)}, inline=True))))  # to copy: not wrapped


def _defaults(build: Callable[..., Any]) -> dict[str, Any]:
    from fedtide.experiments import settings

    skipped = (None, inspect.Parameter.empty)
    return {name: p.default for name, p in settings(build).items() if not any(p.default is s for s in skipped)}


def _needs(facts: Any) -> str:
    wanted = {"estimates": facts.needs_estimates, "losses": facts.needs_losses}
    return ", ".join(name for name, needed in wanted.items() if needed) or "–"


def _explain_process(entry: Any) -> None:
    example = entry.build(**entry.example)
    show(
        f"[bold]{escape(entry.name)}[/]", "", *_prose(inspect.getdoc(entry.build) or ""), "", _settings(entry.build), ""
    )
    _show_toml("[availability]", entry.name, entry.example)
    rounds = min(_ROUNDS_IN_PICTURE, Console().width - 4)
    lines = picture(example.sample(0, rounds))
    show(f"[bold]What this example looks like[/] ({example.clients} clients from top to bottom, {rounds} rounds)", "")
    show(*(f"  {line}" for line in lines))


def _prose(text: str) -> list[str]:
    """A docstring's paragraphs and bullets, each one line, for the terminal to wrap."""
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        pieces = re.split(r"\n(?=\* )", paragraph)
        lines += ["", *(escape(" ".join(piece.split())) for piece in pieces)]
    return lines[1:]
