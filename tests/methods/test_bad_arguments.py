"""Every argument of every method of the catalogue refuses what it cannot be, in one line that names it."""

import inspect
import typing

import jax
import numpy as np
import pytest

from fedtide import methods as m
from fedtide.errors import InvalidInput
from fedtide.schedules import Constant
from fedtide.solvers import Sgd
from fedtide.types import Estimator, Schedule, Staleness, Work

NAN, INF = float("nan"), float("inf")
NOT_NUMBERS = (NAN, -INF, "x", "0.1", True, False, [0.1], {}, 1j)
NOT_WHOLE = (0.5, 2.0, NAN, INF, "x", "2", True, [2], -1)
NOT_FLAGS = ("no", "", 0, 1, None, 0.0, [])
NOT_PARTS = ("x", 3, None, {}, Sgd, Sgd())
NOT_WORDS = ("x", 0, "", True, 0.5)
ANY_SIGN = {"fed_cvar_avg.start"}
MAY_BE_INFINITE = {"ca_fed.kappa_squared"}
MAY_BE_ZERO = {"debiased_fedavg.separation", "krum.attackers"}
ARRAYS = {"cluster_fedvarp.assignment"}  # tests/aggregation/test_cluster_memory.py
# What the part calls it that the argument is handed to.
FIELDS = {"server_rate": "server.rate", "candidates": "participation.pool", "batch": "work.batch"}


def members(hint):
    inside = [hint] if typing.get_origin(hint) is typing.Literal else typing.get_args(hint) or [hint]
    return {typing.Literal if typing.get_origin(h) is typing.Literal else h for h in inside}


HINTS = {
    f"{name}.{argument}": members(typing.get_type_hints(entry.build)[argument])
    for name, entry in m.CATALOGUE.items()
    for argument in inspect.signature(entry.build).parameters
}
OPTIONAL = {argument for argument, kinds in HINTS.items() if type(None) in kinds}


def all_of(*kinds):
    return [argument for argument, found in HINTS.items() if found & set(kinds)]


def refuses(argument, value):
    name, _, key = argument.partition(".")
    with pytest.raises(InvalidInput) as caught:
        m.CATALOGUE[name].build(**{key: value})
    line = str(caught.value)
    field, _, _ = line.partition(" = ")
    assert field == FIELDS.get(key, key) or field.endswith(f".{key}"), line
    assert ": must be " in line
    assert "\n" not in line


def test_every_argument_is_of_a_kind_that_is_tested_here():
    tested = {
        *all_of(float),
        *all_of(int),
        *all_of(bool),
        *all_of(Work, Schedule, Staleness, Estimator),
        *all_of(typing.Literal),
    }
    assert set(HINTS) - tested == ARRAYS
    assert set(HINTS) >= ANY_SIGN | MAY_BE_INFINITE | MAY_BE_ZERO


@pytest.mark.parametrize("argument", all_of(float))
def test_numbers(argument):
    wrong = [*NOT_NUMBERS]
    wrong += [] if argument in OPTIONAL else [None]
    wrong += [] if argument in ANY_SIGN else [-1.0, -1, -1e-9]
    wrong += [] if argument in MAY_BE_INFINITE else [INF]
    for value in wrong:
        refuses(argument, value)


@pytest.mark.parametrize("argument", all_of(int))
def test_whole_numbers(argument):
    wrong = [*NOT_WHOLE]
    wrong += [] if argument in MAY_BE_ZERO else [0]
    for value in wrong:
        refuses(argument, value)


@pytest.mark.parametrize("argument", all_of(bool))
def test_flags(argument):
    for value in NOT_FLAGS:
        refuses(argument, value)


@pytest.mark.parametrize("argument", all_of(Work, Schedule, Staleness, Estimator))
def test_parts(argument):
    for value in NOT_PARTS:
        refuses(argument, value)


@pytest.mark.parametrize("argument", all_of(typing.Literal))
def test_words(argument):
    for value in NOT_WORDS:
        refuses(argument, value)


@pytest.mark.parametrize("argument", sorted(MAY_BE_INFINITE | ANY_SIGN | MAY_BE_ZERO | OPTIONAL))
def test_the_exceptions_are_allowed(argument):
    name, _, key = argument.partition(".")
    value = (
        INF if argument in MAY_BE_INFINITE else -1.0 if argument in ANY_SIGN else 0 if argument in MAY_BE_ZERO else None
    )
    m.CATALOGUE[name].build(**{key: value})


@pytest.mark.parametrize("argument", all_of(float))
def test_numbers_may_come_from_numpy_and_jax(argument):
    name, _, key = argument.partition(".")
    build = m.CATALOGUE[name].build
    value = inspect.signature(build).parameters[key].default
    value = 0.5 if value is None else value
    for number in (np.float32(value), np.float64(value), np.asarray(value), jax.numpy.asarray(value)):
        build(**{key: number})


@pytest.mark.parametrize(
    ("build", "one", "other"),
    [
        (m.fedexp, {"mu": 0.0}, {"mu": 0.1}),
        (m.fednova, {"mu": 0.0, "momentum": 0.0}, {"mu": 0.1, "momentum": 0.5}),
        (m.fedadam, {"b1": 0, "b2": 0}, {"b1": 0.5, "b2": 0.9}),
        (m.fedyogi, {"b1": 0, "epsilon": 1}, {"b1": 0.5, "epsilon": 1e-3}),
        (m.fedavgm, {"momentum": 0}, {"momentum": 0.9}),
        (m.local_adaptive, {}, {"b2": 0.5}),
    ],
)
def test_numbers_can_be_swept_from_0(build, one, other):
    """Methods that differ in numbers only are one program: `fedtide.sweep` asks for one structure."""
    assert jax.tree.structure(build(**one)) == jax.tree.structure(build(**other))


def test_adagrad_has_no_b2():
    refuses_b2 = r"^solver\.b2 = 0\.5: must be left out: adagrad does not discount$"
    with pytest.raises(InvalidInput, match=refuses_b2):
        m.local_adaptive(algorithm="adagrad", b2=0.5)
    assert m.local_adaptive(algorithm="adagrad").solver.b2 is None
    assert m.local_adaptive().solver.b2 == 0.99


@pytest.mark.parametrize("kind", ["estimator", "participation", "solver", "aggregation", "server"])
def test_a_method_refuses_what_is_no_part_of_the_kind(kind):
    for value in ("x", None, 3, {}, Constant(), type(getattr(m.fedavg(), kind))):
        with pytest.raises(InvalidInput, match=rf"^{kind} = .*: must be an? "):
            m.compose(m.fedavg(), **{kind: value})
