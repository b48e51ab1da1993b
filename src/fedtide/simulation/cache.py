"""JAX's persistent compilation cache: a second run of the same shape starts at once."""

import os
from pathlib import Path

import jax


def use_persistent_cache() -> None:
    """Turns the cache on in the user's cache folder, unless JAX was told otherwise (JAX_COMPILATION_CACHE_DIR)."""
    if jax.config.values["jax_compilation_cache_dir"] is not None:
        return
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jax.config.update("jax_compilation_cache_dir", str(root / "fedtide" / "jax"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
