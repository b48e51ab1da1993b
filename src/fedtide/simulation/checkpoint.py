"""Checkpoints: the state of a run after a segment, and the records so far.

A run's folder holds, while it runs, one folder for each method under `checkpoints/`:

    state.safetensors             the state between rounds, which run it belongs to, and digests
    rounds-00000050.parquet       records of the segment that ended with round 50
    clients-00000050.parquet

A segment's records are written before its state, which holds a digest of all records so far. If the run is killed in
between, the segment is run and its records are written again, identically; so only the state determines the progress.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from fedtide.errors import CheckpointError, FedtideError
from fedtide.simulation.trees import named, read_arrays, tree_of, write_arrays

_FORMAT = "fedtide-checkpoint-3"
_ANEW = "delete its folder and resume: this method then starts again"


class Saved(NamedTuple):
    """A checkpoint's content."""

    carry: Any
    rounds: int  # rounds completed
    records: str  # a digest of the records so far: see `chained`


def fingerprint(*trees: Any) -> str:
    """A digest of all inputs of a run: the leaves and the structure of its parts."""
    digest = hashlib.sha256()
    for path, leaf in jax.tree.leaves_with_path(trees):
        array = np.asarray(leaf)
        digest.update(f"{jax.tree_util.keystr(path)} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    structure = str(jax.tree.structure(trees))
    digest.update(re.sub(r" at 0x[0-9a-f]+", "", structure).encode())
    return digest.hexdigest()


def save(path: Path, state: Saved, run: str) -> None:
    """Writes the state, atomically."""
    tensors = named(state.carry)
    metadata = {"format": _FORMAT, "run": run, "rounds": str(state.rounds), "records": state.records}
    write_arrays(path, tensors, metadata | {"digest": _digest(metadata, tensors)})


def load(path: Path, like: Any, run: str) -> Saved:
    """Reads a state of the same shapes as `like`; raises `CheckpointError` for a damaged file or one of another run."""
    try:
        tensors, metadata = read_arrays(path)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: damaged checkpoint ({error}); {_ANEW}") from error
    if metadata.get("format") != _FORMAT:
        raise CheckpointError(f"{path}: not a checkpoint of this version of fedtide; {_ANEW}")
    if metadata.pop("digest", None) != _digest(metadata, tensors):
        raise CheckpointError(f"{path}: damaged checkpoint (its digest differs); {_ANEW}")
    if metadata["run"] != run:
        raise CheckpointError(f"{path}: belongs to another run (other data, method, seeds or settings)")
    try:
        carry = tree_of(like, tensors)
    except FedtideError as error:
        raise CheckpointError(f"{path}: belongs to another method ({error})") from error
    return Saved(carry, int(metadata["rounds"]), metadata["records"])


def chained(before: str, name: str, file: Path) -> str:
    """The digest of all records up to a file of this name, from the digest of those `before` it."""
    with file.open("rb") as content:
        own = hashlib.file_digest(content, "sha256").hexdigest()
    return hashlib.sha256(f"{before} {name} {own}".encode()).hexdigest()


def check_records(place: Path, names: Iterable[str], records: str) -> None:
    """Raises `CheckpointError` unless the files of these names, in this order, are the records of a checkpoint."""
    digest = ""
    for name in names:
        file = place / name
        if not file.exists():
            raise CheckpointError(f"{file}: missing, although the checkpoint is later: the records have a gap; {_ANEW}")
        digest = chained(digest, name, file)
    if digest != records:
        raise CheckpointError(f"{place}: records are damaged or replaced (the checkpoint has another digest); {_ANEW}")


def _digest(metadata: dict[str, str], tensors: dict[str, np.ndarray]) -> str:
    """A digest of the metadata and the tensors, all that resuming reads."""
    arrays = sorted(tensors.items())
    shapes = [(name, str(array.dtype), array.shape) for name, array in arrays]
    digest = hashlib.sha256(json.dumps([metadata, shapes], sort_keys=True).encode())
    for _, array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
