"""Trained models: from rows of numbers to the named arrays of a model's `init`, and the file that holds them."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedtide.errors import require
from fedtide.simulation.trees import read_arrays, write_arrays

_FORMAT = "fedtide-models-1"

Layout = Sequence[Mapping[str, Any]]
"""A model's arrays in the order of its row: {"path": ["dense1", "weight"], "shape": [10, 64]} for each."""


def layout_of(problem: Any) -> list[dict[str, Any]]:
    """The names and shapes of the arrays that the problem's `init` returns."""
    shapes = jax.eval_shape(problem.init, jax.random.key(0))
    leaves = jax.tree.leaves_with_path(shapes)
    return [{"path": [_plain(key) for key in path], "shape": list(leaf.shape)} for path, leaf in leaves]


def unravelled(row: np.ndarray, layout: Layout, like: Any = None) -> Any:
    """The arrays of a row [d] as nested dictionaries and lists, or in the structure of `like`."""
    if like is not None:
        wanted = [list(np.shape(leaf)) for leaf in jax.tree.leaves(like)]
        require([entry["shape"] for entry in layout] == wanted, "like", wanted, "arrays of the model's shapes")
        return jax.tree.unflatten(jax.tree.structure(like), _split(row, layout))
    tree: dict[Any, Any] = {}
    for path, array in zip(_paths(layout), _split(row, layout), strict=True):
        if not path:
            return array
        node = tree
        for key in path[:-1]:
            node = node.setdefault(key, {})
        node[path[-1]] = array
    return _with_lists(tree)


def write_models(path: Path, models: Mapping[str, np.ndarray], layout: Layout, seeds: Sequence[int]) -> None:
    """Writes {label: rows [seeds, d]} as one array [seeds, …] for each label and array of the model."""
    arrays = [array for rows in models.values() for array in _split(rows, layout)]
    metadata = {"format": _FORMAT, "methods": json.dumps(list(models)), "seeds": json.dumps(list(seeds))}
    write_arrays(path, dict(zip(_names(models, layout), arrays, strict=True)), metadata)


def read_models(path: Path, labels: Iterable[str], layout: Layout) -> dict[str, np.ndarray]:
    """What `write_models` wrote; raises `OSError` or `ValueError` where it cannot be read."""
    arrays, metadata = read_arrays(path)
    names = iter(_names(labels := list(labels), layout))
    if "format" not in metadata and set(arrays) == set(labels):
        return arrays  # as written before arrays had names
    if metadata.get("format") != _FORMAT or set(arrays) != set(_names(labels, layout)):
        raise ValueError("not the models of this run")
    rows = {label: [arrays[next(names)] for _ in layout] for label in labels}
    return {label: np.concatenate([a.reshape(len(a), -1) for a in own], axis=1) for label, own in rows.items()}


def _plain(key: Any) -> str | int:
    """A dictionary's key, a list's index or an attribute's name."""
    own = next(getattr(key, name) for name in ("key", "idx", "name") if hasattr(key, name))
    return own if isinstance(own, str | int) else str(own)


def _paths(layout: Layout) -> list[list[Any]]:
    return [entry["path"] for entry in layout]


def _names(labels: Iterable[str], layout: Layout) -> list[str]:
    """Names in the file, such as "FedAvg/dense1.weight"; numbered in the rare case that two would be equal."""
    names = [f"{label}/{'.'.join(map(str, path)) or 'w'}" for label in labels for path in _paths(layout)]
    return names if len(set(names)) == len(names) else [f"{i}/{name}" for i, name in enumerate(names)]


def _split(rows: np.ndarray, layout: Layout) -> list[np.ndarray]:
    """The arrays [..., shape] of rows [..., d]."""
    ends = accumulate((math.prod(entry["shape"]) for entry in layout), initial=0)
    places = zip(pairwise(ends), layout, strict=True)
    return [rows[..., a:b].reshape((*rows.shape[:-1], *entry["shape"])) for (a, b), entry in places]


def _with_lists(tree: Any) -> Any:
    """Dictionaries whose keys are 0, 1, … become lists."""
    if not isinstance(tree, dict):
        return tree
    values = {key: _with_lists(value) for key, value in tree.items()}
    return list(values.values()) if list(values) == list(range(len(values))) else values
