"""Methods: papers as compositions of parts."""

from fedtide.methods.adafed import adafed
from fedtide.methods.base import CATALOGUE, Entry, Facts, Method, compose, find, method
from fedtide.methods.ca_fed import ca_fed
from fedtide.methods.f3ast import f3ast
from fedtide.methods.fedavg import fedavg
from fedtide.methods.most_available import most_available
from fedtide.methods.unbiased import unbiased

__all__ = [
    "CATALOGUE",
    "Entry",
    "Facts",
    "Method",
    "adafed",
    "ca_fed",
    "compose",
    "f3ast",
    "fedavg",
    "find",
    "method",
    "most_available",
    "unbiased",
]
