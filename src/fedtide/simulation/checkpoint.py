"""Checkpoints: the state of a run after a stretch, and the records up to there.

A run's folder holds, while it runs, one folder for each method under `checkpoints/`:

    state.safetensors             everything that is carried from round to round, and which run it belongs to
    rounds-000050.parquet         records of the stretch that ended with round 50
    clients-000050.parquet

A stretch's records are written before its state. Killed in between, the stretch is run again and its records are
written again, identically; so the state alone says how far the run is.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from fedtide.errors import CheckpointError
from fedtide.files import atomic

_ANEW = "delete its folder and resume: this method then starts anew"


class Saved(NamedTuple):
    """A checkpoint's content."""

    carry: Any
    rounds: int  # rounds completed


def fingerprint(*trees: Any) -> str:
    """A digest of everything that determines a run: the leaves and the structure of its parts."""
    digest = hashlib.sha256()
    for path, leaf in jax.tree.leaves_with_path(trees):
        array = np.asarray(leaf)
        digest.update(f"{jax.tree_util.keystr(path)} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    structure = str(jax.tree.structure(trees))
    digest.update(re.sub(r" at 0x[0-9a-f]+", "", structure).encode())
    return digest.hexdigest()


def save(path: Path, carry: Any, rounds: int, run: str) -> None:
    """Writes the state, atomically."""
    from safetensors.numpy import save_file

    tensors = {name: np.ascontiguousarray(leaf) for name, leaf in _named(carry).items()}
    metadata = {"format": "fedtide-checkpoint-1", "run": run, "rounds": str(rounds), "digest": _digest(tensors)}
    with atomic(path) as temporary:
        save_file(tensors, temporary, metadata=metadata)


def load(path: Path, like: Any, run: str) -> Saved:
    """Reads a state of the same shape as `like`; raises `CheckpointError` on a damaged or foreign file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path}: damaged checkpoint ({error}); {_ANEW}") from error
    if metadata.get("format") != "fedtide-checkpoint-1":
        raise CheckpointError(f"{path}: not a checkpoint of this version of fedtide")
    if metadata.get("digest") != _digest(tensors):
        raise CheckpointError(f"{path}: damaged checkpoint (its digest differs); {_ANEW}")
    if metadata.get("run") != run:
        raise CheckpointError(f"{path}: belongs to another run (other data, method, seeds or settings)")
    names = _named(like)
    if set(names) != set(tensors):
        raise CheckpointError(f"{path}: belongs to another method (its state has other parts)")
    leaves = [tensors[name] for name in names]
    return Saved(jax.tree.unflatten(jax.tree.structure(like), leaves), int(metadata["rounds"]))


def _named(tree: Any) -> dict[str, Any]:
    return {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree.leaves_with_path(tree)}


def _digest(tensors: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensors[name]).tobytes())
    return digest.hexdigest()
