"""A run's folder: what it says of the run, how it begins, how it ends."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedtide.errors import CheckpointError, FedtideError
from fedtide.files import remove_partial
from fedtide.methods.base import Method
from fedtide.simulation import describe
from fedtide.simulation.blocks import part_files
from fedtide.simulation.records import client_frame
from fedtide.simulation.result import Result, write_about
from fedtide.simulation.run import divergence, read_records
from fedtide.simulation.setup import Setup


def facts_of(
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


def open_folder(folder: Path, facts: dict[str, Any], before: dict[str, Any]) -> None:
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


def close_folder(folder: Path, facts: dict[str, Any], models: dict[str, np.ndarray]) -> Result:
    """Joins the stretches' records into the run's tables; only then are the checkpoints removed."""
    import polars as pl

    tables = []
    for name in ("rounds", "clients"):
        files = part_files(folder, name)
        tables.append(pl.concat([read_records(file) for file in files]) if files else client_frame([]))
    # From the tables, not from the runs: a method that was finished before an interruption did not run again.
    bad = tables[0].filter(pl.col("objective").is_not_null() & ~pl.col("objective").is_finite())
    first = bad.group_by("method", "seed", maintain_order=True).agg(pl.col("round").min())
    facts["warnings"] = [divergence(*row) for row in first.iter_rows()]
    result = Result(facts, models, *tables)
    result.save(folder)
    shutil.rmtree(folder / "checkpoints")
    return result
