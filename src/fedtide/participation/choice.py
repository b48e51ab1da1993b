"""Choosing the best few among those allowed."""

import jax
import jax.numpy as jnp
from jax import Array


def largest(score: Array, allowed: Array, count: int) -> Array:
    """Mask of the `count` largest scores among the allowed; ties by index; fewer where fewer are allowed."""
    count = min(count, len(score))
    best, chosen = jax.lax.top_k(jnp.where(allowed, score, -jnp.inf), count)
    return jnp.zeros(len(score), bool).at[chosen].set(best > -jnp.inf)
