"""A run in plain data, for its records and its report."""

import dataclasses
import importlib.metadata
import os
import platform
from typing import Any

import jax
import numpy as np

from fedtide.availability.base import Process
from fedtide.methods.base import CATALOGUE, Method, title_of
from fedtide.types import Population


def describe_method(label: str, method: Method) -> dict[str, Any]:
    """Label, settings, facts and citation of a method."""
    entry = CATALOGUE.get(method.name)
    facts = dataclasses.asdict(entry.facts) if entry else {}
    if entry:
        facts |= {"server_memory": entry.facts.server_memory, "client_memory": entry.facts.client_memory}
    policy = method.participation  # what it needs is what its parts need, whatever was replaced
    facts |= {
        "needs_estimates": policy.needs_estimates,
        "needs_correlation": policy.needs_correlation,
        "needs_losses": policy.needs_losses is not None,
    }
    return {
        "label": label,
        "name": method.name,
        "title": title_of(method),
        "summary": entry.summary if entry else "",
        "settings": settings(method),
        "facts": facts,
        "bibtex": entry.bibtex if entry else "",
    }


def settings(value: Any, path: str = "") -> dict[str, Any]:
    """All hyper-parameters of a part and its parts: {"solver.rate": 0.1, …}; a part itself gives its class."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        name, item = f"{path}{field.name}", getattr(value, field.name)
        if dataclasses.is_dataclass(item):
            found[name] = type(item).__name__
            found |= settings(item, f"{name}.")
        elif not (path == "" and field.name == "name"):
            found[name] = _plain(item)
    return found


def describe_availability(process: Process) -> dict[str, Any]:
    def vector(values: Any) -> list[float] | None:
        return None if values is None else [round(float(v), 6) for v in np.asarray(values)]

    return {
        "name": type(process).__name__,
        "classes": process.classes(),
        "availability": vector(process.availability),  # pyright: ignore[reportAttributeAccessIssue]
        "correlation": vector(process.correlation),  # pyright: ignore[reportAttributeAccessIssue]
    }


def describe_problem(problem: Any, population: Population, parameters: int) -> dict[str, Any]:
    return {
        "name": type(problem).__name__,
        "clients": len(population.sizes),
        "samples": int(np.asarray(population.sizes).sum()),
        "parameters": parameters,
    }


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("fedtide", "jax", "jaxlib", "optax", "numpy"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "from a checkout"
    return found


def hardware() -> str:
    device = jax.devices()[0]
    return f"{len(jax.devices())} × {device.device_kind}, {os.cpu_count()} CPU cores, {platform.system()}"


def _plain(item: Any) -> Any:
    if item is None or isinstance(item, bool | int | float | str):
        return item
    array = np.asarray(item) if not isinstance(item, tuple) else None
    if array is not None and array.dtype.kind in "fiub":
        return array.tolist() if array.size <= 16 else f"{array.size} values, {array.min():g} to {array.max():g}"
    return str(item)
