"""A run distributed over a Ray cluster: one task per method and block of seeds, joined into the records of a local run.

Each task writes its own checkpoints to the run's folder, which must be on storage that all machines share. All tasks
use the segments, the capacity of cohorts and the chunk of the whole run. On a CPU the result of a replica does not
depend on the other replicas of its program, so splitting seeds into blocks does not change any number. On a GPU the
rounding of a program may depend on its number of seeds, so by default all seeds of a method are one task.
"""

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
from fedtide.simulation.blocks import Sharing, in_blocks, of_all_seeds, place_of, read_sharing, rounds_done
from fedtide.simulation.folder import close_folder, held
from fedtide.simulation.progress import Progress
from fedtide.simulation.result import Result, write_about

log = logging.getLogger("fedtide")

_PROGRESS_SECONDS = 0.25  # between two updates of the progress
_RETRIES = 3  # of a task whose worker died; it resumes from its checkpoint


class Share(NamedTuple):
    """The resources of a task. `seeds` None: about two tasks per parallel slot, or on GPUs all seeds of a method.
    `gpus` None: one if the cluster has GPUs that JAX can use."""

    seeds: int | None = None
    cpus: float = 1.0
    gpus: float | None = None


def simulate_on_ray(
    config: Config,
    out: Path | str,
    *,
    share: Share | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
    about: dict[str, Any] | None = None,
) -> Result:
    """Runs a configuration on the Ray cluster of RAY_ADDRESS, or on a local Ray that ends with the run.

    Args:
      config: the experiment; its files must be on every machine, under the same names.
      out: a folder for records and checkpoints, on storage that all machines share.
      share: the resources of each task (default: one CPU; when resuming, as before).
      resume: continue from the checkpoints in `out`, with the blocks of the original run.
      overwrite: replace the run that `out` holds, if any.
      progress: a function (label, rounds done, total rounds), called several times per second; an exception that it
        raises stops the tasks, whose checkpoints are kept.
      about: further entries of `Result.about`.
    """
    begun = time.monotonic()
    labels = [choice.label or find(choice.name).title for choice in config.methods]
    folder = Path(out).resolve()
    kept = read_sharing(folder, _count(config)) if resume else Sharing(_count(config))
    share = share or Share(cpus=kept.cpus, gpus=kept.gpus)
    _check(share)
    on_progress = progress or (lambda label, done, total: None)
    with ExitStack() as until_closed, _cluster() as ray:
        gpus = _gpus(ray) if share.gpus is None else share.gpus
        workers = _workers(ray, share.cpus, gpus)
        # A run that was started in one process has all seeds in one block.
        size = kept.seeds if resume else _seeds_each(config, share.seeds, workers, gpus > 0)
        sharing = Sharing(size, "ray", share.cpus, gpus)
        text, source, origin = config.origin
        spec = ray_tasks.Spec(text, source, str(origin.resolve()), str(folder), max(1, int(share.cpus)))
        options = {"num_cpus": share.cpus, "num_gpus": gpus} | _environment(gpus)

        def submit(retries: int, function: Callable[..., Any], *arguments: Any) -> Any:
            return ray.remote(function).options(max_retries=retries, **options).remote(*arguments)

        blocks = in_blocks(range(_count(config)), size)

        def report() -> None:
            """Reports the progress of all methods that have begun, from their records."""
            for number, label in enumerate(labels):
                done = [rounds_done(place_of(folder, number, block, len(blocks))) for block in range(len(blocks))]
                if number == 0 or any(d is not None for d in done):
                    on_progress(label, of_all_seeds(blocks, (d or 0 for d in done)), config.run.rounds)

        until_closed.enter_context(held(folder, resume, overwrite))  # by the driver; workers end with it
        first = submit(0, ray_tasks.prepare, spec, sharing, about or {}, resume, overwrite)
        (plan,) = _results(ray, [first], lambda results: report())
        facts = plan.facts
        if not (folder / "run.json").exists():
            raise FedtideError(f"{folder}: written by a worker, but not visible on this machine: {ray_tasks.SHARED}")
        earlier = facts["seconds"]
        # Block by block, and the methods of a block in order: workers of one machine then share compiled programs.
        jobs = [(number, block) for block in range(len(blocks)) for number in range(len(labels))]
        counts = len(jobs), len(labels), len(blocks), workers
        log.info("%d tasks: %d methods × %d blocks of seeds, %d at a time", *counts)
        tasks = [submit(_RETRIES, ray_tasks.run_block, spec, plan, number, block, size) for number, block in jobs]
        ended: set[int] = set()

        def update(results: dict[int, Any]) -> None:
            if len(results) > len(ended):
                ended.update(results)
                facts["seconds"] = round(earlier + time.monotonic() - begun, 2)
                write_about(folder, facts)
            report()

        trained = dict(zip(jobs, _results(ray, tasks, update), strict=True))
        models = {
            label: np.concatenate([trained[number, block] for block in range(len(blocks))])
            for number, label in enumerate(labels)
        }
        facts["finished"] = True
        return close_folder(folder, facts, models)


@contextmanager
def _cluster() -> Iterator[Any]:
    """Ray as initialised by the process, else the cluster of RAY_ADDRESS, else a local one; ends what it started."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        ray: Any = import_module("ray")  # by name: if Ray is missing, type checkers would resolve it to this module
    except ModuleNotFoundError:
        raise FedtideError("a run on Ray needs pip install 'fedtide[ray]'") from None
    if ray.is_initialized():
        yield ray
        return
    address = os.environ.get("RAY_ADDRESS") or "local"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        options: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)
        except Exception as error:  # Ray raises Exception itself if a busy machine starts it too slowly
            raise FedtideError(f"Ray at '{address}' cannot be used: {_line(error)}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _results(ray: Any, tasks: Sequence[Any], update: Callable[[dict[int, Any]], None]) -> list[Any]:
    """The results of the tasks. `update` is called repeatedly with those so far. An error stops all tasks."""
    number = {task: i for i, task in enumerate(tasks)}
    results: dict[int, Any] = {}
    waiting = list(tasks)
    try:
        while waiting:
            begun = time.monotonic()
            update(results)
            pause = max(_PROGRESS_SECONDS, 10 * (time.monotonic() - begun))  # on slow storage an update takes long
            done, waiting = ray.wait(waiting, num_returns=1, timeout=pause)
            for task in done:
                results[number[task]] = _value(ray, task)
        update(results)
    finally:
        for task in waiting:
            ray.cancel(task, force=True)  # checkpoints are written atomically
    return [results[i] for i in range(len(tasks))]


def _value(ray: Any, task: Any) -> Any:
    """The result of a task; raises its error as one line."""
    try:
        value = ray.get(task)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, ModuleNotFoundError) or "failed to import on the worker" in str(error):
            reason = f"a worker cannot import what it runs ({_line(error.cause)})"
            raise FedtideError(f"{reason}: fedtide must be on every machine") from None
        raise
    except ray.exceptions.RayError as error:
        raise FedtideError(f"a worker was lost, and so were its replacements ({_line(error)})") from None
    if isinstance(value, ray_tasks.Failure):
        value.throw()
    return value


def _check(share: Share) -> None:
    if share.seeds is not None:
        whole("seeds-per-task", share.seeds, 1)
    require(share.cpus > 0 and math.isfinite(share.cpus), "cpus-per-task", share.cpus, "a positive number")
    gpus = share.gpus
    good = gpus is None or 0 <= gpus <= 1 or (gpus == int(gpus) and math.isfinite(gpus))
    require(good, "gpus-per-task", gpus, "0, a fraction below 1, or a whole number")


def _count(config: Config) -> int:
    seeds = config.run.seeds
    return seeds if isinstance(seeds, int) else len(seeds)


def _seeds_each(config: Config, given: int | None, workers: int, gpu: bool) -> int:
    """Seeds per task: as given, else such that there are about two tasks per worker."""
    seeds = _count(config)
    if given is not None:
        return min(given, seeds)
    if gpu:
        return seeds
    blocks = min(seeds, -(-2 * workers // len(config.methods)))
    return -(-seeds // blocks)


def _gpus(ray: Any) -> float:
    usable = any(importlib.util.find_spec(f"jax_cuda{version}_plugin") for version in (12, 13))
    return 1.0 if usable and ray.cluster_resources().get("GPU", 0) >= 1 else 0.0


def _workers(ray: Any, cpus: float, gpus: float) -> int:
    """The number of tasks that can run in parallel."""
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
    """Limits the memory of tasks that share a GPU; JAX would otherwise allocate all of it."""
    if not 0 < gpus < 1:
        return {}
    return {"runtime_env": {"env_vars": {"XLA_PYTHON_CLIENT_MEM_FRACTION": f"{0.9 * gpus:.3f}"}}}


def _line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
