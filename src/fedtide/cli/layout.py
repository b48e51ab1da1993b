"""Tables, text and command lines on the terminal."""

import functools
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

Argument = functools.partial(typer.Argument, show_default=False)  # else some versions show "[default: None]"


def optional(help: str, default: str | bool = False, *flags: str, **more: Any) -> Any:
    """An option that is None unless it is given; `default` says what is done then."""
    return typer.Option(*flags, help=help, show_default=default, **more)


ConfigFile = Annotated[Path, Argument(metavar="CONFIG.toml", help="The configuration.")]
NewFolder = Annotated[Path | None, optional("Folder for the results; must be new or empty.")]


def columns(*headings: str, right: slice = slice(0)) -> Table:
    """An empty table of plain columns; without headings where they are empty. `right` are right-aligned."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=any(headings))
    for i, heading in enumerate(headings):
        table.add_column(heading, no_wrap=i == 0)
    for column in table.columns[right]:
        column.justify = "right"
    return table


def show(*lines: Any) -> None:
    """Prints texts (with rich's markup) and tables, one below the other."""
    console = Console(highlight=False)
    for line in lines:
        console.print(line)


def given(context: typer.Context) -> dict[str, Any]:
    """The parameters given on the command line, in the order in which they were given."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name: context.params[name] for name, source in sources.items() if source and source.name == "COMMANDLINE"}


def command_line(context: typer.Context, **effective: object) -> str:
    """The command that is running, quoted for a shell; the `effective` options are included even if not given."""
    arguments, options = [], []
    flags = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    for name, value in (given(context) | effective).items():
        for one in value if isinstance(value, list | tuple) else (value,):
            if not flags[name].startswith("-"):
                arguments.append(str(one))
            elif one is not False:
                options += [flags[name]] if one is True else [flags[name], str(one)]
    return shlex.join(["fedtide", *context.command_path.split()[1:], *arguments, *options])
