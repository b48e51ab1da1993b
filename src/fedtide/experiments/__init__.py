"""Experiments as configurations: `load` one, `build` what it names, hand it to `fedtide.simulate`, or `tune` it."""

from fedtide.experiments.build import Experiment, as_written, build, settings
from fedtide.experiments.config import Config, adjusted, demo, dumps, load, loads
from fedtide.experiments.tuning import Tuning, tune

__all__ = [
    "Config",
    "Experiment",
    "Tuning",
    "adjusted",
    "as_written",
    "build",
    "demo",
    "dumps",
    "load",
    "loads",
    "settings",
    "tune",
]
