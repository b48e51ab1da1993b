"""From a configuration to the objects that a simulation takes."""

import dataclasses
import inspect
import re
from types import ModuleType
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

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
    types,
)
from fedtide.availability import Process
from fedtide.errors import FedtideError
from fedtide.experiments.arguments import Build, Context, named, parameters
from fedtide.experiments.config import Config, Local, MethodChoice
from fedtide.experiments.place import Place
from fedtide.methods import Method
from fedtide.work import Epochs, FullBatch, Steps, StepsPerClient


class Experiment(NamedTuple):
    """What `fedtide.simulate` takes: `simulate(e.problem, e.availability, e.methods, **e.options)`."""

    problem: types.Problem
    availability: Process
    methods: dict[str, Method]  # by label
    options: dict[str, Any]


def build(config: Config) -> Experiment:
    """Builds what the configuration names. Bad input is an error of one line with its path."""
    root = Place(config.origin.source)
    context = Context(config.origin.folder, _kinds())
    problem = named(config.problem.model_dump(), _builders(problems.CATALOGUE), root.key("problem"), context)
    clients = len(problem.sizes)
    process = _availability(config, clients, root.key("availability"), context)
    by_label: dict[str, Method] = {}
    for i, choice in enumerate(config.methods):
        place = root.key("methods").item(i)
        work = _work(config.local, choice.local, problem.sizes, place)
        label, method = _method(choice, place, context._replace(work=work))
        if label in by_label:
            taken = list(by_label).index(label)
            raise place.key("label").error(f"'{label}' is taken by methods[{taken}]; give each its own label")
        by_label[label] = method
    return Experiment(problem, process, by_label, config.run.model_dump(exclude_unset=True))


def settings(build: Build) -> dict[str, inspect.Parameter]:
    """The arguments of a builder that a configuration can give, with their types and defaults."""
    return parameters(build, Context(kinds=_kinds()))


def as_written(value: Any) -> Any:
    """A value as a configuration would write it: arrays as lists, a part as a table with its name."""
    if isinstance(value, dict):
        return {key: as_written(v) for key, v in value.items() if v is not None}
    for catalogue in _kinds().values():
        name = next((name for name, build in catalogue.items() if build is type(value)), None)
        if name is not None:
            fields = [f for f in dataclasses.fields(value) if f.init]
            given = {f.name: getattr(value, f.name) for f in fields if getattr(value, f.name) is not f.default}
            return {"name": name, **as_written(given)}
    return np.asarray(value).tolist() if hasattr(value, "shape") else value


def _availability(config: Config, clients: int, place: Place, context: Context) -> Process:
    catalogue = _builders(availability.CATALOGUE)
    # Only the outermost process: one inside another has clients of its own (clusters, say).
    process = named(config.availability.model_dump(), catalogue, place, context, defaults={"clients": clients})
    if process.clients != clients:
        raise place.error(f"{process.clients} clients, but the problem has {clients}: both must have the same number")
    return process


def _method(choice: MethodChoice, place: Place, context: Context) -> tuple[str, Method]:
    parts = {kind: choice.arguments[kind] for kind in _PARTS if kind in choice.arguments}
    own = ("label", "local", *_PARTS)
    method = named(choice.model_dump(), _builders(methods.CATALOGUE), place, context, own)
    for kind, table in parts.items():
        replaced = {kind: named(table, context.kinds[_PARTS[kind][0]], place.key(kind), context)}
        method = methods.compose(method, **replaced)
    return choice.label or methods.find(choice.name).title, method


def _work(every: Local, mine: Local | None, sizes: Array, place: Place) -> types.Work:
    """[local], overridden key by key by the method's own table; steps and epochs exclude each other."""
    own = mine.model_dump(exclude_none=True) if mine else {}
    shared = every.model_dump(exclude_none=True)
    if own.keys() & {"steps", "epochs"}:
        shared = {key: value for key, value in shared.items() if key not in ("steps", "epochs")}
    written = shared | own
    place = place.key("local") if own else Place(place.source, "local")
    batch = written.get("batch", 32)
    count = written.get("steps", written.get("epochs", 5))
    if {"steps", "epochs"} <= written.keys():
        raise place.error("steps and epochs exclude each other; give one")
    if isinstance(count, tuple) and batch == "all":
        raise place.error('batch = "all" needs one number of steps, the same for all clients')
    try:
        if isinstance(count, tuple):
            work = StepsPerClient(jnp.array(count, int), batch)
            return work.fit(np.asarray(sizes))  # one for each client?
        if batch == "all":
            return FullBatch(count)
        return Epochs(count, batch) if "epochs" in written else Steps(count, batch)
    except FedtideError as error:
        raise place.error(str(error)) from error


_PARTS: dict[str, tuple[Any, ModuleType]] = {
    "estimator": (types.Estimator, estimators),
    "participation": (types.Participation, participation),
    "solver": (types.Solver, solvers),
    "aggregation": (types.Aggregation, aggregation),
    "server": (types.Server, servers),
}
"""The parts of a method that its table may replace by others: the kind, and the package that holds them."""


def _kinds() -> dict[Any, dict[str, Build]]:
    kinds = {kind: _classes(package) for kind, package in _PARTS.values()}
    return {**kinds, types.Schedule: _classes(schedules), Process: _builders(availability.CATALOGUE)}


def _builders(catalogue: dict[str, Any]) -> dict[str, Build]:
    return {name: entry.build for name, entry in catalogue.items()}


def _classes(package: ModuleType) -> dict[str, Build]:
    """A package's parts by their names in configurations: `most_available` for `MostAvailable`."""
    found = {name: getattr(package, name) for name in package.__all__}
    return {re.sub(r"(?<!^)(?=[A-Z])", "_", n).lower(): v for n, v in found.items() if isinstance(v, type)}
