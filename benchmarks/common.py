"""Shared by the benchmarks: timing, the machine's own rates, tables."""

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import jax
import jax.numpy as jnp

from fedtide import use_all_cores

use_all_cores()


def best_of(f: Callable[[], object], repetitions: int = 5) -> float:
    """Seconds of the fastest repetition, after one warm-up; waits for the device."""
    jax.block_until_ready(f())
    times = []
    for _ in range(repetitions):
        begun = time.perf_counter()
        jax.block_until_ready(f())
        times.append(time.perf_counter() - begun)
    return min(times)


def machine() -> dict[str, object]:
    """The machine, with two rates that bound any program on it: those of a large matrix product and a large copy."""
    n = 8192 if jax.default_backend() == "gpu" else 2048
    a = jax.random.normal(jax.random.key(0), (n, n))
    with jax.default_matmul_precision("highest"):
        product = best_of(lambda f=jax.jit(lambda a: a @ a): f(a))
    x = jax.random.normal(jax.random.key(1), (64 * 2**20,))
    copy = best_of(lambda f=jax.jit(lambda x: x + 1): f(x))
    device = jax.devices()[0]
    return {
        "device": f"{device.platform} {device.device_kind}",
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "jax": jax.__version__,
        "product_gflops": 2 * n**3 / product / 1e9,
        "copy_gbytes": 2 * x.nbytes / copy / 1e9,
    }


def print_table(title: str, rows: list[dict[str, object]]) -> None:
    """Prints rows as aligned text."""
    print(f"\n{title}")
    if not rows:
        return
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_text(row.get(name, "")) for name in names] for row in rows]
    widths = [max(len(name), *(len(line[i]) for line in cells)) for i, name in enumerate(names)]
    print("  ".join(name.rjust(w) for name, w in zip(names, widths, strict=True)))
    for line in cells:
        print("  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)))


def write_json(path: str | None, content: object) -> None:
    if path:
        target = Path(path)
        temporary = target.with_suffix(".tmp")
        temporary.write_text(json.dumps(content, indent=1) + "\n")
        temporary.replace(target)
        print(f"\nwritten: {target}")


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


__all__ = ["best_of", "jnp", "machine", "print_table", "write_json"]
