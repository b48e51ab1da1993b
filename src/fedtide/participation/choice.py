"""Selecting the best of the allowed clients."""

import jax
import jax.numpy as jnp
from jax import Array


def largest(score: Array, allowed: Array, count: int, limit: Array | None = None) -> Array:
    """Mask of the `count` largest scores among the allowed clients; ties by index; fewer where fewer are allowed.

    `limit`, at most `count`, reduces the number selected and may be traced. A score of −∞ is never selected.
    """
    count = min(count, len(score))
    best, chosen = jax.lax.top_k(jnp.where(allowed, score, -jnp.inf), count)
    taken = best > -jnp.inf
    if limit is not None:
        taken = taken & (jnp.arange(count) < limit)
    return jnp.zeros(len(score), bool).at[chosen].set(taken)


def first(order: Array, ties: Array, allowed: Array, count: int) -> Array:
    """Mask of the first `count` allowed clients by `order`, then by `ties` (for instance random numbers), then by
    index.

    `order` may be infinite; NaN comes last.
    """
    ranked = jnp.lexsort((ties, order, ~allowed))[:count]
    return jnp.zeros(len(order), bool).at[ranked].set(allowed[ranked])


def race(importance: Array, numbers: Array) -> Array:
    """A score whose d largest values are a sample of d clients without replacement, with probabilities ∝ importance.

    Exponential clocks of rate α_k: the first to ring is k's with probability α_k / Σ α, and so on among the others.
    `numbers` are uniform in [0, 1). The score is −∞ for clients of importance 0.
    """
    return jnp.where(importance > 0, jnp.log1p(-numbers) / jnp.where(importance > 0, importance, 1), -jnp.inf)
