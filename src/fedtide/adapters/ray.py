"""A run spread over a Ray cluster: a task for each method and block of seeds, joined into the records of a local run.

Each task keeps its own checkpoints in the run's folder, which all machines must see. All tasks take the stretches, the
capacity of cohorts and the chunk of the whole run, and on a CPU a replica gives the same bits whoever runs beside it:
so blocks change no number there. On a GPU the seeds of a method run together in one program, whose rounding may depend
on how many they are; there all seeds of a method are one task unless told otherwise.
"""

import functools
import importlib.util
import logging
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedtide.adapters import ray_tasks
from fedtide.errors import FedtideError, require, whole
from fedtide.experiments.config import Config
from fedtide.methods import find
from fedtide.simulation.blocks import in_blocks, of_all_seeds, place_of, read_blocks, rounds_done
from fedtide.simulation.folder import close_folder, held
from fedtide.simulation.progress import Progress
from fedtide.simulation.result import Result, write_about

log = logging.getLogger("fedtide")

_LOOK = 0.25  # seconds between two looks at how far the tasks are
_RETRIES = 3  # a worker that dies is replaced; its task goes on from its checkpoint


class Share(NamedTuple):
    """What a task gets. `seeds` None: about two tasks for each that can run at once, or on GPUs all seeds of a method.
    `gpus` None: one where the cluster has some and JAX can use them."""

    seeds: int | None = None
    cpus: float = 1.0
    gpus: float | None = None


def simulate_on_ray(
    config: Config,
    out: Path | str,
    *,
    share: Share | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    about: dict[str, Any] | None = None,
) -> Result:
    """Runs a configuration on the Ray cluster of RAY_ADDRESS, or on a local Ray that ends with the run.

    Args:
      config: what to run; files that it names must be on every machine, under the same names.
      out: a folder for records and checkpoints that every machine sees.
      share: what each task gets (default: one CPU; resumed, as before).
      resume: go on from the checkpoints in `out`, with the blocks the run began with.
      progress: a function (label, rounds done, rounds in all), called several times a second; what it raises stops the
        tasks and keeps their checkpoints.
      about: further entries of `Result.about`.
    """
    begun = time.monotonic()
    labels = [choice.label or find(choice.name).title for choice in config.methods]
    folder = Path(out).resolve()
    kept = read_blocks(folder) if resume else {}
    share = share or Share(cpus=kept.get("cpus", 1.0), gpus=kept.get("gpus"))
    _check(share)
    hear = progress or (lambda label, done, total: None)
    with ExitStack() as until_closed, _cluster() as ray:
        gpus = _gpus(ray) if share.gpus is None else share.gpus
        resources = {"cpus": share.cpus, "gpus": gpus}
        workers = _workers(ray, share.cpus, gpus)
        size = _seeds_each(config, share.seeds, workers, gpus > 0)
        if resume:  # a run that began in one process has all seeds in one block
            size = kept.get("seeds", _count(config))
        text, source, origin = config.origin
        spec = ray_tasks.Spec(text, source, str(origin.resolve()), str(folder), max(1, int(share.cpus)))
        options = {"num_cpus": share.cpus, "num_gpus": gpus} | _environment(gpus)

        def submit(retries: int, function: Callable[..., Any], *arguments: Any) -> Any:
            return ray.remote(function).options(max_retries=retries, **options).remote(*arguments)

        blocks = in_blocks(range(_count(config)), size)
        tell = functools.partial(_tell, hear, folder, labels, blocks, config.run.rounds)
        until_closed.enter_context(held(folder, resume))  # by the driver, for all workers, which end with it
        first = submit(0, ray_tasks.prepare, spec, size, {"on": "ray", **resources}, about or {}, resume)
        (plan,) = _results(ray, [first], lambda found: tell())
        facts = plan.facts
        if not (folder / "run.json").exists():
            raise FedtideError(f"{folder}: a worker wrote it, but it is not here: {ray_tasks.SHARED}")
        earlier = facts["seconds"]
        # Block by block and in each the methods: workers of a machine then find each other's compiled programs.
        jobs = [(number, block) for block in range(len(blocks)) for number in range(len(labels))]
        counts = (len(jobs), len(labels), len(blocks), workers)
        log.info("%d tasks: %d methods × %d blocks of seeds, %d at a time", *counts)
        tasks = [submit(_RETRIES, ray_tasks.run_block, spec, plan, number, block, size) for number, block in jobs]
        ended: set[int] = set()

        def look(found: dict[int, Any]) -> None:
            if len(found) > len(ended):
                ended.update(found)
                facts["seconds"] = round(earlier + time.monotonic() - begun, 2)
                write_about(folder, facts)
            tell()

        found = dict(zip(jobs, _results(ray, tasks, look), strict=True))
        models = {
            label: np.concatenate([found[number, block] for block in range(len(blocks))])
            for number, label in enumerate(labels)
        }
        facts["seconds"] = round(earlier + time.monotonic() - begun, 2)
        facts["finished"] = True
        return close_folder(folder, facts, models)


@contextmanager
def _cluster() -> Iterator[Any]:
    """Ray: as the process has it, else the cluster of RAY_ADDRESS, else one of this machine; what starts here ends."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        ray: Any = import_module("ray")  # by name: where it is missing, type checkers would take this module for it
    except ModuleNotFoundError:
        raise FedtideError("a run on Ray needs pip install 'fedtide[ray]'") from None
    if ray.is_initialized():
        yield ray
        return
    address = os.environ.get("RAY_ADDRESS") or "local"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        here: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **here)
        except Exception as error:  # Ray raises this very class where a busy machine starts it too slowly
            raise FedtideError(f"Ray at '{address}' cannot be used: {_line(error)}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _results(ray: Any, tasks: Sequence[Any], look: Callable[[dict[int, Any]], None]) -> list[Any]:
    """What the tasks return; `look` hears again and again of those that have ended. An error stops all of them."""
    number = {task: i for i, task in enumerate(tasks)}
    found: dict[int, Any] = {}
    waiting = list(tasks)
    try:
        while waiting:
            begun = time.monotonic()
            look(found)
            pause = max(_LOOK, 10 * (time.monotonic() - begun))  # on slow storage a look takes long
            done, waiting = ray.wait(waiting, num_returns=1, timeout=pause)
            for task in done:
                found[number[task]] = _value(ray, task)
        look(found)
    finally:
        for task in waiting:
            ray.cancel(task, force=True)  # checkpoints are whole at any moment
    return [found[i] for i in range(len(tasks))]


def _value(ray: Any, task: Any) -> Any:
    """What a task returned, or its error in one line."""
    try:
        value = ray.get(task)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, ModuleNotFoundError) or "failed to import on the worker" in str(error):
            reason = f"a worker cannot import what it runs ({_line(error.cause)})"
            raise FedtideError(f"{reason}: fedtide must be on every machine") from None
        raise
    except ray.exceptions.RayError as error:
        raise FedtideError(f"a worker was lost, and so were those in its place ({_line(error)})") from None
    if isinstance(value, ray_tasks.Failure):
        value.throw()
    return value


def _tell(hear: Progress, folder: Path, labels: Sequence[str], blocks: Sequence[Sequence[int]], rounds: int) -> None:
    """How far each method is that has begun, from the records that are there."""
    for number, label in enumerate(labels):
        done = [rounds_done(place_of(folder, number, block, len(blocks))) for block in range(len(blocks))]
        if number == 0 or any(d is not None for d in done):
            hear(label, of_all_seeds(blocks, (d or 0 for d in done)), rounds)


def _check(share: Share) -> None:
    if share.seeds is not None:
        whole("seeds-per-task", share.seeds, 1)
    require(share.cpus > 0 and math.isfinite(share.cpus), "cpus-per-task", share.cpus, "a positive number")
    gpus = share.gpus
    good = gpus is None or 0 <= gpus <= 1 or (gpus == int(gpus) and math.isfinite(gpus))
    require(good, "gpus-per-task", gpus, "0, a part of one, or a whole number")


def _count(config: Config) -> int:
    seeds = config.run.seeds
    return seeds if isinstance(seeds, int) else len(seeds)


def _seeds_each(config: Config, asked: int | None, workers: int, gpu: bool) -> int:
    """Seeds of a task: as asked, else so many that each worker gets about two tasks."""
    seeds = _count(config)
    if asked is not None:
        return min(asked, seeds)
    if gpu:
        return seeds
    blocks = min(seeds, -(-2 * workers // len(config.methods)))
    return -(-seeds // blocks)


def _gpus(ray: Any) -> float:
    usable = any(importlib.util.find_spec(f"jax_cuda{version}_plugin") for version in (12, 13))
    return 1.0 if usable and ray.cluster_resources().get("GPU", 0) >= 1 else 0.0


def _workers(ray: Any, cpus: float, gpus: float) -> int:
    """Tasks that can run at once."""
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]

    def fit(machine: dict[str, float]) -> int:
        by_gpu = machine.get("GPU", 0) // gpus if gpus else math.inf
        return int(min(machine.get("CPU", 0) // cpus, by_gpu))

    workers = sum(fit(machine) for machine in machines)
    if workers == 0:
        most = {kind: max((m.get(kind, 0) for m in machines), default=0) for kind in ("CPU", "GPU")}
        wanted = f"{cpus:g} CPUs and {gpus:g} GPUs"
        raise FedtideError(f"no machine has {wanted} for a task: at most {most['CPU']:g} and {most['GPU']:g} in one")
    return workers


def _environment(gpus: float) -> dict[str, Any]:
    """Tasks that share a GPU share its memory, which JAX would otherwise take whole."""
    if not 0 < gpus < 1:
        return {}
    return {"runtime_env": {"env_vars": {"XLA_PYTHON_CLIENT_MEM_FRACTION": f"{0.9 * gpus:.3f}"}}}


def _line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
