"""The command line. Commands import what they need when they run, so that help appears at once."""

import sys
from typing import Annotated, Any

import typer

from fedtide.cli import checking, data, deploy, fleet, predicting, reproducing, running, showing, tuning
from fedtide.cli.faults import BAD_INPUT, STOPPED

_Usage: Any = typer.BadParameter.__base__  # click's UsageError; newer versions of typer have a click of their own
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,  # a bug shows its plain traceback; what the input can cause shows one line
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
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Federated learning when clients come and go: simulate, compare, choose.

    \b
    First steps:
      fedtide demo                 compare six methods; a table and a report
      fedtide methods              what there is to compare
      fedtide availability markov  a process, and what it looks like
      fedtide data                 data sets: which are here, how to get the others
      fedtide check my.toml        what a configuration would run
      fedtide tune my.toml         choose its learning rates; see tuned/my/tuning.html
      fedtide theory my.toml       what theory predicts for it; see theory/my.html
      fedtide run my.toml          run it; see runs/my/report.html
      fedtide fleet                your own fleet: from a log to a method
      fedtide deploy               real clients that come and go, through Flower
      fedtide experiments          figures and tables of the papers, to run again
    """


for command in (
    running.demo,
    running.run,
    running.resume,
    running.report,
    tuning.tune,
    checking.check,
    predicting.theory,
    showing.methods,
    showing.availability,
    showing.cite,
    reproducing.experiments,
    reproducing.reproduce,
):
    app.command()(command)
app.add_typer(data.app, name="data")
app.add_typer(fleet.app, name="fleet")
app.add_typer(deploy.app, name="deploy")


def main() -> None:
    """The entry point `fedtide`."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]  # no Greek: a "?"
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
