"""Linear algebra on cohort rows."""

from jax import Array


def weighted_rows(weight: Array, rows: Array) -> Array:
    """Σ_i weight_i rows_i: [C], [C, d] -> [d].

    Written as a sum over rows, not as a matrix product: rows are added in order, so that masked rows at the end add
    exactly nothing and the cohort's capacity changes no bit (on CPU).
    """
    return (weight[:, None] * rows).sum(axis=0)
