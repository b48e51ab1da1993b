"""Pytrees as named arrays, for files and messages."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedtide.errors import FedtideError
from fedtide.files import atomic


def named(tree: Any) -> dict[str, np.ndarray]:
    """The leaves by their paths: {".control": …}."""
    return {_name(path): np.asarray(leaf) for path, leaf in jax.tree.leaves_with_path(tree)}


def tree_of(like: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The tree of this structure with these leaves; raises `FedtideError` where names, shapes or types differ."""
    wanted = {_name(path): leaf for path, leaf in jax.tree.leaves_with_path(like)}
    if set(wanted) != set(arrays):
        raise FedtideError(f"arrays {sorted(arrays)} where {sorted(wanted)} are expected")
    for name, leaf in wanted.items():
        array = arrays[name]
        if array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise FedtideError(f"{name} is {array.dtype}{array.shape} where {leaf.dtype}{leaf.shape} is expected")
    return jax.tree.unflatten(jax.tree.structure(like), [arrays[name] for name in wanted])


def zeros(like: Any) -> dict[str, np.ndarray]:
    """Arrays of zeros for the leaves of a tree of shapes, by their paths."""
    return {_name(path): np.zeros(leaf.shape, leaf.dtype) for path, leaf in jax.tree.leaves_with_path(like)}


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], metadata: dict[str, str] | None = None) -> None:
    """Writes a safetensors file, atomically."""
    from safetensors.numpy import save_file

    with atomic(path) as temporary:
        contiguous = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()}
        save_file(contiguous, temporary, metadata=metadata)


def read_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """(arrays, metadata) of a safetensors file; raises `OSError` or `ValueError` where it cannot be read."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(str(error)) from error


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path) or "."  # a tree that is one array
