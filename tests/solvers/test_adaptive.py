"""Local adaptive optimisers: Adam as everybody knows it, and its moments between rounds."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedtide.errors import InvalidInput
from fedtide.solvers import Adaptive
from fedtide.types import Cohort, Population, Task, Updates

CENTRE = jnp.array([1.0, -3.0])
TASK = Task(4, lambda w, step: (((w - CENTRE) ** 2).sum(), 2 * (w - CENTRE)))
PEOPLE = Population(jnp.full(3, 1 / 3), jnp.ones(3))
W = jnp.zeros(2)


def test_it_is_optax_s_adam():
    solver, reference = Adaptive(0.1, b1=0.8, b2=0.9, epsilon=1e-3), optax.adam(0.1, 0.8, 0.9, 1e-3)
    w, state = W, reference.init(W)
    for step in range(4):
        change, state = reference.update(TASK.gradient(w, step)[1], state)
        w = optax.apply_updates(w, change)
    np.testing.assert_allclose(solver.train(W, TASK, (), ()).w, w, rtol=1e-6)


def test_persistent_moments_go_on_where_they_were():
    """Two rounds of two steps are one round of four."""
    solver, short = Adaptive(0.1, state="persistent"), TASK._replace(steps=2)
    memory = solver.init(PEOPLE, W)
    assert memory.client.first.shape == (3, 2)
    row = type(memory.client)(*(rows[0] for rows in memory.client))
    first = solver.train(W, short, row, ())
    second = solver.train(first.w, short, first.row, ())
    whole = solver.train(W, TASK, row, ())
    np.testing.assert_allclose(second.w, whole.w, rtol=1e-6)
    forgetful = Adaptive(0.1).train(first.w, short, (), ())
    assert not np.allclose(forgetful.w, whole.w)


def test_averaged_moments_stay_where_nobody_is_there():
    solver = Adaptive(0.1, state="averaged")
    shared = solver.train(W, TASK, (), solver.init(PEOPLE, W).shared).message
    rows = type(shared)(*(jnp.zeros((2, *a.shape)) for a in shared))
    nobody = Cohort(jnp.zeros(2, int), jnp.zeros(2, bool), jnp.zeros(2), jnp.full(2, 0.5))
    none = jnp.zeros(2)
    kept, _ = solver.close(shared, nobody, Updates(jnp.zeros((2, 2)), none, none, none, none, rows), (), (), W)
    for a, b in zip(kept, shared, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"rate": -1.0}, "rate"),
        ({"algorithm": "adamax"}, "algorithm"),
        ({"b1": 1.0}, "b1"),
        ({"b2": -0.1}, "b2"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"state": "forgotten"}, "state"),
    ],
)
def test_errors_name_the_bad_field(settings, field):
    with pytest.raises(InvalidInput, match=rf"^solver\.{field} = "):
        Adaptive(**settings)
