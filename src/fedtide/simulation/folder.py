"""A run's folder: what it says of the run, who has it, how it begins, how it ends."""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtide.errors import CheckpointError, FedtideError, number, require, whole
from fedtide.files import alone, remove_partial, vacant
from fedtide.methods.base import Method
from fedtide.simulation import describe
from fedtide.simulation.blocks import in_blocks, part_files, read_blocks, refuse_strays
from fedtide.simulation.records import client_frame
from fedtide.simulation.result import Result, read_about, write_about
from fedtide.simulation.run import divergence
from fedtide.simulation.setup import Setup

if TYPE_CHECKING:
    import polars

_SAME = ("seeds", "rounds", "evaluate_every", "history", "record_clients", "problem", "importance", "methods")


@contextmanager
def held(folder: Path | None, resume: bool) -> Iterator[None]:
    """Keeps a run's folder to this process. What cannot be begun or resumed is refused before anything is touched."""
    if folder is None:
        yield
        return
    if resume:
        read_about(folder)
    else:
        _refuse_occupied(folder)
    with alone(folder, "another process is running in it"):
        yield


def begin(
    folder: Path | None, setup: Setup, methods: Mapping[str, Method], about: Mapping[str, Any], resume: bool
) -> dict[str, Any]:
    """What is said of a run. Its folder, which must be held, begins with it, or is checked to be of this run."""
    facts = _facts(setup, methods, about)
    before: dict[str, Any] = {}
    if folder is not None and resume:
        before = _before(folder, facts)
        remove_partial(folder)
        blocks = in_blocks(setup.seed_list, read_blocks(folder).get("seeds", len(setup.seed_list)))
        ends = [span.end for span in setup.plan]
        refuse_strays(folder, len(methods), len(blocks), ends, setup.record_clients)
    # The chunk depends on the memory of the moment and moves the last bits: a resumed run keeps its own.
    chunks = before.get("chunks") or {label: setup.choose_chunk(method) for label, method in methods.items()}
    facts["chunks"] = chunks
    facts["memory"] = {label: setup.memory(method, chunks[label]).total for label, method in methods.items()}
    facts["seconds"] = before.get("seconds", 0.0)
    if folder is not None and not resume:
        _refuse_occupied(folder)  # again: another run may have begun and ended there since
        remove_partial(folder)
        write_about(folder, facts)
    return facts


def _facts(setup: Setup, methods: Mapping[str, Method], about: Mapping[str, Any]) -> dict[str, Any]:
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
        "finished": False,
        "warnings": [],
    }
    for key, value in about.items():
        facts[key] = facts[key] | value if isinstance(facts.get(key), dict) else value
    return json.loads(json.dumps(facts))  # plain data: what a file gives back is equal to it


def _before(folder: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """What the folder says of the run to resume, which must be this one; a finished run's clean-up is finished."""
    before = read_about(folder)
    if before["finished"]:
        remove_checkpoints(folder)
        raise FedtideError(f"{folder}: this run has finished; there is nothing to resume")
    for key in _SAME:
        if before.get(key) != facts[key]:
            change = f"{key} was {before.get(key)!r:.60}, is {facts[key]!r:.60}"
            raise CheckpointError(f"{folder}: belongs to another run: {change}")
    try:
        chunks = before.get("chunks")
        labels = {method["label"] for method in facts["methods"]}
        require(isinstance(chunks, dict) and chunks.keys() == labels, "chunks", chunks, "one for each method")
        for label, chunk in before["chunks"].items():
            if chunk is not None:
                whole(f"chunks.{label}", chunk, 1)
        number("seconds", before.get("seconds"), low=0)
    except ValueError as error:
        raise CheckpointError(f"{folder / 'run.json'}: damaged ({error})") from error
    return before


def _refuse_occupied(folder: Path) -> None:
    if not vacant(folder):
        raise FedtideError(f"{folder}: exists and is not empty; choose another folder, or resume the run that is there")


def close_folder(folder: Path, facts: dict[str, Any], models: dict[str, np.ndarray]) -> Result:
    """Joins the stretches' records into the run's tables; only once all is written are the checkpoints removed."""
    import polars as pl

    tables = []
    for name in ("rounds", "clients"):
        files = part_files(folder, name)
        tables.append(pl.concat([_records(file) for file in files]) if files else client_frame([]))
    _refuse_gaps(folder, facts, *tables)
    # From the tables, not from the runs: a method that was finished before an interruption did not run again.
    bad = tables[0].filter(pl.col("objective").is_not_null() & ~pl.col("objective").is_finite())
    first = bad.group_by("method", "seed", maintain_order=True).agg(pl.col("round").min())
    facts["warnings"] = [divergence(*row) for row in first.iter_rows()]
    result = Result(facts, models, *tables)
    result.save(folder)  # its last step says that the run has finished
    remove_checkpoints(folder)
    return result


def remove_checkpoints(folder: Path) -> None:
    """Removes from a finished run's folder, which must be held, all that only a run on its way needs."""
    remove_partial(folder)
    if (folder / "checkpoints").exists():
        shutil.rmtree(folder / "checkpoints")


def _records(file: Path) -> "polars.DataFrame":
    import polars as pl

    try:
        return pl.read_parquet(file)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CheckpointError(f"{file}: damaged ({str(error).splitlines()[0]})") from error


def _refuse_gaps(folder: Path, facts: dict[str, Any], rounds: "polars.DataFrame", clients: "polars.DataFrame") -> None:
    """Raises `CheckpointError` unless every method, seed and round has its rows, and there are no others."""
    import polars as pl

    keys = ["method", "seed", "round"]
    grid = pl.DataFrame({"method": [method["label"] for method in facts["methods"]]})
    grid = grid.join(pl.DataFrame({"seed": facts["seeds"]}), how="cross")
    grid = grid.join(pl.DataFrame({"round": range(facts["rounds"] + 1)}), how="cross")
    checked = [("rounds", rounds, grid, 1)]
    if facts["record_clients"]:
        checked.append(("clients", clients, grid.filter(pl.col("round") > 0), facts["problem"]["clients"]))
    for name, table, wanted, each in checked:
        complete = wanted.clear() if table.is_empty() else table.group_by(keys).len().filter(pl.col("len") == each)
        gaps = wanted.join(complete, on=keys, how="anti").sort(keys)
        if not gaps.is_empty():
            method, seed, round_ = gaps.row(0)
            reason = f"{name} of {method}, seed {seed}, round {round_} are not all there ({gaps.height:,} such gaps)"
            raise CheckpointError(f"{folder}: {reason}; the checkpoints are kept")
        if table.height > each * wanted.height:
            raise CheckpointError(f"{folder}: {name} have rows of another run; the checkpoints are kept")
