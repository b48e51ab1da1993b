"""The command `tune`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from typer import Option

from fedtide.cli.faults import explained
from fedtide.cli.folders import made, require_vacant
from fedtide.cli.layout import ConfigFile, columns, command_line, show

if TYPE_CHECKING:
    from fedtide.tuning import Tuning


def tune(
    context: typer.Context,
    config: ConfigFile,
    out: Annotated[
        Path | None, Option(help="Folder for the results; must be new or empty.", show_default=False)
    ] = None,
) -> None:
    """Tune learning rates and other settings, with the same number of trials for every method.

    Trials are compared on validation samples, which are held out from every
    client's training samples. The test data and the seeds of \\[run] are not
    used. Writes the tuned configuration and a page with all trials (by default to
    tuned/NAME for NAME.toml).

    \b
    Examples:
      fedtide tune phones.toml
      fedtide tune phones.toml --out tuned/phones-again
      fedtide run tuned/phones/tuned.toml
    \b
    Optional tables in the configuration:
      \\[tune]
      trials = 35                  # for each method
      seeds = 4
      validation = 0.2             # share of every client's training samples
      \\[tune.space]
      rate = \\[0.01, 0.03, 0.1, 0.3]
      server_rate = \\[0.3, 1.0, 3.0]
      \\[\\[methods]]
      name = "ca_fed"
      tune = {kappa_squared = \\[0.1, 1.0, 10.0]}
    """
    folder = Path("tuned") / config.stem if out is None else out
    with explained():
        from fedtide import use_all_cores
        from fedtide.cli.progress import LabelledBars, interruptible
        from fedtide.experiments import load
        from fedtide.tuning.plan import plan
        from fedtide.tuning.tune import carry_out

        require_vacant(folder)
        loaded = load(config)
        use_all_cores()
        with made(folder) as partial:
            planned = plan(loaded)
            with interruptible(LabelledBars("rounds")) as progress:
                tuning = carry_out(planned, progress=progress, command=command_line(context, out=folder))
            tuning.save(partial)
        _tell(tuning, folder)


def _tell(tuning: "Tuning", folder: Path) -> None:
    """Prints the chosen settings, the warnings and the paths of the results."""
    from fedtide import text as words
    from fedtide.tuning.page import values_in_words

    measure = tuning.plan.measure
    table = columns("Method", "Chosen", measure.words, "next best", "diverged", right=slice(2, None))
    for outcome in tuning.outcomes:
        first, second = (*outcome.ranked, None)[:2]
        assert first is not None
        chosen = values_in_words(first.values) if outcome.chosen else "as written"
        scores = (words.value(measure.kind, None if trial is None else trial.score) for trial in (first, second))
        table.add_row(escape(words.clean(outcome.method)), escape(chosen), *scores, str(outcome.diverged or "–"))
    show(table, "")
    for warning in tuning.warnings:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(f"Page: {folder / 'tuning.html'}")
    typer.echo(f"Configuration: {folder / 'tuned.toml'}")
