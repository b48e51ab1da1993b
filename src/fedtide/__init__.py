"""Federated learning under intermittent client availability: simulate, compare, choose, deploy."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedtide import (
        aggregation,
        availability,
        clock,
        estimators,
        fleet,
        methods,
        participation,
        problems,
        schedules,
        servers,
        solvers,
        staleness,
        theory,
        track,
        work,
    )
    from fedtide.errors import FedtideError
    from fedtide.methods import Method, compose
    from fedtide.simulation import Result, early_stopping, simulate, sweep, use_all_cores
    from fedtide.types import part

__version__ = "0.1.0"

__all__ = [
    "FedtideError",
    "Method",
    "Result",
    "__version__",
    "aggregation",
    "availability",
    "clock",
    "compose",
    "early_stopping",
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
    "staleness",
    "sweep",
    "theory",
    "track",
    "use_all_cores",
    "work",
]


_HOMES = {
    "FedtideError": "errors",
    "Method": "methods",
    "Result": "simulation",
    "compose": "methods",
    "early_stopping": "simulation",
    "part": "types",
    "simulate": "simulation",
    "sweep": "simulation",
    "use_all_cores": "simulation",
}


def __getattr__(name: str) -> Any:
    """Imports what is used, when it is first used: JAX alone takes longer than `fedtide --help` should."""
    if name not in __all__:
        raise AttributeError(f"module 'fedtide' has no attribute '{name}'")
    home = _HOMES.get(name)
    found = import_module(f"fedtide.{home or name}")
    return getattr(found, name) if home else found


def __dir__() -> list[str]:
    return __all__
