"""A run's folder: its description, its lock, its beginning and its end."""

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
from fedtide.simulation.blocks import blocks_of, pieces, place_of, refuse_strays
from fedtide.simulation.models import layout_of
from fedtide.simulation.records import no_clients
from fedtide.simulation.result import FILES, Result, importance_digest, read_about, write_about
from fedtide.simulation.run import divergence
from fedtide.simulation.setup import Setup

if TYPE_CHECKING:
    import polars

_SAME = ("seeds", "rounds", "evaluate_every", "history", "record_clients", "problem", "methods", "clock")
_OF_A_RUN = {*FILES, "report.html", "checkpoints", "fedtide.lock"}
_KEPT = "the checkpoints are kept"


@contextmanager
def held(folder: Path | None, resume: bool, overwrite: bool = False) -> Iterator[None]:
    """Locks a run's folder for this process. Nothing is changed if the run cannot begin or resume."""
    if folder is None:
        yield
        return
    if resume:
        read_about(folder)
    elif overwrite:
        _refuse_foreign(folder)
    else:
        _refuse_occupied(folder)
    with alone(folder, "another run is using it"):
        yield


def begin(
    folder: Path | None, setup: Setup, methods: Mapping[str, Method], about: Mapping[str, Any], resume: bool,
    overwrite: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """The description of a run, written to its folder, which must be held, or checked to be the one stored there.

    With `overwrite` the run that the folder holds is removed, but only once nothing can refuse the new one.
    """
    facts = _facts(setup, methods, about)
    before: dict[str, Any] = {}
    if folder is not None and resume:
        before = _before(folder, facts)
        remove_partial(folder)
        blocks = blocks_of(folder, setup.seed_list)
        ends = [segment.end for segment in setup.plan]
        refuse_strays(folder, len(methods), len(blocks), ends, setup.record_clients)
    # The chunk depends on the memory available now and changes the last bits: a resumed run keeps its chunk.
    chunks = before.get("chunks") or {label: setup.choose_chunk(method) for label, method in methods.items()}
    facts["chunks"] = chunks
    facts["memory"] = {label: setup.memory(method, chunks[label]).total for label, method in methods.items()}
    facts["seconds"], facts["stopped"] = before.get("seconds", 0.0), before.get("stopped", {})
    if folder is not None and not resume:
        if overwrite:
            for label, method in methods.items():
                setup.fitting(label, method, chunks[label])
            _remove_run(folder)
        _refuse_occupied(folder)  # again: another run may have used it in the meantime
        remove_partial(folder)
        write_about(folder, facts)
    return facts


def _facts(setup: Setup, methods: Mapping[str, Method], about: Mapping[str, Any]) -> dict[str, Any]:
    """`Result.about` with the caller's entries; {"problem": {"name": …}} keeps the other keys of the problem."""
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
        "problem": {
            "name": type(setup.problem).__name__,
            "clients": len(setup.population.sizes),
            "samples": int(np.asarray(setup.population.sizes).sum()),
            "parameters": setup.parameters,
            "arrays": layout_of(setup.problem),
        },
        "availability": describe.describe_availability(setup.availability),
        "importance": [float(a) for a in np.asarray(setup.population.importance)],
        "methods": [
            describe.describe_method(label, method, setup.state(method), len(setup.population.sizes), setup.parameters)
            for label, method in methods.items()
        ],
        "stopped": {},
        "finished": False,
        "warnings": [],
    }
    if setup.timing is not None:
        facts["clock"] = describe.settings(setup.timing.clock)
    for key, value in about.items():
        facts[key] = facts[key] | value if isinstance(facts.get(key), dict) else value
    return json.loads(json.dumps(facts))  # plain data, equal to what is read back from the file


def _before(folder: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """The stored description of the run to resume, which must be this one; a finished run's clean-up is completed."""
    before = read_about(folder)
    if before["finished"]:
        remove_checkpoints(folder)
        raise FedtideError(f"{folder}: this run has finished; there is nothing to resume")
    if importance_digest(before) != importance_digest(facts):
        raise CheckpointError(f"{folder}: belongs to another run: the importance of its clients differs")
    for key in _SAME:
        if before.get(key) != facts.get(key):
            change = f"{key} was {before.get(key)!r:.60}, is {facts.get(key)!r:.60}"
            raise CheckpointError(f"{folder}: belongs to another run: {change}")
    try:
        chunks = before.get("chunks")
        labels = {method["label"] for method in facts["methods"]}
        require(isinstance(chunks, dict) and chunks.keys() == labels, "chunks", chunks, "one for each method")
        for label, chunk in before["chunks"].items():
            if chunk is not None:
                whole(f"chunks.{label}", chunk, 1)
        number("seconds", before.get("seconds"), low=0)
        stopped = before.get("stopped", {})
        require(isinstance(stopped, dict) and stopped.keys() <= labels, "stopped", stopped, "rounds by method")
        for label, last in stopped.items():
            whole(f"stopped.{label}", last, 1, facts["rounds"])
    except ValueError as error:
        raise CheckpointError(f"{folder / 'run.json'}: damaged ({error})") from error
    return before


def _refuse_occupied(folder: Path) -> None:
    if not vacant(folder):
        raise FedtideError(f"{folder}: exists and is not empty; choose another folder, or resume the run in it")


def _refuse_foreign(folder: Path) -> None:
    """Raises `FedtideError` if a folder holds anything that no run has written."""
    if vacant(folder):
        return
    if not folder.is_dir():
        raise FedtideError(f"{folder}: not a folder; choose another")
    foreign = [path.name for path in folder.iterdir() if path.name not in _OF_A_RUN and not path.match(".*.partial")]
    if foreign or not (folder / "run.json").is_file():
        reason = f"it contains {min(foreign)}" if foreign else "it has no run.json"
        raise FedtideError(f"{folder}: not overwritten: {reason}, and is not only the folder of a run")


def _remove_run(folder: Path) -> None:
    """Empties a run's folder. `run.json` is removed last: until then another attempt recognises the folder."""
    remove_partial(folder)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    for name in ("report.html", *FILES):
        (folder / name).unlink(missing_ok=True)


def close_folder(folder: Path, facts: dict[str, Any], models: dict[str, np.ndarray]) -> Result:
    """Joins the segments' records into the run's tables; checkpoints are removed once everything is written."""
    import polars as pl

    rounds = _joined(folder, facts, "rounds")
    clients = _joined(folder, facts, "clients") if facts["record_clients"] else no_clients()
    # From the tables: a method that was finished before an interruption has not run again.
    bad = rounds.filter(pl.col("objective").is_not_null() & ~pl.col("objective").is_finite())
    first = bad.group_by("method", "seed", maintain_order=True).agg(pl.col("round").min())
    facts["warnings"] = [divergence(*row) for row in first.iter_rows()]
    result = Result(facts, models, rounds, clients)
    result.write(folder)  # its last file marks the run as finished
    remove_checkpoints(folder)
    return result


def remove_checkpoints(folder: Path) -> None:
    """Removes from a finished run's folder, which must be held, the files that only an unfinished run needs."""
    remove_partial(folder, FILES)  # only the run's own: a report may be being written
    if (folder / "checkpoints").exists():
        shutil.rmtree(folder / "checkpoints")


def _joined(folder: Path, facts: dict[str, Any], name: str) -> "polars.DataFrame":
    """A table from its pieces, by method, segment and block of seeds; raises `CheckpointError` if rows are missing."""
    import polars as pl

    blocks = blocks_of(folder, facts["seeds"])
    clients = facts["problem"]["clients"] if name == "clients" else 0
    tables = {}
    for number_, method in enumerate(facts["methods"]):
        for block, seeds in enumerate(blocks):
            place, following = place_of(folder, number_, block, len(blocks)), 1 if clients else 0
            for end, file in pieces(place, name):
                frame = _records(file)
                if not _has_all(frame, method["label"], seeds, following, end, clients):
                    raise CheckpointError(f"{file}: not the records of rounds {following} to {end}; {_KEPT}")
                tables[number_, end, block], following = frame, end + 1
            last = facts["stopped"].get(method["label"], facts["rounds"])
            if following <= last:
                reason = f"{name} of {method['label']} end before round {following} of {last}"
                raise CheckpointError(f"{place}: {reason}; {_KEPT}")
    return pl.concat([tables[key] for key in sorted(tables)])


def _has_all(frame: "polars.DataFrame", label: str, seeds: list[int], first: int, last: int, clients: int) -> bool:
    """Whether the rows are those of these seeds, rounds and clients, in the order in which they were written."""
    rounds, each = np.arange(first, last + 1), max(clients, 1)
    rows = len(seeds) * len(rounds) * each
    wanted = {"seed": np.repeat(seeds, len(rounds) * each), "round": np.tile(np.repeat(rounds, each), len(seeds))}
    if clients:
        wanted["client"] = np.tile(np.arange(clients), len(seeds) * len(rounds))
    if frame.height != rows or not {"method", *wanted} <= set(frame.columns):
        return False
    named = bool((frame["method"] == label).all())
    return named and all(np.array_equal(frame[column].to_numpy(), values) for column, values in wanted.items())


def _records(file: Path) -> "polars.DataFrame":
    import polars as pl

    try:
        return pl.read_parquet(file)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CheckpointError(f"{file}: damaged ({str(error).splitlines()[0]})") from error
