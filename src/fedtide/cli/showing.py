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
        table = columns("", "")
        for purpose, entries in catalogue.by_purpose().items():
            table.add_row(f"[bold]{purpose.capitalize()}[/]")
            for entry in entries:
                table.add_row(f"  {entry.name}", escape(entry.summary))
            table.add_row()
        show(table, "Equations, facts, arguments and reference of one: fedtide methods NAME")


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
    table = columns("", "")
    table.add_row("unbiased when", escape(facts.unbiased))
    table.add_row("the server needs", _needs(facts))
    table.add_row("the server keeps", facts.server_memory)
    table.add_row("a client keeps", _or_nothing(facts.client_memory))
    table.add_row("sent besides the model", escape(_or_nothing(facts.extra_up)))
    table.add_row("received besides it", escape(_or_nothing(facts.extra_down)))
    show(f"[bold]{escape(entry.title)}[/]", "", *_prose(entry.equations), "", table, "", _SYMBOLS, "")
    show(_meanings(entry), "")
    _show_toml("[[methods]]", entry.name, _defaults(entry.build))
    show("Any part can be replaced by another, for example:", "")
    typer.echo(
        'solver = {name = "proximal", rate = 0.1, mu = 0.01}  # or estimator, participation, aggregation, server\n'
    )
    show("[bold]Reference[/]", "")
    typer.echo(entry.bibtex)


_SYMBOLS = (
    "d is the size of a model, N the number of clients, π how often a client is there, λ how persistent its presence "
    "is, α how much it should count; hats are estimates."
)


def _meanings(entry: Any) -> Table:
    """The arguments of a method, its local work among them."""
    from fedtide.experiments import settings
    from fedtide.experiments.arguments import in_words
    from fedtide.methods.meanings import meaning

    table = columns("argument", "default", "meaning")
    for name, parameter in settings(entry.build).items():
        words = in_words(parameter.annotation)
        known = meaning(entry.name, name)
        told = f"{known} ({words})" if known and words.startswith('"') else known or words
        table.add_row(name, escape(_default(parameter)), escape(told))
    work = next((value for value in entry.defaults.values() if hasattr(value, "minibatch")), None)
    if work is not None:
        told = f"what a client computes in a round: {_local(work)}, or what [local] says"
        table.add_row("local", "", escape(told))
    return table


def _local(work: Any) -> str:
    """Local work as a configuration writes it."""
    from fedtide.tomls import toml
    from fedtide.work import Epochs, FullBatch, RandomSteps

    if isinstance(work, FullBatch):
        return toml({"steps": work.count, "batch": "all"})
    if isinstance(work, RandomSteps):
        return toml({"steps": {"low": work.low, "high": work.high}, "batch": work.batch})
    return toml({"epochs" if isinstance(work, Epochs) else "steps": work.count, "batch": work.batch})


def _settings(build: Callable[..., Any]) -> Table:
    from fedtide.experiments import settings
    from fedtide.experiments.arguments import in_words

    table = columns("argument", "is", "default")
    for name, parameter in settings(build).items():
        table.add_row(name, escape(in_words(parameter.annotation)), escape(_default(parameter)))
    return table


def _default(parameter: inspect.Parameter) -> str:
    from fedtide.experiments import as_written
    from fedtide.tomls import toml

    if parameter.default is inspect.Parameter.empty:
        return "(needed)"
    written = as_written(parameter.default)
    return "–" if written is None else written["name"] if isinstance(written, dict) else toml(written)


def _show_toml(header: str, name: str, arguments: dict[str, Any]) -> None:
    from fedtide.experiments import as_written, dumps

    show("[bold]In a configuration[/]", "")
    typer.echo("\n".join((header, dumps({"name": name, **as_written(arguments)}, inline=True))))  # to copy: not wrapped


def _defaults(build: Callable[..., Any]) -> dict[str, Any]:
    from fedtide.experiments import settings

    skipped = (None, inspect.Parameter.empty)
    return {name: p.default for name, p in settings(build).items() if not any(p.default is s for s in skipped)}


def _needs(facts: Any) -> str:
    wanted = {
        "estimates of availability (π̂)": facts.needs_estimates,
        "of its correlation (λ̂)": facts.needs_correlation,
        "losses before the round": facts.needs_losses,
    }
    return ", ".join(name for name, needed in wanted.items() if needed) or "nothing but updates"


def _or_nothing(fact: str) -> str:
    return "nothing" if fact == "–" else fact


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
