"""`simulate`: methods on one federation, over many seeds, with resumable records."""

import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedtide.availability.base import Process
from fedtide.clock import Clock
from fedtide.errors import FedtideError, flag, require
from fedtide.methods.base import Method
from fedtide.simulation import memory
from fedtide.simulation.blocks import blocks_of, of_all_seeds, place_of
from fedtide.simulation.callbacks import Callback, Metrics, entered
from fedtide.simulation.cores import use_persistent_cache
from fedtide.simulation.folder import begin, close_folder, held
from fedtide.simulation.progress import Progress, reporter
from fedtide.simulation.result import Result, write_about
from fedtide.simulation.run import MethodRun
from fedtide.simulation.setup import Setup, check_federation, fitted, labelled
from fedtide.text import readable

log = logging.getLogger("fedtide")


def simulate(
    problem: Any,
    availability: Process,
    methods: Method | Sequence[Method] | Mapping[str, Method],
    *,
    rounds: int,
    seeds: int | Sequence[int] = 1,
    evaluate_every: int = 5,
    history: int = 0,
    record_clients: bool | None = None,
    chunk: int | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool | Progress | None = None,
    callbacks: Callback | Sequence[Callback] = (),
    about: dict[str, Any] | None = None,
    clock: Clock | None = None,
) -> Result:
    """Trains each method on the federation, for every seed, and returns the records.

    All methods get the same availability, minibatches and initial models. All seeds of a method run in one compiled
    program.

    Args:
      problem: clients' data, model and loss (`fedtide.problems`).
      availability: which clients are available (`fedtide.availability`), for as many clients as the problem has.
      methods: one method, several, or {label: method}.
      rounds: communication rounds.
      seeds: the number of seeds, or a list of them.
      evaluate_every: rounds between two evaluations; the last round is always evaluated.
      history: rounds of availability that estimators observe before the first round.
      record_clients: keep the table of rounds × clients (default: unless it would have over 50 million rows).
      chunk: clients trained at a time (default: as many as memory allows). Changes results by rounding at most.
      out: a folder for records and checkpoints, from which an interrupted run can be resumed.
      resume: continue from the checkpoints in `out`; the arguments must be those of the interrupted run.
      overwrite: replace the run that `out` holds, if any; a folder with other files is refused.
      progress: True for a progress bar (default: in a notebook, or if standard error is a terminal), False for none, or
        a function (label, rounds done, total rounds).
      callbacks: one function or several that get `fedtide.simulation.Metrics` after every segment, such as those of
        `fedtide.track`; one that returns True ends the method's training, as `fedtide.early_stopping` does.
      clock: devices, a barrier and the length of a slot of availability (`fedtide.clock`): rounds then take time. By
        default every round takes one step of the availability process, whatever the clients do.
      about: further entries of `Result.about` (title, command, config).

    Raises:
      FedtideError: an argument cannot be used, the run would not fit into memory, another process is running in `out`,
        or a checkpoint is not of this run.
      OSError: a file cannot be written, for instance because the disk is full; the run can be resumed.
    """
    use_persistent_cache()
    begun = time.monotonic()
    check_federation(problem, availability)
    flag("resume", resume)
    flag("overwrite", overwrite)
    require(not (resume and overwrite), "overwrite", overwrite, "False if resume is True")
    require(about is None or isinstance(about, Mapping), "about", about, "a dictionary of further entries")
    require(out is None or isinstance(out, str | os.PathLike), "out", out, "a path")
    require(not resume or out is not None, "out", out, "the folder of the run to resume")
    named = {label: fitted(method, problem) for label, method in labelled(methods).items()}
    folder = None if out is None else Path(out)
    with reporter(progress, named, rounds) as report, entered(callbacks) as notify:
        setup = Setup(
            problem, availability, named, rounds=rounds, seeds=seeds, evaluate_every=evaluate_every, history=history,
            record_clients=record_clients, chunk=chunk, clock=clock,
        )  # fmt: skip
        with held(folder, resume, overwrite):
            facts = begin(folder, setup, named, about or {}, resume, overwrite)
            return _run(setup, named, folder, facts, report, notify, begun)


def _run(
    setup: Setup, methods: Mapping[str, Method], folder: Path | None, facts: dict[str, Any], report: Progress,
    notify: Callback | None, begun: float,
) -> Result:  # fmt: skip
    """Runs the remaining rounds of each method; `facts` become the result's `about`."""
    chunks, earlier = facts["chunks"], facts["seconds"]
    blocks = [setup.seed_list] if folder is None else blocks_of(folder, setup.seed_list)
    if notify is not None and len(blocks) > 1:
        raise FedtideError(f"{folder}: its seeds are divided into blocks; resume it without callbacks")
    ask = None if notify is None else lambda *records: notify(Metrics(*records, about=facts))
    # Several blocks only where the run began with its seeds divided.
    shares = [setup] if len(blocks) == 1 else [setup.share(block, setup.traces.most) for block in blocks]
    _refuse_unfitting(shares[0], methods, chunks)
    rounds, clients = [], []
    models = {}
    for number, (label, method) in enumerate(methods.items()):
        final = []
        for block, share in enumerate(shares):
            place = None if folder is None else place_of(folder, number, block, len(shares))
            run = MethodRun(share, label, method, chunks[label], place, facts["stopped"].get(label), ask)
            final.append(run.to_end(_of_block(report, blocks, block)))
            if run.last < setup.rounds:
                facts["stopped"][label] = run.last
            facts["warnings"] += run.warnings
            rounds += run.rounds
            clients += run.clients
        models[label] = np.concatenate(final)
        facts["seconds"] = round(earlier + time.monotonic() - begun, 2)
        if folder is not None:
            write_about(folder, facts)
    facts["finished"] = True
    if folder is not None:
        return close_folder(folder, facts, models)
    import polars as pl

    return Result(facts, models, pl.concat(rounds), pl.concat(clients))


def _of_block(report: Progress, blocks: Sequence[Sequence[int]], block: int) -> Progress:
    """Reports how far a method is from how far one of its blocks is; those before it have ended."""

    def on_progress(label: str, done: int, total: int) -> None:
        rounds = [total] * block + [done] + [0] * (len(blocks) - block - 1)
        report(label, of_all_seeds(blocks, rounds), total)

    return on_progress


def _refuse_unfitting(setup: Setup, methods: Mapping[str, Method], chunks: Mapping[str, int | None]) -> None:
    """Raises `DoesNotFit` where a method would not fit into memory."""
    needs = [setup.fitting(label, method, chunks[label]) for label, method in methods.items()]
    available = memory.device_memory()
    largest = max(needs, key=lambda need: need.total)
    log.info("memory: about %s of %s", largest, readable(available) if available else "unknown")
