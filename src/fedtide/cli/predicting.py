"""The command `theory`."""

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from fedtide.cli.faults import explained
from fedtide.cli.layout import columns, show


def theory(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="What to predict.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help="File for the page.", show_default="theory/NAME.html of NAME.toml")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds to look ahead.", show_default="those of the configuration")
    ] = None,
) -> None:
    """Say what theory predicts for a configuration, as a page; nothing is simulated.

    Who is seen how often and how persistently, what each method is headed for and what that bias
    costs, its predicted error against rounds, what that error is made of, and whom CA-Fed leaves
    out and why. Complete for quadratics and softmax regression; for other models the page shows
    availability and the importance of clients.

    \b
    Examples:
      fedtide theory phones.toml
      fedtide theory phones.toml --rounds 5000 --out long.html
    """
    with explained():
        from fedtide import __version__
        from fedtide.experiments import build, load
        from fedtide.experiments.foresight import foresee
        from fedtide.report.theory import summary, write
        from fedtide.simulation.bars import RoundsProgress

        loaded = load(config)
        page = Path("theory") / f"{config.stem}.html" if out is None else out
        ahead = loaded.run.rounds if rounds is None else rounds
        experiment = build(loaded)
        with RoundsProgress(experiment.methods, ahead) as bars:
            found = foresee(experiment, ahead, lambda label, done: bars(label, done, ahead))
        command = ["fedtide", "theory", str(config), "--out", str(page)]
        about = {
            "title": loaded.title or config.stem,
            "problem": loaded.problem.name,
            "availability": loaded.availability.name,
            "command": shlex.join(command if rounds is None else [*command, "--rounds", str(rounds)]),
            "config": loaded.origin.text,
            "versions": {"fedtide": __version__},
        }
        write(page, found, about)
        table = columns("method", "misplaced", "bias", f"after {ahead:,} rounds", "mostly")
        for row in summary(found):
            table.add_row(*map(escape, row))
        show(table)
        typer.echo(f"Page: {page}")
