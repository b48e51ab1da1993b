"""The running sum of differences."""

import jax
import jax.numpy as jnp
import numpy as np

from fedtide.aggregation import Accumulated
from fedtide.types import Cohort, Population, Updates


def test_it_is_the_weighted_sum_of_what_everybody_sent_last():
    rng = np.random.default_rng(0)
    alpha = np.array([0.2, 0.3, 0.5], np.float32)
    present = rng.random((9, 3)) < 0.5
    present[4] = False
    sent = rng.normal(size=(9, 3, 2))
    last, differences, expected = np.zeros((3, 2)), [], []
    for here, new in zip(present, sent, strict=True):
        differences.append(np.where(here[:, None], new - last, 0))
        last = np.where(here[:, None], new, last)
        expected.append(alpha @ last)

    @jax.jit
    def play(differences):
        rule, ones = Accumulated(), jnp.ones(3)

        def one(state, row):
            here, delta = row
            cohort = Cohort(jnp.arange(3), here, jnp.where(here, alpha, 0), alpha)
            return rule.combine(state, cohort, Updates(delta, ones, ones, ones, ones))[::-1]

        return jax.lax.scan(one, rule.init(Population(alpha, ones), 2), (present, differences))[1]

    np.testing.assert_allclose(play(jnp.asarray(np.stack(differences), jnp.float32)), expected, rtol=1e-4, atol=1e-6)
    assert Accumulated().moves_when_empty
    assert Accumulated().takes == ("difference",)
