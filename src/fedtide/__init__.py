"""Federated learning under intermittent client availability: simulate, compare, choose, deploy."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedtide import (
    aggregation,
    availability,
    estimators,
    fleet,
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

if TYPE_CHECKING:
    from fedtide import theory

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
    "fleet",
    "methods",
    "part",
    "participation",
    "problems",
    "schedules",
    "servers",
    "simulate",
    "solvers",
    "sweep",
    "theory",
    "use_all_cores",
    "work",
]


def __getattr__(name: str) -> Any:
    """`fedtide.theory` needs SciPy, so it is imported when it is first used."""
    if name == "theory":
        return import_module("fedtide.theory")
    raise AttributeError(f"module 'fedtide' has no attribute '{name}'")
