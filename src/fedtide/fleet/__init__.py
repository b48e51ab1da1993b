"""Your own fleet: read its log, fit a model, test it, choose a method."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedtide.fleet.process import Fleet

if TYPE_CHECKING:
    from fedtide.fleet.advice import advice_in_words, advise, advised_length
    from fedtide.fleet.diagnosis.diagnose import diagnose
    from fedtide.fleet.diagnosis.findings import Check, Diagnosis, Finding
    from fedtide.fleet.diagnosis.resemblance import resemble
    from fedtide.fleet.example import write_example
    from fedtide.fleet.fitted import FittedFleet, fit_fleet
    from fedtide.fleet.fitting.fit import fit
    from fedtide.fleet.log import Account, Issue, Log
    from fedtide.fleet.model import Cluster, Distribution, FleetModel, Habits, Lengths, Profile
    from fedtide.fleet.reading import read
    from fedtide.fleet.recommendation import Constraints, Recommendation, recommend
    from fedtide.fleet.rounds import discretise
    from fedtide.fleet.slots import Slots
    from fedtide.fleet.storage import load_model

__all__ = [
    "Account",
    "Check",
    "Cluster",
    "Constraints",
    "Diagnosis",
    "Distribution",
    "Finding",
    "FittedFleet",
    "Fleet",
    "FleetModel",
    "Habits",
    "Issue",
    "Lengths",
    "Log",
    "Profile",
    "Recommendation",
    "Slots",
    "advice_in_words",
    "advise",
    "advised_length",
    "diagnose",
    "discretise",
    "fit",
    "fit_fleet",
    "load_model",
    "read",
    "recommend",
    "resemble",
    "write_example",
]


# Imported when first used: logs, tables and pages need libraries that a simulation does not.
_HOMES = {
    "advice": ("advice_in_words", "advise", "advised_length"),
    "diagnosis.diagnose": ("diagnose",),
    "diagnosis.findings": ("Check", "Diagnosis", "Finding"),
    "diagnosis.resemblance": ("resemble",),
    "example": ("write_example",),
    "fitted": ("FittedFleet", "fit_fleet"),
    "fitting.fit": ("fit",),
    "log": ("Account", "Issue", "Log"),
    "model": ("Cluster", "Distribution", "FleetModel", "Habits", "Lengths", "Profile"),
    "reading": ("read",),
    "recommendation": ("Constraints", "Recommendation", "recommend"),
    "rounds": ("discretise",),
    "slots": ("Slots",),
    "storage": ("load_model",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"fedtide.fleet.{module}"), name)
    raise AttributeError(f"module 'fedtide.fleet' has no attribute '{name}'")
