"""Estimates of a run's memory, before it runs."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import Jaxpr, Literal

from fedtide.text import readable


class MemoryEstimate(NamedTuple):
    """Bytes that a run needs on the device at once."""

    data: int  # the problem
    state: int  # the state between rounds, of all replicas
    cohort: int  # one round's training, of all replicas
    records: int  # the records of a segment

    @property
    def total(self) -> int:
        return sum(self)

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {readable(size)}" for name, size in zip(self._fields, self, strict=True))
        return f"{readable(self.total)} ({parts})"


def size_of(tree: Any) -> int:
    """Bytes of all arrays (or shapes) in a pytree."""
    return sum(int(np.prod(a.shape)) * a.dtype.itemsize for a in jax.tree.leaves(tree) if hasattr(a, "dtype"))


def peak(jaxpr: Jaxpr) -> int:
    """An estimate of the bytes in use at once: values that equations have defined and still need."""
    used = [*(equation.invars for equation in jaxpr.eqns), jaxpr.outvars]
    last = {v: i for i, needed in enumerate(used) for v in needed if not isinstance(v, Literal)}
    alive = most = 0
    made = set()
    for i, equation in enumerate(jaxpr.eqns):
        inner = max((peak(sub) for sub in _sub_jaxprs(equation.params)), default=0)
        alive += sum(_bytes(v) for v in equation.outvars)
        made.update(equation.outvars)
        most = max(most, alive + inner)
        gone = {v for v in equation.invars if not isinstance(v, Literal) and v in made and last[v] == i}
        alive -= sum(_bytes(v) for v in gone)
        made -= gone
    return most


def _sub_jaxprs(params: dict[str, Any]) -> list[Jaxpr]:
    items = (item for value in params.values() for item in (value if isinstance(value, tuple | list) else (value,)))
    return [inner for item in items if isinstance(inner := getattr(item, "jaxpr", item), Jaxpr)]


def _bytes(v: Any) -> int:
    shape, dtype = getattr(v.aval, "shape", ()), getattr(v.aval, "dtype", None)
    return int(np.prod(shape)) * getattr(dtype, "itemsize", 8)


def device_memory() -> int | None:
    """Bytes available on the first device; None where this is unknown."""
    stats = jax.devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return stats["bytes_limit"] - stats.get("bytes_in_use", 0)
    try:
        with Path("/proc/meminfo").open() as lines:
            return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        try:
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, ValueError, OSError):
            return None
