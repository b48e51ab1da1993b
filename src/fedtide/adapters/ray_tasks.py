"""The tasks of a Ray cluster's workers, as plain functions that do not depend on Ray."""

import contextlib
import copy
import functools
import logging
import platform
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import jax
import numpy as np

from fedtide.errors import FedtideError
from fedtide.experiments.build import build
from fedtide.experiments.config import loads
from fedtide.methods.base import Method
from fedtide.simulation import describe
from fedtide.simulation.blocks import Sharing, in_blocks, place_of, write_sharing
from fedtide.simulation.cores import available_cores, use_persistent_cache
from fedtide.simulation.folder import begin
from fedtide.simulation.run import MethodRun
from fedtide.simulation.setup import Setup, fitted

SHARED = "the run's folder must be on storage that all machines of the cluster share"


class Spec(NamedTuple):
    """A run in a form that can be sent to workers."""

    text: str  # the configuration
    source: str  # its name in error messages
    folder: str  # its relative file names are relative to this folder
    out: str
    cores: int  # of a task


class PreparedRun(NamedTuple):
    """What all blocks of a run share."""

    facts: dict[str, Any]
    most: int  # clients available in one round, over all seeds
    backend: str


class Failure(NamedTuple):
    """An expected error as plain data: not every exception can be pickled."""

    message: str
    system: tuple[int, str, str] | None = None  # of an OSError: number, message, file

    def throw(self) -> NoReturn:
        if self.system is not None:
            raise OSError(*self.system)
        raise FedtideError(self.message)


def _reports_errors(task: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(task)
    def guarded(*arguments: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # they are also in the result
                return task(*arguments)
        except FedtideError as error:
            return Failure(str(error))
        except OSError as error:
            if error.errno is None:
                raise
            return Failure(str(error), (error.errno, error.strerror or "", str(error.filename or "")))

    return guarded


@_reports_errors
def prepare(spec: Spec, sharing: Sharing, about: dict[str, Any], resume: bool, overwrite: bool = False) -> PreparedRun:
    """Creates (or checks) the folder as a local run on this kind of hardware would."""
    setup, methods = _experiment(spec)
    setup = copy.copy(setup)
    if jax.default_backend() == "cpu":
        setup.devices = setup.sharing(available_cores())  # the devices that a local run would use
    folder = Path(spec.out)
    if resume:
        _require_folder(folder)
    facts = begin(folder, setup, methods, about, resume, overwrite)
    write_sharing(folder, sharing)
    return PreparedRun(facts, setup.traces.most, jax.default_backend())


@_reports_errors
def run_block(spec: Spec, plan: PreparedRun, number: int, block: int, size: int) -> np.ndarray:
    """Runs one method on one block of seeds, from its checkpoint; returns the models [seeds, d]."""
    folder = Path(spec.out)
    _require_folder(folder)
    setup, methods = _experiment(spec)
    own = {**describe.versions(), "backend": jax.default_backend()}
    for name, begun in {**plan.facts["versions"], "backend": plan.backend}.items():
        if own[name] != begun:
            here = f"{platform.node()} has {name} {own[name]}"
            raise FedtideError(f"{here}, another machine {begun}: results would differ")
    blocks = in_blocks(setup.seed_list, size)
    share = setup.share(blocks[block], plan.most)
    label = list(methods)[number]
    chunk = plan.facts["chunks"][label]
    share.fitting(label, methods[label], chunk)
    place, last = place_of(folder, number, block, len(blocks)), plan.facts["stopped"].get(label)
    run = MethodRun(share, label, methods[label], chunk, place, last)
    return run.to_end(lambda label, done, total: None)


def _require_folder(folder: Path) -> None:
    if not (folder / "run.json").exists():
        raise FedtideError(f"{folder}: missing on {platform.node()}: {SHARED}")


@functools.lru_cache(maxsize=1)
def _experiment(spec: Spec) -> tuple[Setup, dict[str, Method]]:
    """The setup of the whole run, cached between the tasks of a worker."""
    logging.getLogger("fedtide").setLevel(logging.ERROR)
    use_persistent_cache()
    with contextlib.suppress(RuntimeError):  # an earlier task has already initialised JAX
        jax.config.update("jax_num_cpu_devices", spec.cores)
    if not Path(spec.folder).is_dir():
        where = f"{spec.folder}: missing on {platform.node()}"
        raise FedtideError(f"{where}: all machines of the cluster must see the configuration's folder")
    try:
        config = loads(spec.text, spec.source, spec.folder)
        experiment = build(config)
    except FedtideError as error:  # it could be built on the machine that started the run
        raise FedtideError(f"{error} (on {platform.node()}: files and data sets must be on every machine)") from error
    methods = {label: fitted(method, experiment.problem) for label, method in experiment.methods.items()}
    options: dict[str, Any] = config.run.model_dump() | {"clock": experiment.options.get("clock")}
    return Setup(experiment.problem, experiment.availability, methods, **options), methods
