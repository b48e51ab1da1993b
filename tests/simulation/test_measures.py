"""Measures of a model: the exact tail of a discrete law, and the means over clients."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from fedtide.simulation.measures import cvar, summarise
from fedtide.types import Evaluation


@pytest.mark.parametrize(("level", "expected"), [(1.0, 1.8), (0.5, 2.6), (0.1, 5.0), (0.01, 5.0)])
def test_cvar_by_hand(level, expected):
    assert float(cvar(np.array([1.0, 2.0, 5.0]), np.array([0.5, 0.4, 0.1]), level)) == pytest.approx(expected)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 1.0))
def test_cvar_is_the_worst_mean_over_laws_of_bounded_density(seed, level):
    """max Σ μ_k z_k over 0 ≤ μ_k ≤ ρ_k / level, Σ μ = 1: its dual form, by linear programming."""
    rng = np.random.default_rng(seed)
    values, weights = rng.normal(size=6), rng.dirichlet(np.ones(6))
    dual = linprog(-values, A_eq=np.ones((1, 6)), b_eq=[1.0], bounds=[(0, w / level) for w in weights])
    assert float(cvar(values, weights, level)) == pytest.approx(-dual.fun, rel=1e-4, abs=1e-5)


def test_the_tail_loss_is_of_the_worst_tenth():
    loss = np.array([1.0, 2.0, 3.0, 4.0])
    found = summarise(Evaluation(loss, np.ones(4, bool), loss, loss / 4), np.array([0.45, 0.45, 0.05, 0.05]))
    assert float(found.tail_loss) == pytest.approx(3.5)
    assert float(found.objective) == pytest.approx(0.45 + 0.9 + 0.15 + 0.2)
    assert np.isnan(found.skew)
    assert found.class_accuracy.shape == (0,)  # a problem without classes
