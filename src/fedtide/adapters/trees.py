"""Pytrees as named arrays, which files and messages can hold."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from fedtide.errors import FedtideError


def named(tree: Any) -> dict[str, np.ndarray]:
    """The leaves by their paths: {".control": …}."""
    return {_name(path): np.asarray(leaf) for path, leaf in jax.tree.leaves_with_path(tree)}


def tree_of(like: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The tree of this structure with these leaves; raises `FedtideError` where names, shapes or types differ."""
    wanted = {_name(path): leaf for path, leaf in jax.tree.leaves_with_path(like)}
    if set(wanted) != set(arrays):
        raise FedtideError(f"arrays {sorted(arrays)} where {sorted(wanted)} are expected")
    for name, leaf in wanted.items():
        found = arrays[name]
        if found.shape != leaf.shape or found.dtype != leaf.dtype:
            raise FedtideError(f"{name} is {found.dtype}{found.shape} where {leaf.dtype}{leaf.shape} is expected")
    return jax.tree.unflatten(jax.tree.structure(like), [arrays[name] for name in wanted])


def zeros(like: Any) -> dict[str, np.ndarray]:
    """The leaves of a tree of shapes, all 0."""
    return {_name(path): np.zeros(leaf.shape, leaf.dtype) for path, leaf in jax.tree.leaves_with_path(like)}


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path) or "."  # a tree that is one array
