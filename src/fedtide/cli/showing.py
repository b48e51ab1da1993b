"""Commands that list and explain: `methods`, `availability`, `cite`."""

import inspect
import re
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedtide.cli.faults import explained
from fedtide.cli.layout import Argument, columns, show
from fedtide.errors import FedtideError, did_you_mean

_ROUNDS_IN_PICTURE = 72
_BLOCKS = np.array([[" ", "▄"], ["▀", "█"]])  # [upper client available, lower client available]


def methods(name: Annotated[str | None, Argument(help="Name of a method.")] = None) -> None:
    """List the methods, or explain one: equations, properties, arguments and reference.

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
        show(table, "Explain a method: fedtide methods NAME")


def availability(name: Annotated[str | None, Argument(help="Name of a process.")] = None) -> None:
    """List the availability processes, or explain one: arguments, an example and a plot of it.

    \b
    Examples:
      fedtide availability
      fedtide availability markov
    """
    with explained():
        from fedtide import availability as catalogue

        if name is not None:
            return _explain_process(_find(catalogue.CATALOGUE, name))
        table = columns("name", "available clients")
        for entry in catalogue.CATALOGUE.values():
            table.add_row(entry.name, escape(entry.summary))
        show(table, "", "Explain a process: fedtide availability NAME")


def cite(names: Annotated[list[str], Argument(metavar="NAME…", help="Names of methods.")]) -> None:
    """Print the BibTeX entries of methods.

    \b
    Examples:
      fedtide cite ca_fed fedavg >> paper.bib
    """
    with explained():
        from fedtide import methods as catalogue

        typer.echo("\n\n".join(dict.fromkeys(_find(catalogue.CATALOGUE, name).bibtex for name in names)))


def _find(catalogue: Mapping[str, Any], name: str) -> Any:
    if name not in catalogue:
        raise FedtideError(f"'{name}' is unknown; {did_you_mean(name, catalogue)}")
    return catalogue[name]


def _explain_method(entry: Any) -> None:
    from fedtide.experiments import settings

    facts = entry.facts
    wanted = {
        "estimates of availability (π̂)": facts.needs_estimates,
        "estimates of correlation (λ̂)": facts.needs_correlation,
        "losses before each round": facts.needs_losses,
    }
    table = columns("", "")
    table.add_row("unbiased when", escape(facts.unbiased))
    table.add_row("the server needs", ", ".join(name for name, needed in wanted.items() if needed) or "only updates")
    table.add_row("server memory", facts.server_memory)
    extra = {"extra upload per client": facts.extra_up, "extra download per client": facts.extra_down}
    for heading, fact in {"client memory": facts.client_memory, **extra}.items():
        table.add_row(heading, "nothing" if fact == "–" else escape(fact))
    show(f"[bold]{escape(entry.title)}[/]", "", *_prose(entry.equations), "", table, "", _SYMBOLS, "")
    show(_meanings(entry), "")
    given = {name: p.default for name, p in settings(entry.build).items() if p.default is not inspect.Parameter.empty}
    _show_toml("[[methods]]", entry.name, given)
    show("Any part can be replaced, for example:", "")
    typer.echo(
        'solver = {name = "proximal", rate = 0.1, mu = 0.01}  # or estimator, participation, aggregation, server'
    )
    show("", "[bold]Reference[/]", "")
    typer.echo(entry.bibtex)


_SYMBOLS = (
    "d is the number of parameters, N the number of clients; π is the availability of a client, λ its correlation, "
    "α its importance; hats denote estimates."
)


def _meanings(entry: Any) -> Table:
    """The arguments of a method, its local work among them."""
    from fedtide.experiments import settings
    from fedtide.experiments.arguments import in_words

    table, explained = columns("argument", "default", "meaning"), entry.explained
    for name, parameter in settings(entry.build).items():
        words = in_words(parameter.annotation)
        known = explained.get(name)
        meaning = f"{known} ({words})" if known and words.startswith('"') else known or words
        table.add_row(name, escape(_default(parameter)), escape(meaning))
    work = next((value for value in entry.defaults.values() if hasattr(value, "minibatch")), None)
    if work is not None:
        meaning = f"{explained['work']}: {_local(work)} unless [local] is given"
        table.add_row("local", "", escape(meaning))
    return table


def _local(work: Any) -> str:
    """Local work as a configuration writes it."""
    from fedtide.tomls import toml
    from fedtide.work import Epochs, FullBatch, RandomEpochs, RandomSteps

    if isinstance(work, FullBatch):
        return toml({"steps": work.count, "batch": "all"})
    unit = "epochs" if isinstance(work, Epochs | RandomEpochs) else "steps"
    drawn = isinstance(work, RandomSteps | RandomEpochs)
    count = {"low": work.low, "high": work.high} if drawn else work.count
    return toml({unit: count, "batch": work.batch})


def _default(parameter: inspect.Parameter) -> str:
    from fedtide.experiments import as_written
    from fedtide.tomls import toml

    if parameter.default is inspect.Parameter.empty:
        return "(required)"
    written = as_written(parameter.default)
    return "–" if written is None else written["name"] if isinstance(written, dict) else toml(written)


def _show_toml(header: str, name: str, arguments: dict[str, Any]) -> None:
    from fedtide.experiments import as_written, dumps

    show("[bold]In a configuration[/]", "")
    typer.echo("\n".join((header, dumps({"name": name, **as_written(arguments)}, inline=True))))  # to copy: not wrapped


def _explain_process(entry: Any) -> None:
    from fedtide.experiments import settings
    from fedtide.experiments.arguments import in_words

    example = entry.build(**entry.example)
    table = columns("argument", "type", "default")
    for name, parameter in settings(entry.build).items():
        table.add_row(name, escape(in_words(parameter.annotation)), escape(_default(parameter)))
    show(f"[bold]{escape(entry.name)}[/]", "", *_prose(inspect.getdoc(entry.build) or ""), "", table, "")
    _show_toml("[availability]", entry.name, entry.example)
    rounds = min(_ROUNDS_IN_PICTURE, Console().width - 4)
    lines = _picture(example.sample(0, rounds))
    show(f"[bold]Availability in this example[/] ({example.clients} clients from top to bottom, {rounds} rounds)", "")
    show(*(f"  {line}" for line in lines))


def _prose(text: str) -> list[str]:
    """A docstring as one line per paragraph or bullet, which the terminal wraps."""
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        pieces = re.split(r"\n(?=\* )", paragraph)
        lines += ["", *(escape(" ".join(piece.split())) for piece in pieces)]
    return lines[1:]


def _picture(trace: np.ndarray, most_clients: int = 24) -> list[str]:
    """Lines of text for bool[rounds, clients]: rounds from left to right, clients (evenly spaced) from top to bottom.

    >>> import numpy as np
    >>> _picture(np.array([[1, 1], [1, 0], [0, 1], [0, 0]], bool))
    ['█▀▄ ']
    """
    from fedtide.statistics import evenly

    shown = trace[:, evenly(trace.shape[1], most_clients)].T.astype(int)
    shown = np.pad(shown, ((0, len(shown) % 2), (0, 0)))
    return ["".join(_BLOCKS[upper, lower]) for upper, lower in zip(shown[::2], shown[1::2], strict=True)]
