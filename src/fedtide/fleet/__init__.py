"""A fleet from its log: read it, put it into rounds, fit it, ask whether the model holds."""

from fedtide.fleet.advice import advice_in_words, advise, advised_length
from fedtide.fleet.diagnose import diagnose
from fedtide.fleet.diagnosis import Check, Diagnosis, Finding
from fedtide.fleet.example import write_example
from fedtide.fleet.fit import fit
from fedtide.fleet.log import Account, Issue, Log
from fedtide.fleet.model import Cluster, Distribution, FleetModel, Habits, Lengths, Profile
from fedtide.fleet.reading import read
from fedtide.fleet.resemblance import resemble
from fedtide.fleet.rounds import discretise
from fedtide.fleet.slots import Slots
from fedtide.fleet.storage import load_model

__all__ = [
    "Account",
    "Check",
    "Cluster",
    "Diagnosis",
    "Distribution",
    "Finding",
    "FleetModel",
    "Habits",
    "Issue",
    "Lengths",
    "Log",
    "Profile",
    "Slots",
    "advice_in_words",
    "advise",
    "advised_length",
    "diagnose",
    "discretise",
    "fit",
    "load_model",
    "read",
    "resemble",
    "write_example",
]
