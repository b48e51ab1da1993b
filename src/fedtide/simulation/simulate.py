"""`simulate`: methods on one federation, over many seeds, with records one can resume."""

import json
import logging
import shutil
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from fedtide.availability.base import Process
from fedtide.errors import CheckpointError, FedtideError, require
from fedtide.files import atomic, remove_partial
from fedtide.methods.base import Method
from fedtide.simulation import checkpoint, describe, engine, memory
from fedtide.simulation.cache import use_persistent_cache
from fedtide.simulation.progress import Progress, reporter
from fedtide.simulation.records import Columns, client_frame, client_rows, initial_rows, round_frame, round_rows
from fedtide.simulation.result import Result, read_about, write_about
from fedtide.simulation.setup import Setup, batch, fitted, labelled
from fedtide.simulation.traces import Span

if TYPE_CHECKING:
    import polars

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
      FedtideError: an argument cannot be used, the run would not fit into memory, or a checkpoint is not of this run.
    """
    use_persistent_cache()
    begun = time.monotonic()
    require(not resume or out is not None, "out", out, "the folder of the run to resume")
    named = {label: fitted(method, problem) for label, method in labelled(methods).items()}
    with reporter(progress, named, rounds) as report:
        setup = Setup(
            problem, availability, named, rounds=rounds, seeds=seeds, evaluate_every=evaluate_every, history=history,
            record_clients=record_clients, chunk=chunk,
        )  # fmt: skip
        folder = None if out is None else Path(out)
        before = read_about(folder) if folder is not None and resume else {}
        # The chunk depends on the memory of the moment and moves the last bits: a resumed run keeps its own.
        chunks = before.get("chunks") or {label: setup.choose_chunk(method) for label, method in named.items()}
        facts = _facts(setup, named, chunks, about or {})
        if folder is not None:
            _open_folder(folder, facts, before)
        facts |= {"memory": {label: need.total for label, need in _fitting(setup, named, chunks).items()}}
        parts: tuple[list[Columns], list[Columns]] = ([], [])
        models = {}
        for number, (label, method) in enumerate(named.items()):
            place = None if folder is None else folder / "checkpoints" / f"{number:03d}"
            run = _Run(setup, label, method, chunks[label], place)
            models[label] = run.to_end(report)
            facts["warnings"] += run.warnings
            for kept, new in zip(parts, run.parts, strict=True):
                kept.extend(new)
            facts["seconds"] = round(before.get("seconds", 0.0) + time.monotonic() - begun, 2)
            if folder is not None:
                write_about(folder, facts)
    facts["finished"] = True
    if folder is None:
        return Result(facts, models, *parts)
    return _close_folder(folder, facts, models)


def _fitting(
    setup: Setup, methods: Mapping[str, Method], chunks: Mapping[str, int | None]
) -> dict[str, memory.Estimate]:
    """Each method's memory; raises `DoesNotFit` where one would not fit."""
    needs = {label: setup.fitting(label, method, chunks[label]) for label, method in methods.items()}
    available = memory.device_memory()
    largest = max(needs.values(), key=lambda need: need.total)
    log.info("memory: about %s of %s", largest, memory.readable(available) if available else "unknown")
    return needs


def _facts(
    setup: Setup, methods: Mapping[str, Method], chunks: Mapping[str, int | None], about: Mapping[str, Any]
) -> dict[str, Any]:
    """`Result.about`, with what the caller adds one level deep: {"problem": {"name": …}} keeps the problem's size."""
    facts = {
        "title": "Simulation",
        "command": None,
        "config": None,
        "versions": describe.versions(),
        "hardware": describe.hardware(),
        "seeds": setup.seed_list,
        "rounds": setup.rounds,
        "evaluate_every": setup.evaluate_every,
        "history": setup.history,
        "record_clients": setup.record_clients,
        "problem": describe.describe_problem(setup.problem, setup.population, setup.parameters),
        "availability": describe.describe_availability(setup.availability),
        "importance": [float(a) for a in np.asarray(setup.population.importance)],
        "methods": [
            describe.describe_method(label, method, setup.state(method), len(setup.population.sizes), setup.parameters)
            for label, method in methods.items()
        ],
        "chunks": dict(chunks),
        "finished": False,
        "seconds": 0.0,
        "warnings": [],
    }
    for key, value in about.items():
        facts[key] = facts[key] | value if isinstance(facts.get(key), dict) else value
    return json.loads(json.dumps(facts))  # plain data: what a file gives back is equal to it


_SAME = ("seeds", "rounds", "evaluate_every", "history", "record_clients", "problem", "importance", "methods")


def _open_folder(folder: Path, facts: dict[str, Any], before: dict[str, Any]) -> None:
    """Begins a run's folder, or checks that the one to resume, described by `before`, is of this run."""
    if before:
        if before["finished"]:
            raise FedtideError(f"{folder}: this run has finished; there is nothing to resume")
        for key in _SAME:
            if before.get(key) != facts[key]:
                change = f"{key} was {before.get(key)!r:.60}, is {facts[key]!r:.60}"
                raise CheckpointError(f"{folder}: belongs to another run: {change}")
        remove_partial(folder)
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FedtideError(f"{folder}: exists and is not empty; choose another folder, or resume the run that is there")
    write_about(folder, facts)


def _close_folder(folder: Path, facts: dict[str, Any], models: dict[str, np.ndarray]) -> Result:
    """Joins the stretches' records into the run's tables; only then are the checkpoints removed."""
    import polars as pl

    tables = []
    for name in ("rounds", "clients"):
        files = sorted((folder / "checkpoints").glob(f"*/{name}-*.parquet"))
        tables.append(pl.concat([_read(file) for file in files]) if files else pl.DataFrame())
    # From the tables, not from the runs: a method that was finished before an interruption did not run again.
    bad = tables[0].filter(pl.col("objective").is_not_null() & ~pl.col("objective").is_finite())
    first = bad.group_by("method", "seed", maintain_order=True).agg(pl.col("round").min())
    facts["warnings"] = [_divergence(*row) for row in first.iter_rows()]
    result = Result(facts, models, *tables)
    result.save(folder)
    shutil.rmtree(folder / "checkpoints")
    return result


class _Run:
    """One method, stretch by stretch."""

    def __init__(self, setup: Setup, label: str, method: Method, chunk: int | None, place: Path | None):
        self.setup, self.label, self.method, self.chunk, self.place = setup, label, method, chunk, place
        self.parts: tuple[list[Columns], list[Columns]] = ([], [])
        self._diverged: dict[int, int] = {}  # seed: the first round whose evaluation was not finite

    @property
    def warnings(self) -> list[str]:
        return [_divergence(self.label, seed, round_) for seed, round_ in sorted(self._diverged.items())]

    def to_end(self, report: Progress) -> np.ndarray:
        """Runs what is left; returns the final models [R, d]."""
        setup = self.setup
        method = batch([self.method])
        carry = engine.start(method, setup.problem, setup.population, setup.seeds, setup.traces.past, setup.history)
        done, run = 0, ""
        if self.place is not None:
            parts = (method, setup.problem, setup.population, setup.seeds, setup.plan, setup.availability)
            run = checkpoint.fingerprint(*parts)
            if (self.place / "state.safetensors").exists():
                saved = checkpoint.load(self.place / "state.safetensors", carry, run)
                carry, done = jax.tree.map(jnp.asarray, saved.carry), saved.rounds
                self._check_parts(done)
        if done == 0:
            evaluation, _ = engine.evaluate(setup.problem, setup.population, carry.w)
            self._keep(initial_rows(self.label, setup.seed_list, _first(evaluation)), {}, 0)
        report(self.label, done, setup.rounds)
        carry = engine.spread(carry, setup.devices)
        for span in setup.plan:
            if span.first < done:
                continue
            trace = setup.traces[span]
            shape = setup.shape(self.method, span, self.chunk)
            carry, stretch = engine.run_stretch(
                method, setup.problem, setup.population, setup.seeds, carry, np.int32(span.first), trace, shape
            )
            stretch = _first(stretch)
            self._keep(
                round_rows(self.label, setup.seed_list, span, stretch),
                client_rows(self.label, setup.seed_list, span, np.asarray(trace), stretch),
                span.end,
            )
            if span.evaluates:
                self._notice_divergence(span, stretch.evaluation.objective)
            if self.place is not None:
                checkpoint.save(self.place / "state.safetensors", carry, span.end, run)
            report(self.label, span.end, setup.rounds)
        return np.asarray(engine.served(method, carry))[0]

    def _keep(self, rounds: Columns, clients: Columns, end: int) -> None:
        """Keeps a stretch's records: in memory, or on disk where there is a folder."""
        if self.place is None:
            self.parts[0].append(rounds)
            self.parts[1].append(clients)
            return
        for name, frame in (("rounds", round_frame([rounds])), ("clients", client_frame([clients]))):
            if not frame.is_empty():
                with atomic(self.place / f"{name}-{end:08d}.parquet") as temporary:
                    frame.write_parquet(temporary)

    def _check_parts(self, done: int) -> None:
        assert self.place is not None
        expected = [0, *(span.end for span in self.setup.plan if span.end <= done)]
        for end in expected:
            for name in ("rounds", "clients") if end > 0 and self.setup.record_clients else ("rounds",):
                _read(self.place / f"{name}-{end:08d}.parquet")

    def _notice_divergence(self, span: Span, objective: np.ndarray) -> None:
        for seed, values in zip(self.setup.seed_list, objective, strict=True):
            if not np.isfinite(values).all() and seed not in self._diverged:
                self._diverged[seed] = span.first + span.rounds * (1 + int((~np.isfinite(values)).argmax()))
                message = _divergence(self.label, seed, self._diverged[seed])
                warnings.warn(message, RuntimeWarning, stacklevel=4)


def _divergence(label: str, seed: int, round_: int) -> str:
    return f"{label}, seed {seed}: diverged by round {round_} (the loss is not finite); the rest goes on"


def _read(file: Path) -> "polars.DataFrame":
    """A stretch's records; raises `CheckpointError` where they are missing or damaged."""
    import polars as pl

    try:
        return pl.read_parquet(file)
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = "missing" if not file.exists() else f"damaged ({str(error).splitlines()[0]})"
        raise CheckpointError(f"{file}: {reason}, though the checkpoint is past it; the records have a gap") from error


def _first(tree: Any) -> Any:
    """The only setting of a batch of one."""
    return jax.tree.map(lambda a: np.asarray(a)[0], tree)
