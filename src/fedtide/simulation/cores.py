"""All cores of a machine without an accelerator: one JAX device each, which share the seeds."""

import os

import jax


def use_all_cores() -> None:
    """Makes every CPU core a JAX device, so that `simulate` spreads its seeds over them; changes no number.

    Must come before the first computation of the process; later it does nothing. On a GPU it does not matter.
    """
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        jax.config.update("jax_num_cpu_devices", count)
    except RuntimeError:  # JAX has started its devices already
        return


def use_no_accelerator() -> None:
    """Keeps this process off the GPU, whose memory others are to have. Must come before its first computation."""
    jax.config.update("jax_platforms", "cpu")
