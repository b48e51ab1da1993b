"""The command `check`."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from fedtide.cli.faults import explained
from fedtide.cli.layout import ConfigFile, columns, show
from fedtide.text import count

if TYPE_CHECKING:
    from fedtide.experiments import Config, Experiment


def check(config: ConfigFile) -> None:
    """Check a configuration and print what it would run. Nothing is run or written.

    \b
    Examples:
      fedtide check phones.toml
    """
    with explained():
        table = columns("", "")
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
    setup = Setup(experiment.problem, experiment.availability, methods, **config.run.model_dump())
    clients, most = len(setup.population.sizes), setup.traces.most
    yield (
        "problem",
        f"{config.problem.name}: {clients:,} clients, {int(setup.population.sizes.sum()):,} training samples",
    )
    yield "model", f"{setup.parameters:,} parameters"
    yield "availability", f"{config.availability.name}: at most {most:,} of {clients:,} clients available in one round"
    for kind, number in Counter(experiment.availability.classes()).items():
        yield "", f"{number:,} of them: {kind}"
    for label, choice in zip(experiment.methods, config.methods, strict=True):
        written = ", ".join(f"{key} = {toml(value)}" for key, value in choice.arguments.items())
        yield "method", f"{label}: {choice.name}({written})"
        yield "", f"local work: {methods[label].solver.work}"
    seeds = len(setup.seed_list)
    sizes = (count(setup.rounds, "round"), count(seeds, "seed"), count(len(methods), "method"))
    yield "rounds", f"{' × '.join(sizes)} = {setup.rounds * seeds * len(methods):,}"
    if "tune" in config.model_fields_set or any(choice.tune for choice in config.methods):
        yield from _tuning(config, experiment)
    available = memory.device_memory()
    needs = [setup.fitting(label, m, setup.choose_chunk(m)) for label, m in methods.items()]
    largest = max(needs, key=lambda need: need.total)
    yield "memory", f"about {largest}" + (f" of {memory.readable(available)}" if available else "")


def _tuning(config: "Config", experiment: "Experiment") -> Iterator[tuple[str, str]]:
    from fedtide.tuning.plan import plan

    planned = plan(config, experiment)
    seeds, trials = len(planned.seeds), config.tune.trials
    by = planned.measure.words
    sizes = (count(trials, "trial"), count(seeds, "seed"), count(planned.rounds, "round"))
    yield "tune", f"fedtide tune: {' × '.join(sizes)} per method, by {by}"
    for label, own in planned.spaces.items():
        lists = ", ".join(f"{axis.name} ({len(axis.values)})" for axis in own.axes)
        yield "", f"{label}: {own.note}; {lists}"
