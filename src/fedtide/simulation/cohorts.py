"""Gathering the rows of the participating clients."""

import jax.numpy as jnp
from jax import Array

from fedtide.types import Cohort, Decision


def gather(decision: Decision, importance: Array, capacity: int) -> Cohort:
    """The invited clients in rows of a fixed capacity, in client order; the remaining rows are masked."""
    (client,) = jnp.nonzero(decision.invited, size=capacity, fill_value=0)
    present = jnp.arange(capacity) < decision.invited.sum()
    return Cohort(client, present, jnp.where(present, decision.weight[client], 0), importance[client])


def scatter(cohort: Cohort, rows: Array, into: Array) -> Array:
    """`into` [N, …] with the rows of present clients written at their places; in place where XLA allows it."""
    target = jnp.where(cohort.present, cohort.client, len(into))
    return into.at[target].set(rows, mode="drop", unique_indices=False)


def capacity_for(most: int, clients: int) -> int:
    """A number slightly above `most`, at most N, so that similar cohort sizes share one compiled program.

    >>> [capacity_for(most, 100) for most in (0, 1, 3, 10, 17, 50, 97)]
    [1, 1, 4, 10, 18, 52, 100]
    """
    most = max(most, 1)
    if most <= 8:
        return min(clients, 2 ** (most - 1).bit_length())
    step = 2 ** max(1, most.bit_length() - 4)
    return min(clients, -(-most // step) * step)
