"""The plan of a tuning, checked before anything runs."""

from typing import Any, NamedTuple

import jax
import numpy as np

from fedtide import types
from fedtide.experiments.build import Experiment, build
from fedtide.experiments.config import Config
from fedtide.experiments.place import Place
from fedtide.tuning.space import Space, space
from fedtide.tuning.trials import MEASURES, Measure, tuning_seeds


class Plan(NamedTuple):
    """What a tuning runs."""

    config: Config
    experiment: Experiment
    problem: types.Problem  # with validation data in place of test data where the measure needs them
    measure: Measure  # for choosing settings
    seeds: list[int]
    rounds: int
    spaces: dict[str, Space]  # by label
    note: str  # why this measure, where none was configured


def plan(config: Config, experiment: Experiment | None = None) -> Plan:
    """Builds the experiment, unless it is given, and checks what `tune` will run."""
    if config.clock is not None:
        raise Place(config.origin.source).key("clock").error("fedtide tune cannot tune with a clock; remove this table")
    experiment = experiment or build(config)
    select, note = _selection(config, experiment.problem)
    measure = MEASURES[select]
    seeds = tuning_seeds(config)
    problem: Any = experiment.problem
    if measure.held_out:
        problem = problem.hold_out(config.tune.validation, seeds[0])
    spaces = {label: space(config, i, problem.sizes) for i, label in enumerate(experiment.methods)}
    rounds = config.tune.rounds or config.run.rounds
    return Plan(config, experiment, problem, measure, seeds, rounds, spaces, note)


def tested(problem: Any) -> bool:
    """Whether the problem has test data."""
    return bool(np.any(problem.evaluate(problem.init(jax.random.key(0))).tested))


def _selection(config: Config, problem: Any) -> tuple[str, str]:
    """(name of the measure, reason for it)."""
    place = Place(config.origin.source).key("tune").key("select")
    select, name = config.tune.select, config.problem.name
    if select is None:
        if hasattr(problem, "hold_out"):
            return "accuracy", ""
        if not tested(problem):
            note = f"{name} has no samples to hold out: the training objective is used to choose settings."
            return "objective", note
        what = "has test data, but no method hold_out(fraction, seed) to set training samples aside for validation"
        raise place.error(f'the problem {name} {what}; add one, or set select = "objective"')
    if MEASURES[select].held_out and not hasattr(problem, "hold_out"):
        what = "has no samples to hold out; add a method hold_out(fraction, seed)"
        raise place.error(f'"{select}": the problem {name} {what}, or set select = "objective"')
    return select, ""
