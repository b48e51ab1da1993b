"""Experiments as configurations: `load` one, `build` its objects, and pass them to `fedtide.simulate`."""

from fedtide.experiments.build import Experiment, as_written, build, settings
from fedtide.experiments.config import Config, adjusted, demo, load, loads
from fedtide.tomls import dumps

__all__ = ["Config", "Experiment", "adjusted", "as_written", "build", "demo", "dumps", "load", "loads", "settings"]
