"""Means, group sums and order of cohort rows, and updates per unit of the learning rate."""

import jax
import jax.numpy as jnp
from jax import Array

from fedtide.rows import weighted_rows
from fedtide.types import Cohort, Updates


def mean_rows(weight: Array, rows: Array) -> Array:
    """Σ_i weight_i rows_i / Σ_i weight_i: [C], [C, d] -> [d]; 0 where no row has weight.

    Computed relative to the largest row, so that equal rows have exactly that mean.
    """
    top = jnp.where(weight[:, None] > 0, rows, -jnp.inf).max(axis=0)
    top = jnp.where(top > -jnp.inf, top, 0)
    total = weighted_rows(weight, jnp.ones_like(rows[:, :1]))
    return top - weighted_rows(weight, top - rows) / jnp.maximum(total, jnp.finfo(total.dtype).tiny)


def grouped_rows(weight: Array, group: Array, rows: Array, groups: int) -> Array:
    """Σ_{i: group_i = g} weight_i rows_i for each g: [C], [C], [C, d] -> [groups, d]; in order on CPU, as above."""

    def in_order(weight: Array, group: Array, rows: Array) -> Array:
        return jnp.zeros_like(rows, shape=(groups, rows.shape[1])).at[group].add(weight[:, None] * rows)

    def at_once(weight: Array, group: Array, rows: Array) -> Array:
        member = jnp.where(group == jnp.arange(groups)[:, None], weight, 0)
        return jnp.matmul(member, rows, precision=jax.lax.Precision.HIGHEST)

    return jax.lax.platform_dependent(weight, group, rows, cpu=in_order, default=at_once)


def usable(cohort: Cohort, delta: Array) -> Array:
    """[C] the rows that a robust rule counts: present, of some weight (late updates have none), and finite."""
    return cohort.present & (cohort.weight != 0) & jnp.isfinite(delta).all(axis=1)


def ordered_rows(counts: Array, rows: Array) -> Array:
    """The values of each coordinate in ascending order, those of rows that do not count last, as ∞: [C], [C, d] ->
    [C, d]."""
    return jnp.sort(jnp.where(counts[:, None], rows, jnp.inf), axis=0)


def trained_only(cohort: Cohort, updates: Updates) -> Cohort:
    """The cohort without clients that took no step: they have no update to store, and count as absent."""
    trained = cohort.present & (updates.steps > 0)
    return cohort._replace(present=trained, weight=jnp.where(trained, cohort.weight, 0))


def per_unit(rate: Array, rows: Array) -> Array:
    """rows_i / rate_i, and 0 where the rate is 0: [C], [C, d] -> [C, d]."""
    moves = (rate > 0)[:, None]
    return jnp.where(moves, rows / jnp.where(moves, rate[:, None], 1), 0)


def rate_now(cohort: Cohort, updates: Updates) -> Array:
    """The mean learning rate of the clients with weight in this round, or the round's own where there are none.

    Late updates of earlier rounds, with the rates of those rounds, have weight 0.
    """
    counts = cohort.present & (cohort.weight != 0)
    mean = mean_rows(counts.astype(updates.rate.dtype), updates.rate[:, None])[0]
    return jnp.where(counts.any(), mean, jnp.asarray(updates.round_rate, mean.dtype))
