"""What clients report of a model, in a few numbers."""

from collections.abc import Mapping

import numpy as np


def summary(replies: Mapping[int, Mapping[str, float]]) -> dict[str, float]:
    """Means over clients weighted by their samples, and the mean accuracy of the tenth that is served worst.

    >>> summary({0: {"examples": 10, "accuracy": 0.5}, 1: {"examples": 30, "accuracy": 0.9}})
    {'accuracy': 0.8, 'worst_decile': 0.5, 'evaluated': 2.0}
    """
    found: dict[str, float] = {}
    for name in ("loss", "accuracy"):
        pairs = [(_number(r, name), _number(r, "examples")) for r in replies.values()]
        kept = [(value, size) for value, size in pairs if value is not None and size is not None and size > 0]
        if kept:
            values, sizes = np.array(kept).T
            found[name] = float(values @ sizes / sizes.sum())
            if name == "accuracy":
                found["worst_decile"] = float(np.sort(values)[: -(-len(values) // 10)].mean())
    return found | {"evaluated": float(len(replies))} if found else {}


def _number(reply: Mapping[str, float], name: str) -> float | None:
    value = reply.get(name)
    return float(value) if isinstance(value, int | float) and np.isfinite(value) else None
