"""Experiments as configurations: `load` one, `build` what it names, hand it to `fedtide.simulate`, or `tune` it."""

from typing import TYPE_CHECKING, Any

from fedtide.experiments.build import Experiment, as_written, build, settings
from fedtide.experiments.config import Config, adjusted, demo, load, loads
from fedtide.tomls import dumps

if TYPE_CHECKING:
    from fedtide.experiments.tuning import Tuning, tune


def __getattr__(name: str) -> Any:
    # Tuning reports in data frames and pages, whose libraries running an experiment does not need.
    if name in ("Tuning", "tune"):
        from fedtide.experiments import tuning

        return getattr(tuning, name)
    raise AttributeError(name)


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
