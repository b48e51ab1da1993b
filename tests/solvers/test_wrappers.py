"""Solvers around solvers: what they refuse, and what they pass on."""

import jax.numpy as jnp
import numpy as np
import pytest

from fedtide.errors import InvalidInput
from fedtide.solvers import (
    AdaptiveSteps,
    ControlVariate,
    Echo,
    GradientTracking,
    Momentum,
    OwnModel,
    PeriodicControlVariate,
    Sgd,
    TailRisk,
)
from fedtide.types import Cohort, Population, Task, Updates
from fedtide.work import RandomSteps, Steps

PEOPLE = Population(jnp.array([0.5, 0.25, 0.25]), jnp.ones(3, int))
W = jnp.zeros(2)


@pytest.mark.parametrize("wrapper", [ControlVariate, PeriodicControlVariate, Echo, OwnModel])
@pytest.mark.parametrize("inner", [OwnModel(), GradientTracking()])
def test_who_needs_the_change_refuses_what_sends_something_else(wrapper, inner):
    with pytest.raises(
        InvalidInput, match=rf"^solver\.solver = '{type(inner).__name__}': must be one that sends the change"
    ):
        wrapper(inner)


@pytest.mark.parametrize("wrapper", [ControlVariate, PeriodicControlVariate, Echo, OwnModel, AdaptiveSteps])
def test_the_work_is_that_of_the_solver_inside(wrapper):
    work = Steps(2)
    assert wrapper(Sgd(work=work)).work is work


@pytest.mark.parametrize(
    ("solver", "sends", "absent"),
    [
        (ControlVariate(), "change", False),
        (ControlVariate(TailRisk(train_everyone=True)), "change", True),
        (Echo(), "model", False),
        (OwnModel(), "model", True),
        (GradientTracking(), "difference", False),
        (AdaptiveSteps(OwnModel()), "model", True),
        (AdaptiveSteps(GradientTracking()), "difference", False),
    ],
)
def test_what_they_send_and_who_trains(solver, sends, absent):
    assert (solver.sends, solver.trains_absent) == (sends, absent)


def test_the_solver_inside_keeps_its_memory():
    inner = Momentum(0.1, persistent=True)
    task = Task(3, lambda w, step: (jnp.float32(1), jnp.ones(2)))
    plain = inner.train(W, task, jnp.ones(2), ())
    for wrapper in (OwnModel, Echo):  # control variates refuse it
        solver = wrapper(inner)
        memory = solver.init(PEOPLE, W)
        row = type(memory.client)(*(rows[0] for rows in memory.client))._replace(inner=jnp.ones(2))
        np.testing.assert_allclose(solver.train(W, task, row, memory.shared).row.inner, plain.row)


def test_controls_of_those_who_train_unheard_stay():
    """c must remain Σ α_k c_k of what the server was told."""
    solver = ControlVariate(TailRisk(train_everyone=True))
    memory = solver.init(PEOPLE, W)
    before = memory.client
    after = before._replace(control=before.control + 1)
    cohort = Cohort(jnp.arange(3), jnp.array([True, False, False]), jnp.array([1.0, 0, 0]), PEOPLE.importance)
    none = jnp.zeros(3)
    updates = Updates(jnp.zeros((3, 2)), none, none, none, none, none)
    shared, rows = solver.close(memory.shared, cohort, updates, before, after, W)
    assert rows.control.tolist() == [[1, 1], [0, 0], [0, 0]]
    assert shared.control.tolist() == [0.5, 0.5]


def test_the_first_steps_are_the_most_that_the_work_asks_of_anybody():
    assert AdaptiveSteps(Sgd(work=Steps(9))).init(PEOPLE, W).shared.steps == 9
    many = Population(jnp.full(200, 1 / 200), jnp.ones(200, int))
    assert AdaptiveSteps(Sgd(work=RandomSteps(2, 5))).init(many, W).shared.steps == 5


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda: AdaptiveSteps(every=0), "every"),
        (lambda: AdaptiveSteps(shrink=0.0), "shrink"),
        (lambda: Echo(amplification=-1.0), "amplification"),
        (lambda: PeriodicControlVariate(period=0), "period"),
        (lambda: GradientTracking(-1.0), "rate"),
        (lambda: TailRisk(-1.0), "rate"),
        (lambda: TailRisk(threshold_rate=-1.0), "threshold_rate"),
        (lambda: TailRisk(level=0.0), "level"),
        (lambda: TailRisk(mix=1.5), "mix"),
    ],
)
def test_errors_name_the_bad_field(build, field):
    with pytest.raises(InvalidInput, match=rf"^solver\.{field} = "):
        build()
