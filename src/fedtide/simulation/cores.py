"""JAX's devices and its persistent compilation cache."""

import os
from pathlib import Path

import jax


def use_all_cores() -> None:
    """Makes every CPU core a JAX device, over which `simulate` distributes the seeds; results do not change.

    Must be called before the first computation of the process; later it has no effect, nor on a GPU.
    """
    try:
        jax.config.update("jax_num_cpu_devices", available_cores())
    except RuntimeError:  # JAX has started its devices already
        return


def available_cores() -> int:
    """The CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def use_no_accelerator() -> None:
    """Prevents this process from using a GPU and its memory. Must be called before its first computation."""
    jax.config.update("jax_platforms", "cpu")


def use_persistent_cache() -> None:
    """Turns on JAX's compilation cache: a second run of the same shapes starts without compiling.

    It is in the user's cache folder unless JAX has another one (JAX_COMPILATION_CACHE_DIR).
    """
    if jax.config.values["jax_compilation_cache_dir"] is not None:
        return
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jax.config.update("jax_compilation_cache_dir", str(root / "fedtide" / "jax"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
