"""Gathering the few who take part out of the many who might."""

import jax.numpy as jnp
from jax import Array

from fedtide.types import Cohort, Decision


def gather(decision: Decision, capacity: int) -> Cohort:
    """The invited clients in rows of a fixed capacity, in client order; the rows left over are masked."""
    (client,) = jnp.nonzero(decision.invited, size=capacity, fill_value=0)
    present = jnp.arange(capacity) < decision.invited.sum()
    return Cohort(client, present, jnp.where(present, decision.weight[client], 0))


def scatter(cohort: Cohort, rows: Array, into: Array) -> Array:
    """`into` [N, …] with the rows of those present written at their clients; in place where XLA may."""
    target = jnp.where(cohort.present, cohort.client, len(into))
    return into.at[target].set(rows, mode="drop", unique_indices=False)


def capacity_for(most: int, clients: int) -> int:
    """A little more than `most`, at most N: nearby cohort sizes share one compiled program.

    >>> [capacity_for(most, 100) for most in (0, 1, 3, 10, 17, 50, 97)]
    [1, 1, 4, 10, 18, 52, 100]
    """
    most = max(most, 1)
    if most <= 8:
        return min(clients, 2 ** (most - 1).bit_length())
    step = 2 ** max(1, most.bit_length() - 4)
    return min(clients, -(-most // step) * step)
