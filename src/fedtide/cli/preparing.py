"""Commands on a configuration, before it is run: `check`, `theory`, `tune`."""

import math
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from fedtide.cli.faults import explained
from fedtide.cli.folders import require_vacant
from fedtide.cli.layout import ConfigFile, NewFolder, columns, command_line, optional, show
from fedtide.text import count

if TYPE_CHECKING:
    from fedtide.experiments import Config, Experiment
    from fedtide.tuning import Tuning


def check(config: ConfigFile) -> None:
    """Check a configuration and print what it would run. Nothing is run or written.

    \b
    Examples:
      fedtide check phones.toml
    """
    with explained():
        from fedtide.cli.progress import announced

        table = columns("", "")
        with announced("building the problem, which takes minutes with a million clients"):
            for name, text in _facts(config):
                table.add_row(name, escape(text))
        show(f"{escape(str(config))}: valid; fedtide run {escape(str(config))} would run:", "", table)


def _facts(path: Path) -> Iterator[tuple[str, str]]:
    from fedtide.experiments import build, load
    from fedtide.simulation import memory
    from fedtide.simulation.setup import Setup, fitted
    from fedtide.tomls import toml

    config = load(path)
    experiment = build(config)
    methods = {label: fitted(method, experiment.problem) for label, method in experiment.methods.items()}
    options: dict[str, Any] = config.run.model_dump() | {"clock": experiment.options.get("clock")}
    setup = Setup(experiment.problem, experiment.availability, methods, **options)
    clients, samples, most = len(setup.population.sizes), int(setup.population.sizes.sum()), setup.traces.most
    yield "problem", f"{config.problem.name}: {clients:,} clients, {samples:,} training samples"
    yield "model", f"{setup.parameters:,} parameters"
    if setup.timing is None:
        yield (
            "availability",
            f"{config.availability.name}: at most {most:,} of {clients:,} clients available in one round",
        )
    else:
        clock = setup.timing.clock
        yield "availability", f"{config.availability.name}: one step every {float(clock.slot):g} seconds"
        yield "clock", f"{clock.barrier}; the work of clients that leave is {clock.leaving}"
    for kind, number in Counter(experiment.availability.classes()).items():
        yield "", f"{number:,} of them: {kind}"
    for label, choice in zip(experiment.methods, config.methods, strict=True):
        written = ", ".join(f"{key} = {toml(value)}" for key, value in choice.arguments.items())
        yield "method", f"{label}: {choice.name}({written})"
        yield "", f"local work: {methods[label].solver.work}"
    sizes = {"round": setup.rounds, "seed": len(setup.seed_list), "method": len(methods)}
    yield "rounds", f"{_product(sizes)} = {math.prod(sizes.values()):,}"
    if "tune" in config.model_fields_set or any(choice.tune for choice in config.methods):
        yield from _tuning(config, experiment)
    available = memory.device_memory()
    needs = [setup.fitting(label, m, setup.choose_chunk(m)) for label, m in methods.items()]
    largest = max(needs, key=lambda need: need.total)
    yield "memory", f"about {largest}" + (f" of {memory.readable(available)}" if available else "")


def _tuning(config: "Config", experiment: "Experiment") -> Iterator[tuple[str, str]]:
    from fedtide.tuning.plan import plan

    planned = plan(config, experiment)
    sizes = {"trial": config.tune.trials, "seed": len(planned.seeds), "round": planned.rounds}
    yield "tune", f"fedtide tune: {_product(sizes)} per method, by {planned.measure.words}"
    for label, own in planned.spaces.items():
        lists = ", ".join(f"{axis.name} ({len(axis.values)})" for axis in own.axes)
        yield "", f"{label}: {own.note}; {lists}"


def _product(sizes: dict[str, int]) -> str:
    """`50 rounds × 1 seed`."""
    return " × ".join(count(number, name) for name, number in sizes.items())


def theory(
    context: typer.Context,
    config: ConfigFile,
    out: Annotated[Path | None, optional("File for the page.", "theory/NAME.html for NAME.toml")] = None,
    rounds: Annotated[int | None, optional("Number of rounds to predict.", "as configured", min=1)] = None,
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


def tune(context: typer.Context, config: ConfigFile, out: NewFolder = None) -> None:
    """Tune learning rates and other settings, with the same number of trials for every method.

    Trials are compared on validation samples, which are held out from every
    client's training samples. The test data and the seeds of \\[run] are not
    used. Writes the tuned configuration and a page with all trials (by default to
    tuned/NAME for NAME.toml).

    A tuning that was stopped continues if the same command is run again: finished
    trials are kept in OUT/trials until the results are written.

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
    command = command_line(context, out=folder)
    with explained(resume=command):
        from fedtide import use_all_cores
        from fedtide.cli.progress import LabelledBars, interruptible
        from fedtide.experiments import load
        from fedtide.files import alone, remove_partial, vacant
        from fedtide.tuning.plan import plan
        from fedtide.tuning.tune import FILES, carry_out, cells_of, finished

        kept = folder / "trials"
        stopped = kept.is_dir() and vacant(kept, "*.safetensors") and vacant(folder, kept.name, *FILES)
        if not stopped:
            require_vacant(folder)
        loaded = load(config)
        use_all_cores()
        planned = plan(loaded)
        cells = cells_of(planned, kept)
        with alone(folder, "another tuning is using it"):
            remove_partial(folder)
            if stopped:
                trials = count(sum(len(own.trials) for own in planned.spaces.values()), "trial")
                typer.echo(f"continuing: {finished(planned, cells)} of {trials} are finished in {kept}", err=True)
            with interruptible(LabelledBars("rounds")) as progress:
                tuning = carry_out(planned, progress=progress, command=command, cells=cells)
                tuning.save(folder)
            shutil.rmtree(kept, ignore_errors=True)
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
