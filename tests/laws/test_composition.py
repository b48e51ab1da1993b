"""Any part goes with any other: every pair of parts runs three rounds, or is refused with the reason.

The methods are a covering array: as few as possible such that each pair of parts of different kinds is in one of them.
All of them: pytest tests/laws/test_composition.py -m "slow or not slow".
"""

import dataclasses
import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import laws.parts
import numpy as np
import pytest

import fedtide
from fedtide import aggregation as a
from fedtide import estimators as e
from fedtide import participation as p
from fedtide import servers
from fedtide import solvers as s
from fedtide.methods import Method
from fedtide.simulation.replica import Carry, Shape, initial, replica
from fedtide.types import Population
from fedtide.work import Steps

CLIENTS, DIMENSION, ROUNDS = 6, 3, 4
WORK = Steps(2, batch=1)


def first_of_each(parts: dict[str, Any]) -> list[Any]:
    """One part of each class."""
    return list({type(part): part for part in reversed(parts.values())}.values())[::-1]


def quick(solver: Any) -> Any:
    """The solver with little work, and rates at which every composition is stable."""
    if hasattr(solver, "solver"):
        return dataclasses.replace(solver, solver=quick(solver.solver))
    return dataclasses.replace(solver, rate=0.05, work=WORK)


PARTS = {
    "estimator": first_of_each(laws.parts.ESTIMATORS),
    # Solvers that send differences need weights that do not change.
    "participation": [*first_of_each(laws.parts.POLICIES), p.Everyone("fixed")],
    "solver": [quick(solver) for solver in first_of_each(laws.parts.SOLVERS)],
    "aggregation": first_of_each(laws.parts.AGGREGATIONS),
    "server": first_of_each(laws.parts.SERVERS),
}
PACKAGES = {"estimator": e, "participation": p, "solver": s, "aggregation": a, "server": servers}
KINDS = list(PARTS)
Choice = tuple[int, ...]  # one part of each kind, by its place in PARTS


def method_of(choice: Choice) -> Method:
    return Method("composed", *(PARTS[kind][i] for kind, i in zip(KINDS, choice, strict=True)))


def pairs_of(choice: Choice) -> set[tuple[tuple[int, int], tuple[int, int]]]:
    return set(itertools.combinations(enumerate(choice), 2))


def fits(choice: Choice) -> bool:
    try:
        method_of(choice)
    except fedtide.FedtideError:
        return False
    return True


def covering() -> list[Choice]:
    """Methods that hold every possible pair, greedily: each adds as many new pairs as one of some candidates can."""
    everything = itertools.product(*(range(len(parts)) for parts in PARTS.values()))
    allowed = [choice for choice in everything if fits(choice)]
    missing = set().union(*(pairs_of(choice) for choice in allowed))
    rng, chosen = np.random.default_rng(0), []
    while missing:
        some = [allowed[i] for i in rng.integers(0, len(allowed), 300)]
        best = max(some, key=lambda choice: len(pairs_of(choice) & missing))
        if not pairs_of(best) & missing:  # the last few pairs are rare: look for one of them
            wanted = next(iter(sorted(missing)))
            best = next(choice for choice in allowed if wanted in pairs_of(choice))
        chosen.append(best)
        missing -= pairs_of(best)
    return chosen


class World(NamedTuple):
    problem: Any
    population: Population
    available: np.ndarray  # [T, N]; nobody is there in round 1


@pytest.fixture(scope="module")
def world() -> World:
    from fedtide.problems.quadratic import random_quadratic

    problem = jax.tree.map(lambda v: jnp.asarray(v, jnp.float32), random_quadratic(CLIENTS, DIMENSION, seed=0))
    available = np.ones((ROUNDS, CLIENTS), bool)
    available[0, 2], available[1], available[3, 4], available[:, 5] = False, False, False, False
    labels = np.random.default_rng(0).integers(1, 9, (CLIENTS, 3))
    population = Population(
        jnp.full(CLIENTS, 1 / CLIENTS), jnp.ones(CLIENTS, jnp.int32), jnp.linspace(0.3, 0.9, CLIENTS),
        jnp.linspace(0, 0.8, CLIENTS), jnp.zeros(CLIENTS), jnp.asarray(labels, jnp.float32),
    )  # fmt: skip
    return World(problem, population, available)


def test_every_public_part_is_here():
    for kind, package in PACKAGES.items():
        public = {getattr(package, name) for name in package.__all__ if isinstance(getattr(package, name), type)}
        assert public == {type(part) for part in PARTS[kind]}, kind


def marked(choices: list[Choice]) -> list[Any]:
    """Those always with which every part is there once; the others, minutes of compilation, on demand."""
    seen: set[tuple[int, int]] = set()
    found = []
    for choice in choices:
        new = set(enumerate(choice)) - seen
        seen |= new
        marks = () if new else (pytest.mark.slow,)
        found.append(pytest.param(choice, id="-".join(map(str, choice)), marks=marks))
    return found


@pytest.mark.parametrize("choice", marked(covering()))
def test_it_runs_and_keeps_the_laws(choice, world, haste):
    method = method_of(choice)
    before, (carries, (rounds, clients, faults)) = jax.tree.map(np.asarray, _play(method, world, haste))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((carries.w, rounds.step, clients.weight)))
    assert not faults.any()
    assert not (clients.invited & ~world.available).any()
    assert (clients.weight[~clients.invited] == 0).all()
    np.testing.assert_array_equal(rounds.invited, clients.invited.sum(1))
    assert rounds.invited[1] == 0
    if not (method.aggregation.moves_when_empty or isinstance(method.server, servers.Amplified)):
        np.testing.assert_array_equal(carries.w[1], carries.w[0])
    assert rounds.step.max() > 0
    # Client 5 is never there: what it remembers is what it began with, unless it trains on its own.
    if not method.solver.trains_absent:
        for first, last in zip(*map(jax.tree.leaves, (before.solver.client, carries.solver.client)), strict=True):
            np.testing.assert_array_equal(last[-1, 5], first[5])


def _play(method: Method, world: World, haste: dict[str, Any]) -> tuple[Carry, Any]:
    shape = Shape(1, ROUNDS, CLIENTS, CLIENTS, None, record_clients=True)

    def run(method: Method, problem: Any, population: Population, available: jax.Array) -> Any:
        one = replica(method, problem, population, jnp.uint32(0), shape)
        start = initial(method, population, jnp.zeros(DIMENSION))

        def step(carry: Carry, inputs: Any) -> tuple[Carry, Any]:
            carry, record = one.round(carry, inputs)
            return carry, (carry, record)

        return start, jax.lax.scan(step, start, (jnp.arange(ROUNDS), available))[1]

    return jax.jit(run, compiler_options=haste)(method, world.problem, world.population, world.available)


REFUSED = [
    ({"estimator": e.Blind(), "participation": p.Unbiased()}, "estimator = 'Blind': must be one that estimates π̂"),
    (
        {"estimator": e.Interval(), "participation": p.CorrelationAware()},
        "estimates λ̂, such as Bayesian: CorrelationAware uses it",
    ),
    (
        {"solver": s.GradientTracking()},
        "aggregation = 'WeightedSum': must be one that takes the change since the client's last upload",
    ),
    ({"solver": s.OwnModel(), "aggregation": a.LatestUpdates()}, "takes the client's own model, which OwnModel sends"),
    (
        {"solver": s.GradientTracking(), "aggregation": a.Accumulated()},
        "participation = 'Everyone': must be one whose weights do not change from round to round",
    ),
    (
        {"solver": s.Echo(), "participation": p.UniformSample(3, "scaled")},
        "participation = 'UniformSample': must be one whose weights sum to 1",
    ),
    (
        {"solver": s.Momentum(persistent=True), "aggregation": a.Normalised()},
        "does not normalise updates: those of Momentum contain gradients of earlier rounds",
    ),
    (
        {"solver": s.Adaptive(state="averaged"), "aggregation": a.Extrapolated(a.Normalised())},
        "does not normalise updates",
    ),
    ({"aggregation": a.Accumulated()}, "takes the change made by training, which Sgd sends"),
]


@pytest.mark.parametrize(("parts", "reason"), REFUSED)
def test_nonsense_is_refused_with_the_reason(parts, reason):
    with pytest.raises(fedtide.FedtideError, match=reason):
        fedtide.compose(fedtide.methods.fedavg(), **parts)


@pytest.mark.parametrize(
    "build",
    [
        lambda: s.ControlVariate(s.GradientTracking()),
        lambda: s.Echo(s.OwnModel()),
        lambda: s.ControlVariate(s.Momentum(persistent=True)),
        lambda: s.PeriodicControlVariate(s.Adaptive(state="persistent")),
        lambda: p.Subsample(p.LeastRecent(3), 2),
        lambda: a.Normalised(a.Accumulated()),
        lambda: a.Extrapolated(a.Accumulated()),
    ],
)
def test_wrappers_refuse_what_they_cannot_wrap(build):
    with pytest.raises(fedtide.FedtideError, match=r"must be one (that|without)"):
        build()


def test_replaced_parts_show_in_the_title():
    from fedtide.methods.base import title_of

    base = fedtide.methods.ca_fed()
    assert title_of(base) == "CA-Fed"
    assert title_of(fedtide.compose(base, solver=s.Sgd(0.3))) == "CA-Fed"
    both = fedtide.compose(base, solver=s.Proximal(), aggregation=a.LatestUpdates())
    assert title_of(both) == "CA-Fed with Proximal, LatestUpdates"
