"""Experiments as configurations: `load` one, `build` what it names, hand it to `fedtide.simulate`, or `tune` it; and
what begins with a fleet's log: `fit_fleet`, `recommend`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedtide.experiments.build import Experiment, as_written, build, settings
from fedtide.experiments.config import Config, adjusted, demo, load, loads
from fedtide.tomls import dumps

if TYPE_CHECKING:
    from fedtide.experiments.fleets import FittedFleet, fit_fleet
    from fedtide.experiments.recommendation import Constraints, Recommendation, recommend
    from fedtide.experiments.tuning import Tuning, tune

# These report in data frames and pages, whose libraries running an experiment does not need.
_LATER = {
    "Tuning": "tuning",
    "tune": "tuning",
    "FittedFleet": "fleets",
    "fit_fleet": "fleets",
    "Recommendation": "recommendation",
    "recommend": "recommendation",
    "Constraints": "recommendation",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"fedtide.experiments.{_LATER[name]}"), name)
    raise AttributeError(name)


__all__ = [
    "Config",
    "Constraints",
    "Experiment",
    "FittedFleet",
    "Recommendation",
    "Tuning",
    "adjusted",
    "as_written",
    "build",
    "demo",
    "dumps",
    "fit_fleet",
    "load",
    "loads",
    "recommend",
    "settings",
    "tune",
]
