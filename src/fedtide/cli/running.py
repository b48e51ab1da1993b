"""Commands that run and report: `demo`, `run`, `resume`, `report`."""

import shlex
import warnings
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedtide.cli.faults import explained
from fedtide.errors import FedtideError, require

if TYPE_CHECKING:
    from fedtide import Result
    from fedtide.experiments import Config


class Place(StrEnum):
    """Where a run computes."""

    local = "local"
    ray = "ray"


Out = Annotated[Path | None, typer.Option(help="Folder for the results; must be new or empty.", show_default=False)]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run.", show_default=False)]


def demo(
    rounds: Annotated[int, typer.Option(help="Rounds to run.")] = 200,
    seeds: Annotated[int, typer.Option(help="Number of seeds.")] = 10,
    out: Annotated[Path, typer.Option(help="Folder for the results; must be new or empty.")] = Path("fedtide-demo"),
) -> None:
    """Compare six methods on one fleet whose clients come and go. Needs no configuration.

    \b
    Examples:
      fedtide demo
      fedtide demo --rounds 50 --seeds 3 --out quick
    """
    with explained(out):
        from fedtide.experiments import adjusted
        from fedtide.experiments import demo as packaged

        command = ["fedtide", "demo", "--rounds", str(rounds), "--seeds", str(seeds)]
        _start(adjusted(packaged(), rounds=rounds, seeds=seeds), out, command)


def run(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="What to run.", show_default=False)],
    out: Out = None,
    on: Annotated[Place, typer.Option(help="Where to compute: in this process, or on a Ray cluster.")] = Place.local,
    seeds_per_task: Annotated[
        int | None,
        typer.Option(min=1, help="With ray: seeds that run together.", show_default="about 2 tasks a worker"),
    ] = None,
    cpus_per_task: Annotated[
        float | None, typer.Option(help="With ray: CPUs that a task is given.", show_default="1")
    ] = None,
    gpus_per_task: Annotated[
        float | None, typer.Option(help="With ray: GPUs that a task is given.", show_default="1 where there are some")
    ] = None,
) -> None:
    """Run a configuration and write its records and report (by default to runs/NAME of NAME.toml).

    With --on ray, methods and blocks of seeds are spread over the cluster of RAY_ADDRESS, or, without it, over this
    machine's cores. The records are those of a local run; all machines must see the folder of the results.

    \b
    Examples:
      fedtide run phones.toml
      fedtide run phones.toml --out /data/phones-long
      fedtide run phones.toml --on ray
    \b
    The smallest configuration:
      \\[problem]
      name = "digits"
      \\[availability]
      name = "paper_population"
      \\[run]
      rounds = 100
      \\[\\[methods]]
      name = "fedavg"
    """
    folder = Path("runs") / config.stem if out is None else out
    with explained(folder):
        from fedtide.experiments import load

        command = ["fedtide", "run", str(config)]
        given = {"seeds": seeds_per_task, "cpus": cpus_per_task, "gpus": gpus_per_task}
        given = {name: value for name, value in given.items() if value is not None}
        if on is Place.local:
            if given:
                raise FedtideError(f"--{next(iter(given))}-per-task: only with --on ray")
            return _start(load(config), folder, command)
        options = [word for name, value in given.items() for word in (f"--{name}-per-task", f"{value:g}")]
        _start(load(config), folder, [*command, "--on", "ray", *options], on, **given)


def resume(
    folder: Folder,
    on: Annotated[
        Place | None, typer.Option(help="Where to compute: here, or on a Ray cluster.", show_default="as it was begun")
    ] = None,
) -> None:
    """Go on with a run that was stopped or killed; it ends with the records of one that never was.

    \b
    Examples:
      fedtide resume runs/phones
      fedtide resume runs/phones --on local
    """
    with explained(folder):
        from fedtide import Result
        from fedtide.experiments import loads
        from fedtide.simulation.blocks import read_blocks
        from fedtide.simulation.folder import held, remove_checkpoints
        from fedtide.simulation.result import read_about

        about = read_about(folder)
        if about["finished"]:
            with held(folder, resume=True):
                remove_checkpoints(folder)  # where the run was killed while it did
            typer.echo(f"{folder}: this run has finished; its report is written again", err=True)
            return _finish(Result.load(folder), folder)
        if about.get("config") is None:
            raise FedtideError(f"{folder}: not started from a configuration; resume it in Python, as it was started")
        kept = {key: about[key] for key in ("command", "folder") if key in about}
        for key, text in (("config", about["config"]), *kept.items()):
            require(isinstance(text, str), f"{folder / 'run.json'}: {key}", text, "text")
        config = loads(about["config"], str(folder / "run.json"), kept.get("folder", "."))
        on = on or Place(read_blocks(folder).get("on", "local"))
        _finish(_simulate(config, folder, kept, resume=True, on=on), folder)


def report(
    folder: Folder,
    baseline: Annotated[
        str | None, typer.Option(metavar="LABEL", help="The method to compare with.", show_default="the first")
    ] = None,
) -> None:
    """Write the report of a run again, for instance against another baseline, and print its summary.

    \b
    Examples:
      fedtide report runs/phones
      fedtide report runs/phones --baseline Unbiased
    """
    with explained():
        from fedtide import Result

        _finish(Result.load(folder), folder, baseline)


def _start(config: "Config", folder: Path, command: list[str], on: Place = Place.local, **share: Any) -> None:
    from fedtide.files import vacant

    if not vacant(folder):
        known = (folder / "run.json").is_file()
        other = f", or go on with: fedtide resume {folder}" if known else ""
        raise FedtideError(f"{folder}: exists and is not empty; choose another --out{other}")
    about = {"command": shlex.join([*command, "--out", str(folder)]), "folder": str(config.origin.folder.resolve())}
    _finish(_simulate(config, folder, about, resume=False, on=on, **share), folder)


def _simulate(
    config: "Config", folder: Path, about: dict[str, Any], resume: bool, on: Place = Place.local, **share: Any
) -> "Result":
    """Runs here, or on Ray; `share` is what a task is given there."""
    from fedtide import simulate, use_all_cores
    from fedtide.cli.interrupts import interrupts
    from fedtide.experiments import build
    from fedtide.simulation.bars import RoundsProgress
    from fedtide.simulation.cores import use_no_accelerator

    if on is Place.ray:
        use_no_accelerator()
    else:
        use_all_cores()
    experiment = build(config)
    about = {
        **about,
        "title": config.title or folder.name,
        "config": config.origin.text,
        "problem": {"name": config.problem.name},
        "availability": {"name": config.availability.name},
    }
    bars = RoundsProgress(experiment.methods, config.run.rounds)
    with bars, interrupts() as interrupted, warnings.catch_warnings():

        def progress(label: str, done: int, total: int) -> None:
            bars(label, done, total)
            interrupted.check()

        warnings.simplefilter("ignore", RuntimeWarning)  # the result says them again, and after the bars
        if on is Place.ray:
            from fedtide.adapters.ray import Share, simulate_on_ray

            given = Share(**share) if share else None
            return simulate_on_ray(config, folder, share=given, resume=resume, progress=progress, about=about)
        return simulate(
            experiment.problem,
            experiment.availability,
            experiment.methods,
            **experiment.options,
            out=folder,
            resume=resume,
            progress=progress,
            about=about,
        )


def _finish(result: "Result", folder: Path, baseline: str | None = None) -> None:
    """The report, the table, where the report is, and what it shows."""
    from rich.console import Console

    from fedtide.cli.sentence import sentence
    from fedtide.report.table import rich_table

    page = result.report(folder / "report.html", baseline)
    Console(highlight=False).print(rich_table(result.summary(baseline)))
    for warning in result.about["warnings"]:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(sentence(result.rounds, result.about["problem"]["clients"]))
    typer.echo(f"Report: {page}")
