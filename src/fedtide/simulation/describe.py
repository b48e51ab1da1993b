"""The description of a run as plain data, for its records and its report."""

import dataclasses
import importlib.metadata
import os
import platform
from typing import Any

import jax
import numpy as np

from fedtide.availability.base import Process
from fedtide.methods.base import CATALOGUE, Facts, Method, title_of
from fedtide.simulation.replica import Carry


def describe_method(label: str, method: Method, state: Carry, clients: int, parameters: int) -> dict[str, Any]:
    """Label, settings, facts and citation of a method, with the shapes of its state."""
    entry = CATALOGUE.get(method.name)
    facts = facts_of(method, state, clients, parameters)
    memory = {"server_memory": facts.server_memory, "client_memory": facts.client_memory}
    return {
        "label": label,
        "name": method.name,
        "title": title_of(method),
        "summary": entry.summary if entry else "",
        "settings": settings(method),
        "facts": dataclasses.asdict(facts) | memory,
        "bibtex": entry.bibtex if entry else "",
    }


def facts_of(method: Method, state: Carry, clients: int, parameters: int) -> Facts:
    """The facts of a method as built: requirements are those of its parts and memory is measured on its state, for any
    arguments and replaced parts. Facts that need a proof are those declared for the published method."""
    entry = CATALOGUE.get(method.name)
    declared = entry.declared if entry else Facts(unbiased="not declared")
    unbiased = f"not declared with {', '.join(method.replaced)}" if method.replaced else declared.unbiased

    def rows(tree: Any, *shape: int) -> int:
        return sum(leaf.shape[2:] == shape for leaf in jax.tree.leaves(tree))  # after settings and seeds

    server = state._replace(solver=state.solver.shared, time=())
    rows_kept = {"server_rows": "N"} if rows(server, clients, parameters) else {}
    return dataclasses.replace(
        declared.required_by(method),
        unbiased=unbiased,
        server_models=rows(server, parameters),
        client_models=rows(state.solver.client, clients, parameters),
        client_scalars=rows(state.solver.client, clients) > 0,
        **rows_kept,
    )


def settings(value: Any, path: str = "") -> dict[str, Any]:
    """All hyper-parameters of a part and its inner parts: {"solver.rate": 0.1, …}; the value of a part is its class."""
    flat: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        name, item = f"{path}{field.name}", getattr(value, field.name)
        if dataclasses.is_dataclass(item):
            flat[name] = type(item).__name__
            flat |= settings(item, f"{name}.")
        elif not (path == "" and field.name == "name"):
            flat[name] = _plain(item)
    return flat


def describe_availability(process: Process) -> dict[str, Any]:
    def vector(values: Any) -> list[float] | None:
        return None if values is None else [round(float(v), 6) for v in np.asarray(values)]

    return {
        "name": type(process).__name__,
        "classes": process.classes(),
        "availability": vector(process.availability),
        "correlation": vector(process.correlation),
    }


def versions() -> dict[str, str]:
    installed = {"python": platform.python_version()}
    for name in ("fedtide", "jax", "jaxlib", "optax", "numpy"):
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            installed[name] = "from a checkout"
    return installed


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
