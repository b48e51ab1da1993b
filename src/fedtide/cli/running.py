"""Commands that run and report: `demo`, `run`, `resume`, `report`."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Option

from fedtide.cli.faults import explained
from fedtide.cli.folders import require_vacant
from fedtide.cli.layout import Argument, ConfigFile, NewFolder, command_line, optional
from fedtide.errors import FedtideError, require

if TYPE_CHECKING:
    from fedtide import Result
    from fedtide.adapters.ray import Share
    from fedtide.experiments import Config


Place = Literal["local", "ray"]
Overwrite = Annotated[bool, Option("--overwrite", help="Replace the run that the folder holds.")]
Folder = Annotated[Path, Argument(metavar="DIR", help="Folder of a run.")]


def demo(
    context: typer.Context,
    rounds: Annotated[int, Option(help="Number of rounds.")] = 200,
    seeds: Annotated[int, Option(help="Number of seeds.")] = 10,
    out: Annotated[Path, Option(help="Folder for the results; must be new or empty.")] = Path("fedtide-demo"),
    overwrite: Overwrite = False,
) -> None:
    """Compare six methods under intermittent client availability. Needs no configuration.

    \b
    Examples:
      fedtide demo
      fedtide demo --rounds 50 --seeds 3 --out quick
    """
    with explained(out):
        from fedtide.experiments import adjusted
        from fedtide.experiments import demo as packaged

        command = command_line(context, rounds=rounds, seeds=seeds, out=out)
        _start(adjusted(packaged(), rounds=rounds, seeds=seeds), out, command, overwrite=overwrite)


def run(
    context: typer.Context,
    config: ConfigFile,
    out: NewFolder = None,
    overwrite: Overwrite = False,
    on: Annotated[Place, Option(help="Where to compute: in this process or on a Ray cluster.")] = "local",
    seeds_per_task: Annotated[
        int | None,
        optional("With ray: number of seeds per task.", "for about 2 tasks per worker", min=1),
    ] = None,
    cpus_per_task: Annotated[float | None, optional("With ray: CPUs per task.", "1")] = None,
    gpus_per_task: Annotated[float | None, optional("With ray: GPUs per task.", "1 if the cluster has GPUs")] = None,
) -> None:
    """Run a configuration, and write its records and report (by default to runs/NAME for NAME.toml).

    The tuned configuration tuned/NAME/tuned.toml is run in runs/NAME-tuned.

    With --on ray, methods and blocks of seeds are distributed over the cluster at
    RAY_ADDRESS or, if it is not set, over the cores of this machine. The records
    equal those of a local run. All machines must share the folder of the results.

    \b
    Examples:
      fedtide run phones.toml
      fedtide run phones.toml --out /data/phones-long
      fedtide run phones.toml --overwrite
      fedtide run phones.toml --on ray
    \b
    A minimal configuration:
      \\[problem]
      name = "digits"
      \\[availability]
      name = "paper_population"
      \\[run]
      rounds = 100
      \\[\\[methods]]
      name = "fedavg"
    """
    folder = Path("runs") / _name(config) if out is None else out
    with explained(folder):
        from fedtide.experiments import load

        given: dict[str, Any] = {"seeds": seeds_per_task, "cpus": cpus_per_task, "gpus": gpus_per_task}
        given = {name: value for name, value in given.items() if value is not None}
        if given and on == "local":
            raise FedtideError(f"--{next(iter(given))}-per-task: only with --on ray")
        share = None
        if given:
            from fedtide.adapters.ray import Share

            share = Share(**given)
        _start(load(config), folder, command_line(context, out=folder), on, share, overwrite)


def resume(
    folder: Folder,
    on: Annotated[Place | None, optional("Where to compute: in this process or on a Ray cluster.", "as before")] = None,
) -> None:
    """Resume a run that was stopped or killed. The records equal those of an uninterrupted run.

    \b
    Examples:
      fedtide resume runs/phones
      fedtide resume runs/phones --on local
    """
    with explained(folder):
        from fedtide import Result
        from fedtide.experiments import loads
        from fedtide.simulation.blocks import read_sharing
        from fedtide.simulation.folder import held, remove_checkpoints
        from fedtide.simulation.result import read_about

        about = read_about(folder)
        if about["finished"]:
            with held(folder, resume=True):
                remove_checkpoints(folder)  # in case the run was killed while removing them
            typer.echo(f"{folder}: this run has finished; its report is rewritten", err=True)
            return _finish(Result.load(folder), folder)
        if about.get("config") is None:
            remedy = "resume it in Python with simulate(…, resume=True)"
            raise FedtideError(f"{folder}: not started from a configuration; {remedy}")
        kept = {key: about[key] for key in ("command", "folder") if key in about}
        for key, text in (("config", about["config"]), *kept.items()):
            require(isinstance(text, str), f"{folder / 'run.json'}: {key}", text, "text")
        config = loads(about["config"], str(folder / "run.json"), kept.get("folder", "."))
        on = on or read_sharing(folder, len(about["seeds"])).on
        _finish(_simulate(config, folder, kept, resume=True, on=on), folder)


def report(
    folder: Folder,
    baseline: Annotated[str | None, optional("Method to compare with.", "the first", metavar="LABEL")] = None,
) -> None:
    """Rewrite the report of a run, e.g. with another baseline, and print its summary.

    \b
    Examples:
      fedtide report runs/phones
      fedtide report runs/phones --baseline Unbiased
    """
    with explained():
        from fedtide import Result

        _finish(Result.load(folder), folder, baseline)


def _name(config: Path) -> str:
    """The name of a configuration: that of its file; of one that `fedtide tune` wrote, that of its folder, too."""
    return f"{config.resolve().parent.name}-tuned" if config.name == "tuned.toml" else config.stem


def _start(
    config: "Config", folder: Path, command: str, on: Place = "local", share: "Share | None" = None,
    overwrite: bool = False,
) -> None:  # fmt: skip
    if not overwrite:
        known = (folder / "run.json").is_file()
        other = f", resume with: fedtide resume {folder}, or replace it with --overwrite"
        require_vacant(folder, other if known else "")
    about = {"command": command, "folder": str(config.origin.folder.resolve())}
    _finish(_simulate(config, folder, about, resume=False, on=on, share=share, overwrite=overwrite), folder)


def _simulate(
    config: "Config",
    folder: Path,
    about: dict[str, Any],
    resume: bool,
    on: Place,
    share: "Share | None" = None,
    overwrite: bool = False,
) -> "Result":
    """Runs in this process or on Ray; `share` is the share of a Ray task."""
    from fedtide import simulate, use_all_cores
    from fedtide.cli.progress import announced, interruptible
    from fedtide.experiments import build
    from fedtide.simulation.bars import RoundsProgress
    from fedtide.simulation.cores import use_no_accelerator

    if on == "ray":
        use_no_accelerator()
    else:
        use_all_cores()
    with announced("building the problem, which takes minutes with a million clients"):
        experiment = build(config)
    about = {
        **about,
        "title": config.title or folder.name,
        "config": config.origin.text,
        "problem": {"name": config.problem.name},
        "availability": {"name": config.availability.name},
    }
    bars = RoundsProgress(experiment.methods, config.run.rounds)
    with interruptible(bars) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # they are part of the result and printed after the bars
        if on == "ray":
            from fedtide.adapters.ray import simulate_on_ray

            options = {"resume": resume, "overwrite": overwrite, "progress": progress, "about": about}
            return simulate_on_ray(config, folder, share=share, **options)
        parts = experiment.problem, experiment.availability, experiment.methods
        options = {"resume": resume, "overwrite": overwrite, "progress": progress, "about": about}
        return simulate(*parts, **experiment.options, out=folder, **options)


def _finish(result: "Result", folder: Path, baseline: str | None = None) -> None:
    """Writes the report; prints the table, the warnings, the result in words and the path of the report."""
    from rich.console import Console

    from fedtide.report.answer import answer, excluded_shares
    from fedtide.report.table import rich_table
    from fedtide.summaries import per_seed

    page = result.report(folder / "report.html", baseline)
    summary = result.summary(baseline)
    Console(highlight=False).print(rich_table(summary))
    for warning in result.about["warnings"]:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(
        answer(summary, per_seed(result.rounds), excluded=excluded_shares(result.rounds, result.about)).striptags()
    )
    typer.echo(f"Report: {page}")
