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
    """The next multiple of eight (at most N): nearby cohort sizes share one compiled program."""
    return max(1, min(clients, -(-most // 8) * 8))
