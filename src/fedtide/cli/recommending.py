"""The command `fleet recommend`."""

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from fedtide.cli.faults import explained
from fedtide.cli.folders import check, made
from fedtide.cli.layout import columns, show
from fedtide.errors import FedtideError, InvalidInput, number

if TYPE_CHECKING:
    from fedtide.experiments.recommendation.recommending import Recommendation

_UNITS = {"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def recommend(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A fitted fleet.", show_default=False)],
    problem: Annotated[
        str | None,
        typer.Option(metavar="NAME|TOML", help="The task: a built-in problem, or a file.", show_default="a stand-in"),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="How long you will train.", show_default="200")] = None,
    methods: Annotated[str | None, typer.Option(metavar="A,B,…", help="The candidates.", show_default="eight")] = None,
    client_memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="What a device may keep between rounds.", show_default="any")
    ] = None,
    server_memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="What the server may keep.", show_default="any")
    ] = None,
    extra_messages: Annotated[
        int | None, typer.Option(metavar="N", help="Messages a round besides model and update.", show_default="any")
    ] = None,
    floor: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Least accuracy of the worst-served tenth.", show_default="0")
    ] = None,
    worth: Annotated[
        float, typer.Option(metavar="POINTS", help="A smaller difference does not matter: the simplest wins.")
    ] = 0.5,
    parameters: Annotated[
        int | None, typer.Option(help="Of the model you will deploy.", show_default="the problem's")
    ] = None,
    trials: Annotated[int | None, typer.Option(help="Settings to try for each method.", show_default="16")] = None,
    seeds: Annotated[int | None, typer.Option(help="Runs of each method.", show_default="8")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results.", show_default="DIR/recommendation")] = None,
) -> None:
    """Say which method to use on a fleet: candidates are tuned alike and run on its record and on fleets like it.

    Writes a page: the answer, by how much, which devices would be under-served, when the
    answer would change. And a configuration for fedtide run.

    \b
    Examples:
      fedtide fleet recommend phones
      fedtide fleet recommend phones --problem mine.toml --rounds 500
      fedtide fleet recommend phones --methods fedavg,unbiased,mifa --seeds 5
      fedtide fleet recommend phones --client-memory 20MB --parameters 1200000
      fedtide fleet recommend phones --floor 0.6 --extra-messages 0 --worth 1
    \b
    A problem's file names your task, and if you like what to compare:
      \\[problem]
      name = "images"
      \\[local]
      epochs = 1
      \\[\\[methods]]
      name = "fedavg"
      \\[\\[methods]]
      name = "ca_fed"
      kappa_squared = 0.3
    """
    with explained():
        from fedtide.experiments.recommendation.limits import Constraints

        target = folder / "recommendation" if out is None else out
        if target.exists() and not target.is_dir():
            raise FedtideError(f"{target}: exists and is not a folder; choose another --out")
        limits = Constraints(
            _size("client-memory", client_memory), _size("server-memory", server_memory), extra_messages, floor
        )
        options: dict[str, Any] = {
            "problem": problem, "rounds": rounds, "trials": trials, "seeds": seeds, "parameters": parameters,
            "methods": None if methods is None else [name.strip() for name in methods.split(",") if name.strip()],
            "constraints": limits, "worth": _share(worth),
        }  # fmt: skip
        written = {
            "problem": problem, "rounds": rounds, "methods": methods, "client-memory": client_memory,
            "server-memory": server_memory, "extra-messages": extra_messages, "floor": floor,
            "worth": None if worth == 0.5 else worth, "parameters": parameters, "trials": trials, "seeds": seeds,
            "out": out,
        }  # fmt: skip
        command = ["fedtide", "fleet", "recommend", str(folder)]
        command += [word for name, x in written.items() if x is not None for word in (f"--{name}", str(x))]
        check(target)
        found = _recommend(folder, options, shlex.join(command))
        with made(target) as partial:  # not before: a second Ctrl-C ends the process where it is
            found.save(partial)
        _tell(found, target)


def _recommend(folder: Path, options: dict[str, Any], command: str) -> "Recommendation":
    from fedtide import use_all_cores
    from fedtide.cli.bars import Bars
    from fedtide.cli.interrupts import interrupts
    from fedtide.experiments.recommendation.recommending import recommend as ask

    use_all_cores()
    with Bars("rounds") as bars, interrupts() as interrupted:

        def progress(label: str, done: int, total: int) -> None:
            bars(label, done, total)
            interrupted.check()

        return ask(folder, **options, progress=progress, about={"command": command})


def _share(points: float) -> float:
    """Points as a share of 1."""
    return round(number("worth", points, low=0, high=100) / 100, 12)


def _size(option: str, text: str | None) -> float | None:
    """`20MB` in bytes."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    if found is None or found[2].upper() not in _UNITS:
        raise InvalidInput(option, text, "a size, as 500kB, 20MB or 1.5GB")
    return float(found[1]) * _UNITS[found[2].upper()]


def _tell(found: "Recommendation", folder: Path) -> None:
    """The answer, the table, when it would change, and where all of it is."""
    from fedtide.report.recommendation import summary
    from fedtide.report.recommendation_changes import changes
    from fedtide.report.recommendation_words import besides, lead

    typer.echo("")
    typer.echo(" ".join(lead(found.about)))
    for sentence in besides(found.about):
        typer.echo(f"- {sentence}")
    typer.echo("")
    reference = found.about["verdict"]["reference"]
    table = columns("Method", "record", "generated", f"vs {reference}" if reference else "", "worst tenth", "verdict")
    for column in table.columns[1:5]:
        column.justify = "right"
    for row in summary(found.about):
        table.add_row(*(escape(cell) for cell in row))
    show(table, "")
    told = changes(found.about)
    if told:
        typer.echo("When the answer would change:")
    for _, sentence, _ in told:
        typer.echo(f"- {sentence}")
    typer.echo("")
    typer.echo(f"All of it: {folder / 'recommendation.html'}")
    typer.echo(f"Run it: fedtide run {folder / 'recommended.toml'}")
