"""Builds the objects of a simulation from a configuration."""

import dataclasses
import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide import (
    aggregation,
    availability,
    data,
    estimators,
    methods,
    participation,
    partitioners,
    problems,
    schedules,
    servers,
    solvers,
    staleness,
    types,
)
from fedtide.availability import Process
from fedtide.clock import Barrier, Clock, Devices, Jitter
from fedtide.clock.catalogue import BARRIERS, DEVICES, JITTERS
from fedtide.errors import FedtideError
from fedtide.experiments.arguments import Build, Context, call, is_file, named, parameters, plain
from fedtide.experiments.config import Config, LocalTable, MethodChoice, validated
from fedtide.experiments.place import Place
from fedtide.kinds import kinds_checked
from fedtide.methods import Method
from fedtide.partitioners import Partitioner
from fedtide.partitioners.base import deferred
from fedtide.problems.models import MODELS
from fedtide.work import Epochs, FullBatch, RandomEpochs, RandomSteps, Steps, StepsPerClient


class Experiment(NamedTuple):
    """The arguments of `fedtide.simulate`: `simulate(e.problem, e.availability, e.methods, **e.options)`."""

    problem: types.Problem
    availability: Process
    methods: dict[str, Method]  # by label
    options: dict[str, Any]


@kinds_checked
def build(config: Config, problem: types.Problem | None = None) -> Experiment:
    """Builds an experiment from its configuration, on another problem if one is given. Invalid input raises a one-line
    error with its path."""
    root = Place(config.origin.source)
    context = Context(config.origin.folder, _kinds())
    if problem is None:
        problem = named_problem(config.problem.model_dump(), root, config.origin.folder)
    clients = len(problem.sizes)
    process = _availability(config, clients, root.key("availability"), context)
    by_label: dict[str, Method] = {}
    for i, choice in enumerate(config.methods):
        method = build_method(config, i, choice, problem.sizes)
        label = choice.label or methods.find(choice.name).title
        if label in by_label:
            taken = list(by_label).index(label)
            message = f"'{label}' is also the label of methods[{taken}]; labels must be unique"
            raise root.key("methods").item(i).key("label").error(message)
        by_label[label] = method
    options = config.run.model_dump(exclude_unset=True)
    if config.clock is not None:
        options["clock"] = _clock(config.clock, clients, root.key("clock"), context)
    return Experiment(problem, process, by_label, options)


def build_method(config: Config, index: int, choice: MethodChoice, sizes: Array) -> Method:
    """The method of a table at this index of the configuration; the table may contain other values than there."""
    place = Place(config.origin.source).key("methods").item(index)
    work = _work(config.local, choice.local, sizes, place)
    return _method(choice, place, Context(config.origin.folder, _kinds(), work))


def named_method(table: dict[str, Any], local: dict[str, Any], sizes: Any, place: Place) -> Method:
    """The method and local work of two tables; for configurations that are not files."""
    choice = validated(MethodChoice, table, place.key("method"))
    work = _work(validated(LocalTable, local, place.key("local")), choice.local, sizes, place.key("method"))
    return _method(choice, place.key("method"), Context(kinds=_kinds(), work=work))


def named_problem(table: dict[str, Any], place: Place, folder: Path = Path()) -> types.Problem:
    """The problem of a table; for configurations that are not files."""
    name = table.get("name")
    if name in data.CATALOGUE and name not in problems.CATALOGUE:
        message = f'\'{name}\' is a data set; write name = "images" and data = "{name}"'
        raise place.key("problem").key("name").error(message)
    return named(table, _builders(problems.CATALOGUE), place.key("problem"), Context(folder, _kinds()))


def tunable(choice: MethodChoice) -> dict[str, inspect.Parameter | None]:
    """The arguments of a method's table that can be tuned, by dotted name: `rate`, `solver.mu`.

    Arguments of a part are included if the table names the part. Local work has no parameter to check against (None).
    """
    kinds = {kind: _kinds()[of] for kind, (of, _) in _PARTS.items()}
    arguments: dict[str, inspect.Parameter | None] = {
        name: p for name, p in settings(methods.find(choice.name).build).items() if plain(p.annotation)
    }
    for key, table in choice.arguments.items():
        if isinstance(table, dict):
            catalogue = kinds.get(key) or _kinds()[types.Schedule]
            known = settings(catalogue[table["name"]]) if table.get("name") in catalogue else {}
            arguments |= {f"{key}.{name}": p for name, p in known.items() if plain(p.annotation)}
    return arguments | {f"local.{name}": None for name in LocalTable.model_fields}


def located(config: Config) -> dict[str, Any]:
    """The configuration as written, with absolute file names."""
    written = config.model_dump(exclude_unset=True)
    for key, catalogue in (("problem", problems.CATALOGUE), ("availability", availability.CATALOGUE)):
        written[key] = _located(written[key], _builders(catalogue), config.origin.folder)
    if "devices" in written.get("clock", {}):
        devices = _located(written["clock"]["devices"], DEVICES, config.origin.folder)
        written["clock"] = written["clock"] | {"devices": devices}
    return written


def _located(table: dict[str, Any], catalogue: dict[str, Build], folder: Path) -> dict[str, Any]:
    known = settings(catalogue[table["name"]]) if table["name"] in catalogue else {}  # a problem defined in Python
    absolute = {}
    for key, value in table.items():
        if isinstance(value, dict) and value.get("name") in catalogue:  # a process inside another
            value = _located(value, catalogue, folder)
        elif isinstance(value, str) and key in known and is_file(known[key].annotation):
            value = str((folder / value).resolve())
        absolute[key] = value
    return absolute


@kinds_checked
def settings(build: Build) -> dict[str, inspect.Parameter]:
    """The arguments of a builder that a configuration can set, with their types and defaults."""
    return parameters(build, Context(kinds=_kinds()))


@kinds_checked
def as_written(value: Any) -> Any:
    """A value as in a configuration: arrays as lists, a part as a table with its name."""
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
    # Only for the outermost process: one inside another has its own number of clients (as in clusters).
    process = named(config.availability.model_dump(), catalogue, place, context, defaults={"clients": clients})
    if process.clients != clients:
        raise place.error(f"{process.clients} clients, but the problem has {clients}: both must have the same number")
    return process


def _clock(written: dict[str, Any], clients: int, place: Place, context: Context) -> Clock:
    devices = written.get("devices")
    if isinstance(devices, dict) and devices.get("name") == "tiers":
        written = written | {"devices": {"clients": clients, **devices}}
    built = call(Clock, written, place, context)
    try:
        return built.fit(clients)
    except FedtideError as error:
        raise place.error(str(error)) from error


def _method(choice: MethodChoice, place: Place, context: Context) -> Method:
    parts = {kind: choice.arguments[kind] for kind in _PARTS if kind in choice.arguments}
    own = ("label", "local", "tune", *_PARTS)
    method = named(choice.model_dump(), _builders(methods.CATALOGUE), place, context, own)
    for kind, table in parts.items():
        replaced = {kind: named(table, context.kinds[_PARTS[kind][0]], place.key(kind), context)}
        method = methods.compose(method, **replaced)
    return method


def _work(every: LocalTable, mine: LocalTable | None, sizes: Array, place: Place) -> types.Work | None:
    """[local], overridden key by key by the method's table; None, for the method's default, if neither is given."""
    own = mine.model_dump(exclude_none=True) if mine else {}
    shared = every.model_dump(exclude_none=True)
    if own.keys() & {"steps", "epochs"}:
        shared = {key: value for key, value in shared.items() if key not in ("steps", "epochs")}
    written = shared | own
    if not written:
        return None
    place = place.key("local") if own else Place(place.source, "local")
    batch = written.get("batch", 32)
    count = written.get("steps", written.get("epochs", 5))
    if {"steps", "epochs"} <= written.keys():
        raise place.error("steps and epochs are mutually exclusive; give one")
    if not isinstance(count, int) and batch == "all":
        raise place.error('batch = "all" requires a single number of steps for all clients')
    try:
        if isinstance(count, dict):
            return (RandomEpochs if "epochs" in written else RandomSteps)(**count, batch=batch)
        if isinstance(count, tuple):
            work = StepsPerClient(jnp.array(count, int), batch)
            return work.fit(np.asarray(sizes))  # checks that there is one number per client
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
"""The parts of a method that its table may replace: their kind, and the package that contains them."""


def _kinds() -> dict[Any, dict[str, Build]]:
    kinds = {kind: _classes(package) for kind, package in _PARTS.values()}
    return {
        **kinds,
        types.Schedule: _classes(schedules),
        types.Staleness: _classes(staleness),
        Devices: DEVICES,
        Barrier: BARRIERS,
        Jitter: JITTERS,
        Process: _builders(availability.CATALOGUE),
        Partitioner: _builders(partitioners.CATALOGUE),
        # The data determine the shape of a sample and the number of classes; the table contains the other arguments.
        problems.ModelBuilder: {name: deferred(build, "inputs", "classes") for name, build in MODELS.items()},
    }


def _builders(catalogue: Mapping[str, Any]) -> dict[str, Build]:
    return {name: entry.build for name, entry in catalogue.items()}


def _classes(package: ModuleType) -> dict[str, Build]:
    """The parts of a package by their names in configurations: `most_available` for `MostAvailable`."""
    members = {name: getattr(package, name) for name in package.__all__}
    return {re.sub(r"(?<!^)(?=[A-Z])", "_", n).lower(): v for n, v in members.items() if isinstance(v, type)}
