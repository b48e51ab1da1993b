"""The commands `fleet fit`, `fleet report`, `fleet recommend` and `fleet example`."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape
from typer import Option

from fedtide.cli import recommending
from fedtide.cli.faults import explained
from fedtide.cli.folders import check, made, require_vacant
from fedtide.cli.layout import Argument, columns, command_line, optional, show
from fedtide.errors import FedtideError, InvalidInput

if TYPE_CHECKING:
    from fedtide.fleet import Log
    from fedtide.fleet.fitted import FittedFleet

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")


@app.callback()
def fleet() -> None:
    """Your own fleet: fit a model to an availability log, check it, and choose a method.

    \b
    First steps:
      fedtide fleet example my-log
      fedtide fleet fit my-log/log.csv --windows my-log/windows.csv --out my-fleet
      fedtide fleet recommend my-fleet
    """


_LENGTH = re.compile(r"(\d+(?:\.\d+)?)\s*(s|sec|m|min|h|hours?|minutes?|seconds?)")
_SECONDS = {"s": 1, "m": 60, "h": 3600}
Folder = Annotated[Path, Argument(metavar="DIR", help="Folder of a fitted fleet.")]


@app.command()
def fit(
    context: typer.Context,
    log: Annotated[Path, Argument(metavar="LOG", help="CSV (also .gz), Parquet, JSON lines or a matrix.")],
    out: Annotated[Path, Option(help="Folder for the model; must be new or empty.", show_default=False)],
    round_length: Annotated[
        str | None, optional("Length of a round: 90s, 10min, 1h.", "chosen for the fleet", "--round")
    ] = None,
    form: Annotated[
        Literal["intervals", "events", "heartbeats", "matrix"] | None,
        optional("Format of the log.", "inferred from the columns"),
    ] = None,
    column: Annotated[
        list[str] | None,
        optional("Name of a column: device, start, end, time or state.", metavar="OURS=THEIRS"),
    ] = None,
    where: Annotated[list[str] | None, optional("Keep only rows with this value.", metavar="COLUMN=VALUE")] = None,
    windows: Annotated[Path | None, optional("Table with device, start, end: when each device was observed.")] = None,
    observed: Annotated[
        Literal["whole", "own"],
        Option(help="Without --windows: observation lasts the whole log, or from a device's first to its last record."),
    ] = "whole",
    gap: Annotated[
        str | None,
        optional("Silence after which a device counts as unavailable (heartbeats) or unobserved (polls), e.g. 5min."),
    ] = None,
    zone: Annotated[str | None, optional("Time zone of the days, e.g. Europe/Paris.", "UTC")] = None,
    origin: Annotated[str | None, optional("Date of time 0 if the log counts from 0, e.g. 2026-01-29T18:00.")] = None,
    unit: Annotated[
        Literal["s", "ms", "us", "ns"] | None,
        optional("Unit of numeric times.", "inferred from their magnitude"),
    ] = None,
    on: Annotated[list[str] | None, optional("A state that counts as available; may be repeated.")] = None,
    off: Annotated[list[str] | None, optional("A state that counts as unavailable; may be repeated.")] = None,
    simulated: Annotated[int, Option(min=39, help="Number of simulated fleets for each test.")] = 199,
    seed: Annotated[int, Option(min=0, help="Seed of the simulated fleets.")] = 0,
) -> None:
    """Fit a fleet model to an availability log, and test whether the model holds.

    The log format is inferred from the columns: device, start, end (intervals);
    device, time, state (events); device, time (heartbeats, with --gap); one
    column per device (matrix). The ledger of a deployment is also a log. Times
    are ISO times, or seconds since 1970 or since the start of the log. Rows that
    cannot be used are counted and reported, never dropped silently. Outside its
    window of observation, a device counts as unobserved, not as unavailable.

    Writes the model (fleet.toml and devices.parquet), diagnosis.json and the page
    fleet.html.

    \b
    Examples:
      fedtide fleet fit log.csv --out my-fleet
      fedtide fleet fit log.csv.gz --where kind=charging --out phones
      fedtide fleet fit log.csv --windows observed.csv --round 30min --out phones
      fedtide fleet fit beats.parquet --gap 5min --zone Europe/Paris --out sensors
    \b
    Next:
      fedtide fleet recommend my-fleet
    \b
    To use the fleet in a configuration:
      \\[availability]
      name = "fleet"
      path = "my-fleet"
    """
    with explained(context=context, columns="--column", round_seconds="--round"):
        from fedtide import use_all_cores
        from fedtide.cli.progress import LabelledBars, interruptible
        from fedtide.fleet import advise, advised_length, read
        from fedtide.fleet.fitted import fit_fleet
        from fedtide.text import duration

        require_vacant(out)
        length = _seconds("--round", round_length)
        parsed = read(
            log, form=form, columns=_pairs("--column", column), where=_pairs("--where", where), windows=windows,
            gap=_seconds("--gap", gap), observed=observed, zone=zone, origin=origin, unit=unit,
            on=tuple(on or ()), off=tuple(off or ()), round_seconds=length,
        )  # fmt: skip
        _tell_reading(parsed)
        check(out)
        use_all_cores()
        if length is None:
            length = advised_length(advise(parsed))
            typer.echo(f"Round length: {duration(length)}, chosen for this fleet; --round sets another.")
        with interruptible(LabelledBars()) as progress:
            fitted = fit_fleet(parsed, length, simulated=simulated, seed=seed, progress=progress)
        with made(out) as partial:  # not earlier: a second Ctrl-C ends the process without cleaning up
            fitted.save(partial)
            _finish(fitted, context, out, partial / "fleet.html")
        typer.echo(f"Model: {out / 'fleet.toml'}")
        typer.echo(f"Page: {out / 'fleet.html'}")


@app.command()
def report(
    context: typer.Context,
    folder: Folder,
    out: Annotated[Path | None, optional("File for the page.", "DIR/fleet.html")] = None,
) -> None:
    """Print the findings on a fitted fleet and rewrite its page, e.g. after editing fleet.toml.

    \b
    Examples:
      fedtide fleet report my-fleet
      fedtide fleet report my-fleet --out fleet.html
    """
    with explained():
        from fedtide.fleet.fitted import FittedFleet

        page = folder / "fleet.html" if out is None else out
        _finish(FittedFleet.load(folder), context, folder, page)
        typer.echo(f"Page: {page}")


app.command()(recommending.recommend)


@app.command()
def example(
    folder: Annotated[Path, Argument(metavar="DIR", help="Folder for the two files.")],
    devices: Annotated[int, Option(help="Number of devices.")] = 60,
    days: Annotated[int, Option(help="Length of the log, in days.")] = 15,
    seed: Annotated[int, Option(min=0, help="Seed of the generated fleet.")] = 0,
) -> None:
    """Generate an example log: log.csv, with errors typical of real logs, and windows.csv.

    \b
    Examples:
      fedtide fleet example my-log
    """
    with explained():
        from fedtide.fleet import write_example

        for path in (folder / "log.csv", folder / "windows.csv"):
            if path.exists():
                raise FedtideError(f"{path}: exists; choose another folder")
        log, windows = write_example(folder, devices, days, seed)
        typer.echo(f"Log: {log}")
        typer.echo(f"Observation windows: {windows}")
        typer.echo(f"Next: fedtide fleet fit {log} --windows {windows} --out my-fleet")


def _tell_reading(log: "Log") -> None:
    """Prints what was read, and how unusable rows were handled."""
    account = log.account
    typer.echo(
        f"{account.source}: {account.rows:,} rows ({account.form}), {account.used:,} used; {len(log.devices):,} devices"
    )
    if account.issues:
        table = columns("rows", "problem", "handling", "example", right=slice(1))
        for issue in account.issues:
            shown = issue.examples[0] if issue.examples else ""
            table.add_row(f"{issue.count:,}", escape(issue.kind), escape(issue.done), escape(shown))
        show(table)
    for note in account.notes:
        typer.echo(f"note: {note}")


def _finish(fitted: "FittedFleet", context: typer.Context, folder: Path, page: Path) -> None:
    """Writes the page, and prints the findings, a line each."""
    from fedtide import __version__
    from fedtide.fleet.page.words import sentences

    about = {"command": command_line(context), "folder": str(folder), "versions": {"fedtide": __version__}}
    fitted.report(page, about)
    for line in sentences(fitted.model, fitted.diagnosis):
        typer.echo(line)


def _pairs(option: str, given: list[str] | None) -> dict[str, str] | None:
    pairs = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidInput(option, text, "a name, =, and a value")
        pairs[name] = value
    return pairs or None


def _seconds(option: str, text: str | None) -> int | None:
    """A length such as 90s, 10min or 1h in whole seconds."""
    if text is None:
        return None
    match = _LENGTH.fullmatch(text.strip().lower())
    seconds = 0.0 if match is None else float(match[1]) * _SECONDS[match[2][0]]
    if seconds < 1 or seconds != int(seconds):
        raise InvalidInput(option, text, "a number with a unit, such as 90s, 10min or 1h, and at least one second")
    return int(seconds)
