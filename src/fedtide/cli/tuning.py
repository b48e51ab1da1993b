"""The command `tune`."""

import logging
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from fedtide.cli.faults import explained
from fedtide.cli.folders import made
from fedtide.cli.layout import columns, show
from fedtide.errors import FedtideError

if TYPE_CHECKING:
    from fedtide.experiments import Config, Tuning


def tune(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="What to tune.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results; must be new or empty.", show_default=False)
    ] = None,
) -> None:
    """Choose learning rates and other settings: the same number of trials for every method of a configuration.

    Trials are judged on a part of every client's training samples that none trains on.
    The test data and the seeds of \\[run] stay unseen. Writes the chosen configuration and a
    page with all that was tried (by default to tuned/NAME of NAME.toml).

    \b
    Examples:
      fedtide tune phones.toml
      fedtide tune phones.toml --out tuned/phones-again
      fedtide run tuned/phones/tuned.toml
    \b
    In the configuration, all of it optional:
      \\[tune]
      trials = 35                  # for each method
      seeds = 4
      validation = 0.2             # of every client's training samples
      \\[tune.space]
      rate = \\[0.01, 0.03, 0.1, 0.3]
      server_rate = \\[0.3, 1.0, 3.0]
      \\[\\[methods]]
      name = "ca_fed"
      tune = {kappa_squared = \\[0.1, 1.0, 10.0]}
    """
    folder = Path("tuned") / config.stem if out is None else out
    with explained():
        from fedtide.experiments import load

        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise FedtideError(f"{folder}: exists and is not empty; choose another --out")
        loaded = load(config)
        with made(folder) as partial:
            found = _tune(loaded, shlex.join(["fedtide", "tune", str(config), "--out", str(folder)]))
            found.save(partial)
        _tell(found, folder)


def _tune(config: "Config", command: str) -> "Tuning":
    from fedtide import use_all_cores
    from fedtide.cli.interrupts import interrupts
    from fedtide.experiments.tuning import carry_out, plan
    from fedtide.simulation.bars import RoundsProgress

    use_all_cores()
    planned = plan(config)
    seen: set[str] = set()

    def unseen(record: logging.LogRecord) -> bool:
        """What the first method's runs say need not be said again for the others."""
        said = record.getMessage() in seen
        seen.add(record.getMessage())
        return not said

    bars = RoundsProgress(planned.spaces, planned.rounds * config.tune.trials)
    bars.addFilter(unseen)
    with bars, interrupts() as interrupted:

        def progress(label: str, done: int, total: int) -> None:
            bars(label, done, total)
            interrupted.check()

        return carry_out(planned, progress=progress, about={"command": command})


def _tell(found: "Tuning", folder: Path) -> None:
    """What was chosen, what to do about it, and where it is."""
    from fedtide.report import words
    from fedtide.report.tuning import MEASURES, values_in_words

    measure = MEASURES[found.about["select"]]
    table = columns("Method", "Chosen", measure.words, "next best", "diverged")
    for column in table.columns[2:]:
        column.justify = "right"
    for outcome in found.outcomes:
        first, second = (*outcome.ranked, None)[:2]
        assert first is not None
        chosen = values_in_words(first.values) if outcome.chosen else "as written"
        scores = (words.value(measure.kind, None if trial is None else trial.score) for trial in (first, second))
        table.add_row(escape(words.clean(outcome.method)), escape(chosen), *scores, str(outcome.diverged or "–"))
    show(table, "")
    for warning in found.warnings:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(f"All that was tried: {folder / 'tuning.html'}")
    typer.echo(f"Chosen: {folder / 'tuned.toml'}")
