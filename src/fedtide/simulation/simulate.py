"""`simulate`: methods on one federation, over many seeds, with records one can resume."""

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedtide.availability.base import Process
from fedtide.errors import require
from fedtide.methods.base import Method
from fedtide.simulation import memory
from fedtide.simulation.blocks import in_blocks, of_all_seeds, place_of, read_blocks
from fedtide.simulation.cache import use_persistent_cache
from fedtide.simulation.folder import begin, close_folder, held
from fedtide.simulation.progress import Progress, reporter
from fedtide.simulation.records import Columns
from fedtide.simulation.result import Result, write_about
from fedtide.simulation.run import MethodRun
from fedtide.simulation.setup import Setup, fitted, labelled

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
    progress: bool | Progress = False,
    about: dict[str, Any] | None = None,
) -> Result:
    """Trains each method on the federation, for every seed, and returns the records.

    All methods meet the same availability, minibatches and initial models. All seeds of a method run in one compiled
    program.

    Args:
      problem: clients' data, model and loss (`fedtide.problems`).
      availability: who is there (`fedtide.availability`), for as many clients as the problem has.
      methods: one method, several, or {label: method}.
      rounds: communication rounds.
      seeds: how many seeds, or which.
      evaluate_every: rounds between two evaluations; the last round is always evaluated.
      history: rounds of availability that estimators observe before the first round.
      record_clients: keep the table of rounds × clients (default: unless it would be huge).
      chunk: clients trained at a time (default: as many as memory allows). Changes results by rounding at most.
      out: a folder for records and checkpoints. With it, a killed run can be resumed.
      resume: go on from the checkpoints in `out`; the arguments must be those of the interrupted run.
      progress: True for a progress bar, or a function (label, rounds done, rounds in all).
      about: further entries of `Result.about` (title, command, config).

    Raises:
      FedtideError: an argument cannot be used, the run would not fit into memory, another process is running in `out`,
        or a checkpoint is not of this run.
      OSError: a file cannot be written, for instance because the disk is full; the run can be resumed.
    """
    use_persistent_cache()
    begun = time.monotonic()
    require(not resume or out is not None, "out", out, "the folder of the run to resume")
    named = {label: fitted(method, problem) for label, method in labelled(methods).items()}
    folder = None if out is None else Path(out)
    with reporter(progress, named, rounds) as report:
        setup = Setup(
            problem, availability, named, rounds=rounds, seeds=seeds, evaluate_every=evaluate_every, history=history,
            record_clients=record_clients, chunk=chunk,
        )  # fmt: skip
        with held(folder, resume):
            facts = begin(folder, setup, named, about or {}, resume)
            return _run(setup, named, folder, facts, report, begun)


def _run(
    setup: Setup, methods: Mapping[str, Method], folder: Path | None, facts: dict[str, Any], report: Progress,
    begun: float,
) -> Result:  # fmt: skip
    """Runs what is left of each method; `facts` become the result's."""
    chunks, earlier = facts["chunks"], facts["seconds"]
    apart = {} if folder is None else read_blocks(folder)
    shares = _shares(setup, apart.get("seeds", len(setup.seed_list)))
    _refuse_unfitting(shares[0], methods, chunks)
    parts: tuple[list[Columns], list[Columns]] = ([], [])
    models = {}
    for number, (label, method) in enumerate(methods.items()):
        found = []
        for block, share in enumerate(shares):
            place = None if folder is None else place_of(folder, number, block, len(shares))
            run = MethodRun(share, label, method, chunks[label], place)
            found.append(run.to_end(_of_block(report, shares, block)))
            facts["warnings"] += run.warnings
            for kept, new in zip(parts, run.parts, strict=True):
                kept.extend(new)
        models[label] = np.concatenate(found)
        facts["seconds"] = round(earlier + time.monotonic() - begun, 2)
        if folder is not None:
            write_about(folder, facts)
    facts["finished"] = True
    return Result(facts, models, *parts) if folder is None else close_folder(folder, facts, models)


def _shares(setup: Setup, size: int) -> list[Setup]:
    """The setup of each block of seeds: one, unless the run began where its seeds were apart."""
    blocks = in_blocks(setup.seed_list, size)
    return [setup] if len(blocks) == 1 else [setup.share(block, setup.traces.most) for block in blocks]


def _of_block(report: Progress, shares: Sequence[Setup], block: int) -> Progress:
    """Tells how far a method is where one of its blocks is that far; those before it have ended."""
    blocks = [share.seed_list for share in shares]

    def hear(label: str, done: int, total: int) -> None:
        so_far = [total if i < block else done if i == block else 0 for i in range(len(blocks))]
        report(label, of_all_seeds(blocks, so_far), total)

    return hear


def _refuse_unfitting(setup: Setup, methods: Mapping[str, Method], chunks: Mapping[str, int | None]) -> None:
    """Raises `DoesNotFit` where a method would not fit into memory."""
    needs = [setup.fitting(label, method, chunks[label]) for label, method in methods.items()]
    available = memory.device_memory()
    largest = max(needs, key=lambda need: need.total)
    log.info("memory: about %s of %s", largest, memory.readable(available) if available else "unknown")
