"""Linear algebra on cohort rows."""

import jax
import jax.numpy as jnp
from jax import Array


def weighted_rows(weight: Array, rows: Array) -> Array:
    """Σ_i weight_i rows_i: [C], [C, d] -> [d].

    On CPU rows are added one after the other, so that masked rows at the end add exactly nothing: neither the cohort's
    capacity nor the number of replicas changes a bit. (The order of additions in a compiled sum or product depends on
    the shape.) On other devices it is one parallel sum.
    """
    return jax.lax.platform_dependent(weight, rows, cpu=_in_order, default=_at_once)


def _in_order(weight: Array, rows: Array) -> Array:
    def add(total: Array, row: tuple[Array, Array]) -> tuple[Array, None]:
        return total + row[0] * row[1], None

    return jax.lax.scan(add, jnp.zeros_like(rows, shape=rows.shape[1:]), (weight, rows))[0]


def _at_once(weight: Array, rows: Array) -> Array:
    return (weight[:, None] * rows).sum(axis=0)
