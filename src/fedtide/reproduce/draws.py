"""Data draws and seeds of a study, and the digits that are stored of its numbers."""

from typing import Any

import numpy as np

from fedtide.errors import FedtideError
from fedtide.experiments.build import Experiment, build
from fedtide.experiments.config import Config, with_values
from fedtide.problems import Classification


def drawn(config: Config, draw: int) -> Experiment:
    """The experiment on one data draw."""
    return build(with_values(config, "problem", seed=draw))


def seeds_of(config: Config) -> list[int]:
    seeds = config.run.seeds
    if not isinstance(seeds, int):
        raise FedtideError(f"{config.origin.source}: run.seeds = {list(seeds)}: must be a number of seeds")
    return list(range(seeds))


def own_seeds(config: Config, draw: int) -> list[int]:
    """The seeds of the runs on a data draw: no two runs share a seed."""
    seeds = seeds_of(config)
    return [draw * len(seeds) + seed for seed in seeds]


def of_one_shape(problems: list[Any]) -> list[Any]:
    """The problems padded to the same size, so that all draws share compiled programs."""
    if not all(isinstance(problem, Classification) for problem in problems):
        return problems
    train, test = (max(len(getattr(problem, name)) for problem in problems) for name in ("y", "test_y"))
    return [problem.padded(train, test) for problem in problems]


def rounded(values: Any, digits: int) -> np.ndarray:
    """Numbers rounded to significant digits; nan if they are not finite."""
    values = np.asarray(values, np.float64)
    finite = np.where(np.isfinite(values), values, np.nan)
    return np.vectorize(lambda x: float(f"{x:.{digits}g}"), otypes=[float])(finite)
