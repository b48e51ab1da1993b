"""The command line. Commands import what they need when they run, so that help appears immediately."""

import sys
from typing import Annotated, Any

import typer
from typer import Option

from fedtide.cli import data, deploy, fleet, listing, preparing, reproducing, running, showing
from fedtide.cli.faults import BAD_INPUT, STOPPED

_Usage: Any = typer.BadParameter.__base__  # click's UsageError; newer versions of typer include their own click
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,  # bugs show a plain traceback, invalid input one line
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from fedtide import __version__

        typer.echo(f"fedtide {__version__}")
        raise typer.Exit


@app.callback()
def fedtide(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Federated learning under intermittent client availability: simulate, compare and deploy methods.

    \b
    First steps:
      fedtide demo                 compare six methods and write a report
      fedtide methods              list the methods
      fedtide availability markov  explain an availability process
      fedtide data                 list the data sets and where they are
      fedtide check my.toml        check a configuration without running it
      fedtide tune my.toml         tune learning rates: tuned/my/tuning.html
      fedtide theory my.toml       predict the result: theory/my.html
      fedtide run my.toml          run it: runs/my/report.html
      fedtide list                 list your runs
      fedtide fleet                model your fleet from an availability log
      fedtide deploy               train on real clients, through Flower
      fedtide experiments          list the published results to reproduce
    """


for command in (
    running.demo,
    running.run,
    running.resume,
    running.report,
    preparing.tune,
    preparing.check,
    preparing.theory,
    showing.methods,
    showing.availability,
    showing.cite,
    reproducing.experiments,
    reproducing.reproduce,
):
    app.command()(command)
app.command("list")(listing.list_runs)
app.add_typer(data.app, name="data")
app.add_typer(fleet.app, name="fleet")
app.add_typer(deploy.app, name="deploy")


def main() -> None:
    """The entry point `fedtide`."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]  # "?" for characters the terminal lacks
    try:
        status = app(prog_name="fedtide", standalone_mode=False)
    except _Usage as error:
        status = BAD_INPUT
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
        else:  # one line, as for all other bad input, instead of typer's box
            command = error.ctx.command_path if error.ctx else "fedtide"
            typer.echo(f"error: {' '.join(error.format_message().split())} See: {command} --help", err=True)
    except typer.Abort:
        typer.echo("stopped", err=True)
        status = STOPPED
    sys.exit(status)
