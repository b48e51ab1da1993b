"""The memory of latest updates against a few lines of NumPy, and its identities."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtide.aggregation import LatestUpdates, WeightedSum
from fedtide.errors import InvalidInput
from fedtide.types import Cohort, Population, Updates

ROUNDS, CLIENTS, ROWS, DIMENSION = 12, 6, 4, 3
ALPHA = np.arange(1.0, CLIENTS + 1) / np.arange(1.0, CLIENTS + 1).sum()


# Who takes part with what update, round after round; nobody in rounds 0 and 7.
RNG = np.random.default_rng(0)
PRESENT = np.arange(ROWS) < RNG.integers(1, ROWS + 1, (ROUNDS, 1))
PRESENT[[0, 7]] = False
CLIENT = np.stack([np.sort(RNG.permutation(CLIENTS)[:ROWS]) for _ in range(ROUNDS)])
WEIGHT = np.where(PRESENT, RNG.uniform(0.1, 1, (ROUNDS, ROWS)), 0)
DELTA = np.where(PRESENT[..., None], RNG.normal(size=(ROUNDS, ROWS, DIMENSION)), 0)
RATE = np.full(ROUNDS, 0.1)


@jax.jit
def play(rule, present, client, weight, delta, rate):
    """Directions of all rounds, and the state after each."""

    def one(state, row):
        present, client, weight, delta, rate = row
        rates, nothing = jnp.where(present, rate, 0), jnp.zeros(len(present))
        updates = Updates(delta, nothing, jnp.ones(len(present), jnp.int32), rates, rates, round_rate=rate)
        direction, state = rule.combine(state, Cohort(client, present, weight, jnp.asarray(ALPHA)[client]), updates)
        return state, (direction, state)

    state = rule.init(Population(jnp.asarray(ALPHA), jnp.ones(CLIENTS)), delta.shape[-1])
    return jax.lax.scan(one, state, (present, client, weight, delta, rate))[1]


def run(rule, weight=WEIGHT, delta=DELTA, rate=RATE):
    return play(rule, PRESENT, CLIENT, weight, delta, rate)


def by_hand(trust):
    y, found = np.zeros((CLIENTS, DIMENSION)), []
    for t in range(ROUNDS):
        here, q, delta = CLIENT[t][PRESENT[t]], WEIGHT[t], DELTA[t]
        fresh = sum((q[i] * (delta[i] - trust * y[k]) for i, k in enumerate(here)), np.zeros(DIMENSION))
        found.append(trust * ALPHA @ y + fresh)
        y[here] = delta[: len(here)]
    return np.stack(found)


@pytest.mark.parametrize("trust", [0.0, 0.4, 1.0])
def test_it_is_the_equation(float64, trust):
    np.testing.assert_allclose(run(LatestUpdates(trust))[0], by_hand(trust), rtol=1e-12, atol=1e-14)


def test_without_trust_it_is_the_weighted_sum_to_the_bit():
    direction, _ = run(LatestUpdates(0.0))
    np.testing.assert_array_equal(direction, run(WeightedSum())[0])


def test_the_first_update_is_the_weighted_sum_to_the_bit():
    np.testing.assert_array_equal(run(LatestUpdates())[0][:2], run(WeightedSum())[0][:2])


def test_with_fixed_weights_the_memory_is_updated_first(float64):
    """FedVARP's equation with q = α is MIFA's: v = Σ α_j y_j with the new y."""
    fixed = np.where(PRESENT, ALPHA[CLIENT], 0)
    direction, state = run(LatestUpdates(), weight=fixed)
    np.testing.assert_allclose(direction, 0.1 * np.einsum("k,tkd->td", ALPHA, state.rows), rtol=1e-12, atol=1e-15)


def test_the_running_mean_is_the_mean(float64):
    _, state = run(LatestUpdates())
    np.testing.assert_allclose(state.mean, np.einsum("k,tkd->td", ALPHA, state.rows), atol=1e-14)


def test_nobody_steps_along_the_memory_and_changes_nothing(float64):
    direction, state = run(LatestUpdates())
    assert not np.asarray(direction[0]).any()
    np.testing.assert_allclose(direction[7], 0.1 * state.mean[6], rtol=1e-12)
    np.testing.assert_array_equal(state.rows[7], state.rows[6])
    np.testing.assert_array_equal(state.mean[7], state.mean[6])


def test_old_updates_count_at_the_present_rate(float64):
    """Rates that halve, and updates with them: the direction halves with the rate, as if rates were constant."""
    decay = 0.5 ** np.arange(ROUNDS)
    constant, _ = run(LatestUpdates(0.4))
    decayed, _ = run(LatestUpdates(0.4), delta=DELTA * decay[:, None, None], rate=RATE * decay)
    np.testing.assert_allclose(decayed, constant * decay[:, None], rtol=1e-12)


def test_a_rate_of_zero_is_harmless():
    direction, state = run(LatestUpdates(), delta=0 * DELTA, rate=0 * RATE)
    assert not np.asarray(direction).any()
    assert np.isfinite(state.rows).all()


def test_waiting_ends_when_everybody_has_been_there(float64):
    waiting, state = run(LatestUpdates(wait=True))
    waits = ~np.asarray(state.participated).all(axis=1)
    assert 2 < waits.sum() < ROUNDS
    assert not np.asarray(waiting)[waits].any()
    np.testing.assert_array_equal(waiting[~waits], run(LatestUpdates())[0][~waits])


def test_masked_rows_change_no_bit():
    pad = [(0, 0), (0, 5)]
    wide = [np.pad(a, pad + [(0, 0)] * (a.ndim - 2)) for a in (PRESENT, CLIENT, WEIGHT, DELTA)]
    found, _ = play(LatestUpdates(0.7), *wide, RATE)
    np.testing.assert_array_equal(found, run(LatestUpdates(0.7))[0])


def test_rows_are_written_in_place():
    """No copy of all rows within the loop over rounds."""

    def rounds(rule, state, cohort, updates):
        def one(state, i):
            direction, state = rule.combine(state, cohort._replace(client=cohort.client + i), updates)
            return state, direction[0]

        return jax.lax.scan(one, state, jnp.arange(3))

    rule, ones = LatestUpdates(), jnp.ones(4)
    state = rule.init(Population(jnp.full(371, 1 / 371), jnp.ones(371)), 53)
    cohort = Cohort(jnp.arange(4), ones > 0, ones, ones / 371)
    updates = Updates(jnp.ones((4, 53)), ones, ones, ones, ones, round_rate=ones[0])
    compiled = jax.jit(rounds, donate_argnums=1).lower(rule, state, cohort, updates).compile().as_text()
    assert re.search(r"f32\[371,53\]", compiled)
    assert not re.search(r"= f32\[371,53\]\S* copy\(", compiled)


@pytest.mark.parametrize("trust", [-0.1, 1.1])
def test_errors_name_the_bad_field(trust):
    with pytest.raises(InvalidInput, match=r"^aggregation\.trust = "):
        LatestUpdates(trust)
