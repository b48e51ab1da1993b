"""The command `theory`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from typer import Option

from fedtide.cli.faults import explained
from fedtide.cli.layout import ConfigFile, columns, command_line, show


def theory(
    context: typer.Context,
    config: ConfigFile,
    out: Annotated[
        Path | None, Option(help="File for the page.", show_default="theory/NAME.html for NAME.toml")
    ] = None,
    rounds: Annotated[
        int | None, Option(min=1, help="Number of rounds to predict.", show_default="as configured")
    ] = None,
) -> None:
    """Predict the result of a configuration from theory, without simulating it.

    The page shows how available and how correlated the clients are, the bias of
    each method and what it costs, its expected error over the rounds, what this
    error consists of, and which clients CA-Fed excludes and why. Predictions are
    complete for quadratic problems and softmax regression; for other models the
    page shows availability and the weights of the clients.

    \b
    Examples:
      fedtide theory phones.toml
      fedtide theory phones.toml --rounds 5000 --out long.html
    """
    with explained():
        from fedtide import __version__
        from fedtide.cli.progress import LabelledBars, interruptible
        from fedtide.experiments import build, load
        from fedtide.files import write_text
        from fedtide.theory.experiment import predict
        from fedtide.theory.page.page import render, summary

        loaded = load(config)
        page = Path("theory") / f"{config.stem}.html" if out is None else out
        ahead = loaded.run.rounds if rounds is None else rounds
        experiment = build(loaded)
        with interruptible(LabelledBars("rounds")) as progress:
            prediction = predict(experiment, ahead, lambda label, done: progress(label, done, ahead))
        about = {
            "title": loaded.title or config.stem,
            "problem": loaded.problem.name,
            "availability": loaded.availability.name,
            "command": command_line(context, out=page),
            "config": loaded.origin.text,
            "versions": {"fedtide": __version__},
        }
        write_text(page, render(prediction, about))
        table = columns("method", "misplaced", "bias", f"after {ahead:,} rounds", "mainly from")
        for row in summary(prediction):
            table.add_row(*map(escape, row))
        show(table)
        typer.echo(f"Page: {page}")
