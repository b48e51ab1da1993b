"""FedNova's normalisation: by hand, its identities, and the exact ‖a‖₁ of every solver."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtide.aggregation import Accumulated, LatestUpdates, Normalised, WeightedSum
from fedtide.errors import InvalidInput
from fedtide.solvers import ControlVariate, Momentum, Proximal, Sgd
from fedtide.types import Cohort, Population, Task, Updates

RNG = np.random.default_rng(0)
DELTA = RNG.normal(size=(5, 3))
WEIGHT = np.array([0.1, 0.4, 0.2, 0.3, 0.0])
PRESENT = np.array([True, True, True, True, False])
POPULATION = Population(jnp.full(5, 0.2), jnp.ones(5))


@jax.jit
def combine(rule, mass, delta=DELTA):
    mass, delta = (jnp.where(PRESENT.reshape(-1, *(1,) * (a.ndim - 1)), a, 0) for a in map(jnp.asarray, (mass, delta)))
    rate = jnp.where(PRESENT, 0.1, 0)
    updates = Updates(delta, rate, jnp.ones(5, jnp.int32), mass, rate, round_rate=jnp.zeros(()))
    cohort = Cohort(jnp.arange(5), PRESENT, jnp.asarray(WEIGHT), POPULATION.importance)
    return rule.combine(rule.init(POPULATION, 3), cohort, updates)[0]


def test_by_hand(float64):
    mass = np.array([0.1, 0.5, 0.2, 0.8, 9.0])
    expected = (WEIGHT * mass).sum() * (WEIGHT[:4] / mass[:4]) @ DELTA[:4]
    np.testing.assert_allclose(combine(Normalised(), mass), expected, rtol=1e-13)


def test_weights_that_do_not_sum_to_one_only_scale(float64):
    mass = np.array([0.1, 0.5, 0.2, 0.8, 9.0])
    fixed = Cohort(jnp.arange(5), jnp.asarray(PRESENT), jnp.asarray(WEIGHT / 3), POPULATION.importance)
    rate = jnp.full(5, 0.1)
    updates = Updates(jnp.asarray(DELTA), rate, rate, jnp.where(PRESENT, mass, 0), rate)
    np.testing.assert_allclose(Normalised().combine((), fixed, updates)[0], combine(Normalised(), mass) / 3, rtol=1e-12)


def test_equal_work_changes_no_bit():
    mass = np.full(5, 0.7, np.float32)
    np.testing.assert_array_equal(combine(Normalised(), mass), combine(WeightedSum(), mass))


def test_who_did_not_work_counts_nothing(float64):
    mass = np.array([0.0, 0.5, 0.2, 0.8, 0.0])
    found = combine(Normalised(), mass)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, combine(Normalised(), mass, np.where(mass[:, None] > 0, DELTA, 0)), rtol=1e-13)


def test_coordinates_of_equal_mass_are_the_scalar_rule(float64):
    mass = np.array([0.1, 0.5, 0.2, 0.8, 9.0])
    wide = combine(Normalised(), np.repeat(mass[:, None], 3, axis=1))
    np.testing.assert_allclose(wide, combine(Normalised(), mass), rtol=1e-13)


def test_each_coordinate_has_its_own_correction(float64):
    mass = RNG.uniform(0.1, 1, (5, 3))
    found = combine(Normalised(), mass)
    for j in range(3):
        np.testing.assert_allclose(found[j], combine(Normalised(), mass[:, j])[j], rtol=1e-13)


def test_it_goes_around_other_rules():
    assert Normalised(LatestUpdates()).moves_when_empty
    mass = np.array([0.1, 0.5, 0.2, 0.8, 9.0], np.float32)
    first = combine(Normalised(LatestUpdates()), mass)
    np.testing.assert_allclose(first, combine(Normalised(), mass), rtol=1e-6)
    with pytest.raises(InvalidInput, match=r"^aggregation\.aggregation = 'Accumulated'"):
        Normalised(Accumulated())


def geometric(ratio, steps):
    return sum(ratio**i for i in range(steps))


def momentum_sum(decay, steps):
    return (steps - decay * (1 - decay**steps) / (1 - decay)) / (1 - decay)


@pytest.mark.parametrize(
    ("solver", "expected"),
    [
        (Sgd(0.3), 7),
        (Momentum(0.3, 0.9), momentum_sum(0.9, 7)),
        (Proximal(0.3, mu=0.1), geometric(1 - 0.03, 7)),
        (Proximal(0.3, mu=0.1, decay=0.9), 21.62),  # the authors' code has 27.37
        (ControlVariate(Momentum(0.3, 0.9)), momentum_sum(0.9, 7)),
    ],
)
def test_the_mass_is_the_sum_of_the_coefficients(float64, solver, expected):
    """With a gradient of 1 in every step Δ is η‖a‖₁ itself: what the solver says, and what theory says."""
    memory = solver.init(Population(jnp.ones(1), jnp.ones(1, jnp.int32)), jnp.zeros(1))
    row = jax.tree.map(lambda a: a[0], memory.client)
    task = Task(7, lambda w, step: (jnp.zeros(()), jnp.ones(1)))
    trained = jax.jit(lambda s: s.train(jnp.zeros(1), task, row, memory.shared))(solver)
    np.testing.assert_allclose(-trained.w[0], trained.mass, rtol=1e-13)
    np.testing.assert_allclose(trained.mass / 0.3, expected, rtol=2.5e-4 if expected == 21.62 else 1e-12)
