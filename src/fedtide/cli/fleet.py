"""The commands `fleet fit`, `fleet report`, `fleet recommend` and `fleet example`."""

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.markup import escape

from fedtide.cli import recommending
from fedtide.cli.faults import explained
from fedtide.cli.folders import check, made
from fedtide.cli.layout import columns, show
from fedtide.errors import FedtideError, InvalidInput

if TYPE_CHECKING:
    from fedtide.experiments.fleets import FittedFleet
    from fedtide.fleet import Log

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@app.callback()
def fleet() -> None:
    """Your own fleet: from an availability log to a model, an honest account of it, and a method.

    \b
    First steps:
      fedtide fleet example my-log
      fedtide fleet fit my-log/log.csv --windows my-log/windows.csv --out my-fleet
      fedtide fleet recommend my-fleet
    """


_LENGTH = re.compile(r"(\d+(?:\.\d+)?)\s*(s|sec|m|min|h|hours?|minutes?|seconds?)")
_SECONDS = {"s": 1, "m": 60, "h": 3600}
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a fitted fleet.", show_default=False)]


@app.command()
def fit(
    log: Annotated[
        Path,
        typer.Argument(metavar="LOG", help="CSV (also .gz), Parquet, JSON lines or a matrix.", show_default=False),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the model; must be new or empty.", show_default=False)],
    round_length: Annotated[
        str | None, typer.Option("--round", help="Length of a round: 90s, 10min, 1h.", show_default="as advised")
    ] = None,
    form: Annotated[
        Literal["intervals", "events", "heartbeats", "matrix"] | None,
        typer.Option(help="What a row of the log is.", show_default="seen from the columns"),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OURS=THEIRS", help="A column's name: device, start, end, time, state.", show_default=False
        ),
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=VALUE", help="Keep only such rows.", show_default=False)
    ] = None,
    windows: Annotated[
        Path | None, typer.Option(help="Table device, start, end: when each was observed.", show_default=False)
    ] = None,
    observed: Annotated[
        Literal["whole", "own"],
        typer.Option(help="Without windows: all devices over the whole log, or each from first to last record."),
    ] = "whole",
    gap: Annotated[
        str | None,
        typer.Option(help="Silence that means gone (heartbeats) or not observed (polls), as 5min.", show_default=False),
    ] = None,
    zone: Annotated[
        str | None, typer.Option(help="Time zone in which days are counted: Europe/Paris.", show_default="UTC")
    ] = None,
    origin: Annotated[
        str | None, typer.Option(help="When time 0 was, for a clock of its own: 2026-01-29T18:00.", show_default=False)
    ] = None,
    unit: Annotated[
        Literal["s", "ms", "us", "ns"] | None, typer.Option(help="Unit of numeric times.", show_default="by their size")
    ] = None,
    on: Annotated[list[str] | None, typer.Option(help="A state that means here.", show_default=False)] = None,
    off: Annotated[list[str] | None, typer.Option(help="A state that means away.", show_default=False)] = None,
    simulated: Annotated[int, typer.Option(min=39, help="Simulated fleets behind each test.")] = 199,
    seed: Annotated[int, typer.Option(min=0, help="Of the simulated fleets.")] = 0,
) -> None:
    """Read a log, fit the fleet, and say whether the model holds.

    What a row is, is seen from its columns: device, start, end (intervals);
    device, time, state (events); device, time (heartbeats, with --gap); one
    column for each device (matrix). Also the ledger of a deployment. Times are
    seconds since 1970 or of the log's own clock, or ISO times. Rows that cannot
    be used are counted and shown: nothing is dropped silently. Outside of its
    window nothing is known about a device, which is not the same as away.

    Writes fleet.toml and devices.parquet (the model), diagnosis.json and the
    page fleet.html.

    \b
    Examples:
      fedtide fleet fit log.csv --out my-fleet
      fedtide fleet fit log.csv.gz --where kind=charging --out phones
      fedtide fleet fit log.csv --windows seen.csv --round 30min --out phones
      fedtide fleet fit beats.parquet --gap 5min --zone Europe/Paris --out sensors
    \b
    Then:
      fedtide fleet recommend my-fleet
    \b
    and in any configuration:
      \\[availability]
      name = "fleet"
      path = "my-fleet"
    """
    with explained():
        from fedtide.fleet import read

        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise FedtideError(f"{out}: exists and is not empty; choose another --out")
        length = None if round_length is None else _seconds("--round", round_length)
        found = read(
            log, form=form, columns=_pairs("--column", column), where=_pairs("--where", where), windows=windows,
            gap=None if gap is None else _seconds("--gap", gap), observed=observed, zone=zone, origin=origin, unit=unit,
            on=tuple(on or ()), off=tuple(off or ()), round_seconds=length,
        )  # fmt: skip
        _tell_reading(found)
        check(out)
        fitted = _fit(found, length, simulated, seed)
        with made(out) as partial:  # not before: a second Ctrl-C ends the process where it is
            fitted.save(partial)
            about = _about(shlex.join(["fedtide", "fleet", "fit", *_given()]), out)
            fitted.report(partial / "fleet.html", about)
        _tell(fitted)
        typer.echo(f"Model: {out / 'fleet.toml'}")
        typer.echo(f"Page: {out / 'fleet.html'}")


@app.command()
def report(
    folder: Folder,
    out: Annotated[Path | None, typer.Option(help="File for the page.", show_default="DIR/fleet.html")] = None,
) -> None:
    """Write the page of a fitted fleet again (its TOML may be edited), and print its findings.

    \b
    Examples:
      fedtide fleet report my-fleet
      fedtide fleet report my-fleet --out fleet.html
    """
    with explained():
        from fedtide.experiments.fleets import FittedFleet

        fitted = FittedFleet.load(folder)
        page = fitted.report(
            folder / "fleet.html" if out is None else out,
            _about(shlex.join(["fedtide", "fleet", "report", str(folder)]), folder),
        )
        _tell(fitted)
        typer.echo(f"Page: {page}")


app.command()(recommending.recommend)


@app.command()
def example(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the two files.", show_default=False)],
    devices: Annotated[int, typer.Option(help="How many phones to invent.")] = 60,
    days: Annotated[int, typer.Option(help="How long to watch them.")] = 15,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, another fleet.")] = 0,
) -> None:
    """Invent a log to try things on: log.csv, with the mistakes of real ones, and windows.csv.

    \b
    Examples:
      fedtide fleet example my-log
    """
    with explained():
        from fedtide.fleet import write_example

        taken = [name for name in ("log.csv", "windows.csv") if (folder / name).exists()]
        if taken:
            raise FedtideError(f"{folder / taken[0]}: exists; choose another folder")
        log, windows = write_example(folder, devices, days, seed)
        typer.echo(f"Log: {log}")
        typer.echo(f"When each device was observed: {windows}")
        typer.echo(f"Next: fedtide fleet fit {log} --windows {windows} --out my-fleet")


def _fit(log: "Log", length: int | None, simulated: int, seed: int) -> "FittedFleet":
    from fedtide import use_all_cores
    from fedtide.cli.bars import Bars
    from fedtide.cli.interrupts import interrupts
    from fedtide.experiments.fleets import fit_fleet
    from fedtide.fleet import advise, advised_length

    use_all_cores()
    if length is None:
        length = advised_length(advise(log))
        typer.echo(f"Rounds of {_words(length)}, as advised for this fleet; choose others with --round.")
    with Bars() as bars, interrupts() as interrupted:

        def progress(what: str, done: int, total: int) -> None:
            bars(what, done, total)
            interrupted.check()

        return fit_fleet(log, length, simulated=simulated, seed=seed, progress=progress)


def _tell_reading(log: "Log") -> None:
    """What was read, and what became of every row."""
    account = log.account
    typer.echo(
        f"{account.source}: {account.rows:,} rows ({account.form}), {account.used:,} used; {len(log.devices):,} devices"
    )
    if account.issues:
        table = columns("rows", "what", "done", "for example")
        table.columns[0].justify = "right"
        for issue in account.issues:
            shown = issue.examples[0] if issue.examples else ""
            table.add_row(f"{issue.count:,}", escape(issue.kind), escape(issue.done), escape(shown))
        show(table)
    for note in account.notes:
        typer.echo(f"note: {note}")


def _tell(fitted: "FittedFleet") -> None:
    """The findings, a line each, and what the generator does not reproduce."""
    from fedtide.report.fleet import sentences

    for line in sentences(fitted.model, fitted.diagnosis):
        typer.echo(line)


def _pairs(option: str, given: list[str] | None) -> dict[str, str] | None:
    found = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidInput(option, text, "a name, =, and a value")
        found[name] = value
    return found or None


def _seconds(option: str, text: str) -> int:
    """90s, 10min, 1h in whole seconds."""
    match = _LENGTH.fullmatch(text.strip().lower())
    seconds = 0.0 if match is None else float(match[1]) * _SECONDS[match[2][0]]
    if seconds < 1 or seconds != int(seconds):
        raise InvalidInput(option, text, "a number and a unit, one second or more: 90s, 10min, 1h")
    return int(seconds)


def _words(seconds: int) -> str:
    for unit, size in (("hours", 3600), ("minutes", 60)):
        if seconds % size == 0 and seconds > size:
            return f"{seconds // size} {unit}"
    return "1 hour" if seconds == 3600 else "1 minute" if seconds == 60 else f"{seconds} seconds"


def _given() -> list[str]:
    """The arguments of this command as they were given."""
    import sys

    return sys.argv[3:] if sys.argv[1:3] == ["fleet", "fit"] else []


def _about(command: str, folder: Path) -> dict[str, Any]:
    from fedtide import __version__

    return {"command": command, "folder": str(folder), "versions": {"fedtide": __version__}}
