"""What numbers, flags and parts may be."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtide import aggregation as a
from fedtide import participation as p
from fedtide import servers
from fedtide import solvers as s
from fedtide.errors import InvalidInput, flag, number, whole
from fedtide.work import RandomSteps


@pytest.mark.parametrize(
    ("limits", "wrong", "allowed"),
    [
        ({}, (), ""),
        ({"low": 0}, (-1, -1e-30), "0 or more"),
        ({"low": 1}, (0.999,), "in [1, ∞)"),
        ({"above": 0}, (0, -0.0), "positive"),
        ({"low": 0, "below": 1}, (-0.1, 1, 1.5), "in [0, 1)"),
        ({"above": 0, "high": 1}, (0, 1.1), "in (0, 1]"),
        ({"low": 0, "high": 1}, (-0.1, 1.1), "in [0, 1]"),
        ({"above": 0, "below": 1}, (0, 1), "in (0, 1)"),
        ({"high": 1}, (1.1,), "in (−∞, 1]"),
        ({"above": 0, "allowed": "a positive pseudo-count"}, (0,), "a positive pseudo-count"),
    ],
)
def test_a_number_outside_its_range_is_told_the_range(limits, wrong, allowed):
    assert number("rate", 1 if limits.get("above") is None and not limits.get("below") else 0.5, **limits) > 0
    for value in wrong:
        with pytest.raises(InvalidInput) as caught:
            number("rate", value, **limits)
        assert str(caught.value) == f"rate = {value!r}: must be {allowed}"


@pytest.mark.parametrize("value", ["x", "1", None, True, np.True_, float("nan"), 1j, [1.0], object(), 10**400])
def test_what_is_no_number_is_told_so(value):
    for infinite, kind in ((False, "a finite number"), (True, "a number")):
        with pytest.raises(InvalidInput, match=rf"^rate = .*: must be {kind}, 0 or more$"):
            number("rate", value, low=0, infinite=infinite)
    with pytest.raises(InvalidInput, match=r": must be a finite number$"):
        number("rate", value)


def test_infinity_is_for_those_who_allow_it():
    assert number("rate", np.inf, low=0, infinite=True) == np.inf
    with pytest.raises(InvalidInput, match=r"^rate = inf: must be a finite number, 0 or more$"):
        number("rate", np.inf, low=0)
    with pytest.raises(InvalidInput, match=r"^rate = -inf: must be 0 or more$"):
        number("rate", -np.inf, low=0, infinite=True)


def test_whole_numbers_become_floats_and_others_stay_as_they_are():
    assert type(number("rate", 1)) is float
    for value in (0.5, np.float32(0.5), np.int64(1), jnp.float32(0.5), np.array([0.1, 0.2])):
        assert number("rate", value, low=0) is value


def test_parts_can_be_rebuilt_around_arrays_and_around_what_is_traced():
    part = s.Proximal(0.1, mu=0.0)
    for rate in (np.float32(0.2), jnp.float32(0.2), jnp.array([0.1, 0.2])):
        assert dataclasses.replace(part, rate=rate).rate is rate
    with pytest.raises(InvalidInput, match=r"^solver\.rate = Array\(\[ ?0\.1, -0\.2\].*\): must be 0 or more$"):
        dataclasses.replace(part, rate=jnp.array([0.1, -0.2]))
    assert jax.jit(lambda rate: dataclasses.replace(part, rate=rate).rate)(0.3) == np.float32(0.3)


def test_only_booleans_are_flags():
    flag("wait", True)
    flag("wait", np.False_)
    with pytest.raises(InvalidInput, match=r"^wait = 'no': must be True or False$"):
        flag("wait", "no")


@pytest.mark.parametrize(
    ("build", "line"),
    [
        (lambda: s.Momentum(persistent="no"), "solver.persistent = 'no': must be True or False"),
        (lambda: RandomSteps(fixed=1), "work.fixed = 1: must be True or False"),
        (lambda: s.Sgd(work="x"), "solver.work = 'x': must be local work such as Steps()"),
        (lambda: s.Sgd(schedule=3), "solver.schedule = 3: must be a schedule such as Constant()"),
        (lambda: s.ControlVariate("x"), "solver.solver = 'x': must be a solver such as Sgd()"),
        (lambda: s.AdaptiveSteps(None), "solver.solver = None: must be a solver such as Sgd()"),
        (
            lambda: s.OwnModel(s.Sgd),
            "solver.solver = <class 'fedtide.solvers.sgd.Sgd'>: must be a solver such as Sgd()",
        ),
        (lambda: a.Normalised(1), "aggregation.aggregation = 1: must be an aggregation rule such as WeightedSum()"),
        (lambda: servers.Amplified(1), "server.server = 1: must be a server such as Optimiser()"),
        (lambda: servers.AverageOfLastTwo(1), "server.server = 1: must be a server such as Optimiser()"),
        (lambda: servers.Projected({}, 1.0), "server.server = {}: must be a server such as Optimiser()"),
        (lambda: p.Subsample(1, 1), "participation.policy = 1: must be a participation policy such as Everyone()"),
    ],
)
def test_parts_of_parts(build, line):
    with pytest.raises(InvalidInput) as caught:
        build()
    assert str(caught.value) == line


@pytest.mark.parametrize(
    ("value", "limits", "allowed"),
    [
        (-1, (0,), "a whole number, 0 or more"),
        (True, (0,), "a whole number, 0 or more"),
        (1.0, (0,), "a whole number, 0 or more"),
        (2**31, (0,), "a whole number, 2,147,483,647 or less"),
        (11, (0, 10), "a whole number, 10 or less"),
    ],
)
def test_a_whole_number_has_two_limits(value, limits, allowed):
    with pytest.raises(InvalidInput) as caught:
        whole("rounds", value, *limits)
    assert str(caught.value) == f"rounds = {value!r}: must be {allowed}"
    assert whole("rounds", np.int64(limits[-1]), *limits) == limits[-1]
