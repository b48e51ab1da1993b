"""Experiments as configurations: `load` one, `build` what it names, hand it to `fedtide.simulate`."""

from fedtide.experiments.build import Experiment, as_written, build, settings
from fedtide.experiments.config import Config, adjusted, demo, dumps, load, loads

__all__ = ["Config", "Experiment", "adjusted", "as_written", "build", "demo", "dumps", "load", "loads", "settings"]
