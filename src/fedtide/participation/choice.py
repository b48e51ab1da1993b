"""Choosing the best few among those allowed."""

import jax
import jax.numpy as jnp
from jax import Array


def largest(score: Array, allowed: Array, count: int, limit: Array | None = None) -> Array:
    """Mask of the `count` largest scores among the allowed; ties by index; fewer where fewer are allowed.

    `limit`, at most `count`, may be traced: only so many are taken then. A score of −∞ is never chosen.
    """
    count = min(count, len(score))
    best, chosen = jax.lax.top_k(jnp.where(allowed, score, -jnp.inf), count)
    taken = best > -jnp.inf
    if limit is not None:
        taken = taken & (jnp.arange(count) < limit)
    return jnp.zeros(len(score), bool).at[chosen].set(taken)


def first(order: Array, ties: Array, allowed: Array, count: int) -> Array:
    """Mask of the `count` allowed that come first by `order`, then by `ties` (random numbers, say), then by index.

    Any order will do, infinite too; what is not a number comes last.
    """
    ranked = jnp.lexsort((ties, order, ~allowed))[:count]
    return jnp.zeros(len(order), bool).at[ranked].set(allowed[ranked])


def race(importance: Array, numbers: Array) -> Array:
    """A score whose d largest are a sample of d without replacement, with probabilities ∝ importance.

    Exponential clocks of rate α_k: the first to ring is k with probability α_k / Σ α, and so on among the others.
    `numbers` are uniform in [0, 1). Without importance the score is −∞.
    """
    return jnp.where(importance > 0, jnp.log1p(-numbers) / jnp.where(importance > 0, importance, 1), -jnp.inf)
