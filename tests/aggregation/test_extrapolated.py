"""FedExP's step length, with numbers worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtide.aggregation import Accumulated, Extrapolated, LatestUpdates, WeightedSum
from fedtide.errors import InvalidInput
from fedtide.types import Cohort, Population, Updates


@jax.jit
def combine(rule, weight, delta):
    weight, delta = jnp.asarray(weight, float), jnp.asarray(delta, float)
    rate = jnp.ones(len(weight))
    updates = Updates(delta, rate, jnp.ones(len(weight), jnp.int32), rate, rate, round_rate=jnp.zeros(()))
    importance = jnp.full(len(weight), 1 / len(weight))
    state = rule.init(Population(importance, rate), delta.shape[1])
    return rule.combine(state, Cohort(jnp.arange(len(weight)), weight > 0, weight, importance), updates)[0]


def step_length(delta, weight=None, regulariser=0.0):
    """η_g: how much longer the direction is than the weighted sum."""
    weight = np.full(len(delta), 1 / len(delta)) if weight is None else weight
    direction, plain = (combine(rule, weight, delta) for rule in (Extrapolated(regulariser=regulariser), WeightedSum()))
    ratio = np.asarray(direction)[np.asarray(plain) != 0] / np.asarray(plain)[np.asarray(plain) != 0]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-6)
    return ratio[0]


def test_one_client_and_equal_updates_take_a_plain_step():
    assert step_length([[1.0, 2.0]]) == 1
    assert step_length([[1.0, 2.0]] * 4) == 1


@pytest.mark.parametrize(("clients", "expected"), [(2, 1), (4, 2), (7, 3.5)])
def test_orthogonal_updates_take_a_step_of_half_their_number(clients, expected):
    assert step_length(3 * np.eye(clients)) == pytest.approx(expected, rel=1e-5)


def test_by_hand_with_weights_that_do_not_sum_to_one():
    # a = (¼, ¾): Σ a ‖Δ‖² = ¼·4 + ¾·16 = 13; mean = (½, 3)·… = (2·¼, 4·¾) = (½, 3), square 9.25; 13 / (2 · 9.75) < 1.
    delta = np.array([[2.0, 0.0], [0.0, 4.0]])
    assert step_length(delta, np.array([0.1, 0.3]), 0.5) == 1
    # With opposite updates the mean is (−¼·2 + ¾·4) = 2.5, square 6.25: 13 / 12.5.
    assert step_length(np.array([[-2.0], [4.0]]), np.array([0.1, 0.3])) == pytest.approx(13 / 12.5, rel=1e-5)
    assert step_length(np.array([[-2.0], [4.0]]), np.array([0.1, 0.3]), 0.1) == pytest.approx(13 / 12.7, rel=1e-5)


def test_the_scale_of_updates_does_not_matter_without_a_regulariser():
    delta = np.random.default_rng(0).normal(size=(6, 4))
    assert step_length(delta) == pytest.approx(step_length(1e-3 * delta), rel=1e-5)
    assert step_length(delta) > 1


def test_a_large_regulariser_is_fedavg_to_the_bit():
    delta, weight = np.random.default_rng(0).normal(size=(6, 4)), np.full(6, 1 / 6)
    large = Extrapolated(regulariser=1e9)
    np.testing.assert_array_equal(combine(large, weight, delta), combine(WeightedSum(), weight, delta))


def test_nobody_is_no_direction():
    assert not np.asarray(combine(Extrapolated(regulariser=0.0), np.zeros(3), np.zeros((3, 2)))).any()


def test_it_goes_around_other_rules():
    delta, weight = np.random.default_rng(0).normal(size=(6, 4)), np.full(6, 1 / 6)
    first = combine(Extrapolated(LatestUpdates()), weight, delta)
    np.testing.assert_allclose(first, combine(Extrapolated(), weight, delta), rtol=1e-5)
    assert Extrapolated(LatestUpdates()).moves_when_empty
    assert not Extrapolated().moves_when_empty


def test_errors_name_the_bad_field():
    with pytest.raises(InvalidInput, match=r"^aggregation\.regulariser = -1"):
        Extrapolated(regulariser=-1.0)
    with pytest.raises(InvalidInput, match=r"^aggregation\.aggregation = 'Accumulated'"):
        Extrapolated(Accumulated())
