"""How much memory a run needs, before it runs."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import Jaxpr, Literal

from fedtide.errors import DoesNotFit
from fedtide.methods.base import CATALOGUE, Method


class Estimate(NamedTuple):
    """Bytes a run keeps on the device at once."""

    data: int  # the problem
    state: int  # all that is carried from round to round, all replicas
    cohort: int  # one round's training, all replicas
    records: int  # what a stretch returns

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
    """An estimate of the bytes alive at once: what the equations define and still need."""
    last = {}
    for i, equation in enumerate(jaxpr.eqns):
        for v in equation.invars:
            if not isinstance(v, Literal):
                last[v] = i
    for v in jaxpr.outvars:
        if not isinstance(v, Literal):
            last[v] = len(jaxpr.eqns)
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
    found = []
    for value in params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            inner = getattr(item, "jaxpr", item)
            if isinstance(inner, Jaxpr):
                found.append(inner)
    return found


def _bytes(v: Any) -> int:
    shape, dtype = getattr(v.aval, "shape", ()), getattr(v.aval, "dtype", None)
    return int(np.prod(shape)) * getattr(dtype, "itemsize", 8)


def device_memory() -> int | None:
    """Bytes the first device can give now; None where it cannot be told."""
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


def refuse_long_history(history: int, seeds: int, clients: int) -> None:
    """Raises `DoesNotFit` where the rounds observed before the first, a byte per seed and client, do not fit."""
    available, size = device_memory(), history * seeds * clients
    if available is not None and size > available:
        need = f"needs about {readable(size)} for {seeds:,} seeds and {clients:,} clients"
        raise DoesNotFit(f"history = {history}: {need}, the device has {readable(available)}")


def refuse_if_too_large(
    label: str, method: Method, need: Estimate, parameters: int, clients: int, available: int | None
) -> None:
    """Raises `DoesNotFit`, with the figures, when the estimate exceeds what there is."""
    if available is None or need.total <= available:
        return
    advice = "run fewer seeds at a time"
    row = parameters * np.dtype(jax.dtypes.canonicalize_dtype(float)).itemsize
    if need.state > available / 2 and need.state >= row * clients:
        rows = f"rows of {parameters:,} parameters for each of {clients:,} clients"
        entry = CATALOGUE.get(method.name)
        on_server = entry is not None and entry.facts.server_rows == "N"
        lighter = "cluster_fedvarp keeps a row for each cluster instead" if on_server else "take one without such rows"
        advice = f"this method keeps {readable(row * clients)} for {rows}; {lighter}"
    raise DoesNotFit(f"{label}: needs about {need}, the device has {readable(available)}: {advice}")


def readable(size: float) -> str:
    """1234567 -> '1.2 MB'."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError
