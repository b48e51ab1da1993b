"""Federated learning when clients come and go: simulate, compare, choose."""

from fedtide import (
    aggregation,
    availability,
    estimators,
    methods,
    participation,
    problems,
    schedules,
    servers,
    solvers,
    work,
)
from fedtide.errors import FedtideError
from fedtide.methods import Method, compose
from fedtide.simulation import Result, simulate, sweep, use_all_cores
from fedtide.types import part

__version__ = "0.1.0"

__all__ = [
    "FedtideError",
    "Method",
    "Result",
    "__version__",
    "aggregation",
    "availability",
    "compose",
    "estimators",
    "methods",
    "part",
    "participation",
    "problems",
    "schedules",
    "servers",
    "simulate",
    "solvers",
    "sweep",
    "use_all_cores",
    "work",
]
