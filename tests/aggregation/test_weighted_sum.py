"""The weighted sum, and that the cohort's capacity changes no bit of it."""

import jax
import numpy as np
import pytest

from fedtide.aggregation import WeightedSum
from fedtide.types import Cohort, Population, Updates


@jax.jit
def combine(client, present, weight, delta):
    part = WeightedSum()
    state = part.init(Population(np.ones(4) / 4, np.ones(4)), delta.shape[1])
    updates = Updates(delta, *(np.ones(len(weight), np.float32) for _ in range(4)))
    return part.combine(state, Cohort(client, present, weight, weight), updates)[0]


def cohort(rows, dimension, capacity):
    """The first `rows` of `capacity` rows hold updates, the others are masked: weight 0, update 0."""
    rng = np.random.default_rng([rows, dimension])
    weight, delta = np.zeros(capacity, np.float32), np.zeros((capacity, dimension), np.float32)
    weight[:rows], delta[:rows] = rng.uniform(0.1, 3, rows), rng.normal(size=(rows, dimension))
    client = np.where(np.arange(capacity) < rows, np.arange(capacity), 0)
    return client, np.arange(capacity) < rows, weight, delta


def test_by_hand():
    weight, delta = np.array([0.5, 2.0, 0.0], np.float32), np.array([[2.0, 4.0], [1.0, -1.0], [9.0, 9.0]], np.float32)
    assert combine(np.arange(3), np.ones(3, bool), weight, delta).tolist() == [3.0, 0.0]


@pytest.mark.parametrize(("rows", "dimension"), [(5, 3), (13, 610), (50, 7)])
def test_it_is_the_matrix_product(rows, dimension):
    client, present, weight, delta = cohort(rows, dimension, rows)
    exact = weight.astype(np.float64) @ delta.astype(np.float64)
    np.testing.assert_allclose(combine(client, present, weight, delta), exact, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("rows", "dimension"), [(5, 3), (5, 1), (13, 610), (50, 7)])
def test_masked_rows_change_no_bit(rows, dimension):
    exact = np.asarray(combine(*cohort(rows, dimension, rows)))
    for capacity in (rows + 1, -(-rows // 8) * 8, 64, 200):
        np.testing.assert_array_equal(combine(*cohort(rows, dimension, capacity)), exact)


def test_other_replicas_change_no_bit():
    one = cohort(13, 61, 16)
    replicas = [np.stack([a, b]) for a, b in zip(one, cohort(7, 61, 16), strict=True)]
    np.testing.assert_array_equal(jax.jit(jax.vmap(combine))(*replicas)[0], combine(*one))


def test_nobody_is_no_direction():
    assert not np.asarray(combine(*cohort(0, 3, 8))).any()
