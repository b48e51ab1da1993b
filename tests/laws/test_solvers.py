"""Laws that every solver keeps. A new solver is one line in `parts`."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from laws.parts import SOLVERS

from fedtide import solvers as s
from fedtide.schedules import Constant, Geometric, PerClient, PowerDecay
from fedtide.types import Population, Task
from fedtide.work import Steps

CLIENTS, DIMENSION = 5, 7
RNG = np.random.default_rng(0)
CURVATURE = RNG.uniform(0.5, 2, (CLIENTS, DIMENSION)).astype(np.float32)
CENTRE = RNG.normal(size=(CLIENTS, DIMENSION)).astype(np.float32)
NOISE = RNG.normal(size=(CLIENTS, 16, DIMENSION)).astype(np.float32)
START = RNG.normal(size=DIMENSION).astype(np.float32)
POPULATION = Population(np.full(CLIENTS, 1 / CLIENTS), np.full(CLIENTS, 10))


def task(curvature, centre, noise, steps):
    """F(w) = ½ Σ h (w − c)², with other gradient noise in each step."""

    def gradient(w, step):
        return 0.5 * (curvature * (w - centre) ** 2).sum(), curvature * (w - centre) + noise[step]

    return Task(steps, gradient)


def train(solver, row, shared, curvature, centre, noise, steps):
    return solver.train(jnp.asarray(START), task(curvature, centre, jnp.asarray(noise), steps), row, shared)


@pytest.fixture(scope="module")
def jit(haste):
    return functools.partial(jax.jit, compiler_options=haste)


@pytest.fixture(scope="module")
def train_traced(jit):
    """`train` as one program for any number of steps and any rates."""
    return jit(train)


@pytest.fixture(scope="module", params=SOLVERS)
def solver(request):
    return SOLVERS[request.param]


@pytest.fixture(scope="module")
def memory(solver):
    """What the solver remembers, filled with numbers as if it had trained before; who attacks stays."""
    return jax.tree.map(lambda a: a if a.dtype == bool else a + 0.1, solver.init(POPULATION, jnp.asarray(START)))


def inner_of(solver):
    """The solver that takes the steps, where one wraps another."""
    return getattr(solver, "solver", solver)


def row_of(memory, k):
    return jax.tree.map(lambda a: a[k], memory.client)


def test_all_clients_at_once_are_the_clients_one_by_one(solver, memory, jit, train_traced):
    steps = np.array([3, 0, 5, 1, 4])  # traced, and different
    batch = jit(jax.vmap(train, in_axes=(None, 0, None, 0, 0, 0, 0)))
    together = batch(solver, memory.client, memory.shared, CURVATURE, CENTRE, NOISE, steps)
    for k in range(CLIENTS):
        alone = train_traced(solver, row_of(memory, k), memory.shared, CURVATURE[k], CENTRE[k], NOISE[k], steps[k])
        jax.tree.map(lambda a, b, k=k: np.testing.assert_allclose(a[k], b, rtol=1e-6), together, alone)


@pytest.mark.parametrize("steps", [0, np.int32(0)])
def test_no_steps_are_no_update(solver, memory, train_traced, steps):
    row = row_of(memory, 0)
    run = train if isinstance(steps, int) else train_traced
    trained = run(solver, row, memory.shared, CURVATURE[0], CENTRE[0], NOISE[0], steps)
    if solver.sends != "model":  # one that keeps its own model sends that
        np.testing.assert_array_equal(trained.w, START)
        jax.tree.map(np.testing.assert_array_equal, trained.row, row)
    assert float(trained.loss) == int(trained.steps) == 0
    assert (np.asarray(trained.mass) == 0).all()


def test_a_known_number_of_steps_is_that_number(solver, memory, jit, train_traced):
    arguments = (solver, row_of(memory, 0), memory.shared, CURVATURE[0], CENTRE[0], NOISE[0])
    for steps in (4, 12):  # unrolled, and not
        known = jit(lambda *a, steps=steps: train(*a, steps))(*arguments)
        traced = train_traced(*arguments, np.int32(steps))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), known, traced)


def test_the_loss_is_the_mean_over_the_steps(solver, memory, train_traced):
    arguments = (row_of(memory, 0), memory.shared, CURVATURE[0], CENTRE[0], NOISE[0])
    if solver.sends != "change":
        pytest.skip("what it sends is not where it stands")
    seen = []
    for steps in range(3):
        w = train_traced(solver, *arguments, np.int32(steps)).w
        seen.append(0.5 * (CURVATURE[0] * (np.asarray(w) - CENTRE[0]) ** 2).sum())
    assert float(train_traced(solver, *arguments, np.int32(3)).loss) == pytest.approx(np.mean(seen), rel=1e-5)


def test_the_mass_is_what_multiplies_a_constant_gradient(solver, jit):
    """η‖a‖₁: with one gradient g in all steps, and nothing remembered, Δ = mass · g."""
    if solver.sends != "change":
        pytest.skip("what it sends is not a sum of gradients")

    @jit
    def train(gradient):
        memory = solver.init(POPULATION, jnp.asarray(START))
        constant = Task(4, lambda w, step: (jnp.float32(1), gradient))
        return solver.train(jnp.asarray(START), constant, row_of(memory, 0), memory.shared)

    trained = train(CENTRE[0])
    np.testing.assert_allclose(START - trained.w, trained.mass * CENTRE[0], rtol=1e-4, atol=1e-6)
    assert (np.asarray(trained.mass) > 0).all()


def test_a_schedule_of_ones_and_of_halves(solver, jit):
    """Every solver follows its schedule: the rate is halved from the second round on."""
    halved = dataclasses.replace(inner_of(solver), schedule=Geometric(0.5))
    solver_ = halved if inner_of(solver) is solver else dataclasses.replace(solver, solver=halved)

    @jit
    def train(t):
        memory = solver.init(POPULATION, jnp.asarray(START))
        one_step = task(CURVATURE[0], CENTRE[0], jnp.asarray(NOISE[0]), 1)._replace(round=t)
        return solver_.train(jnp.asarray(START), one_step, row_of(memory, 0), memory.shared)

    first, second = train(0), train(1)
    np.testing.assert_allclose(second.rate, first.rate / 2)
    np.testing.assert_allclose(second.mass, np.asarray(first.mass) / 2)


def test_a_factor_of_the_client_is_that_of_a_schedule(solver, jit):
    """Half the rate by being client 1, not by the schedule: the same bits, but the rate that all have in common."""

    def with_schedule(schedule):
        inner = dataclasses.replace(inner_of(solver), schedule=schedule)
        return inner if inner_of(solver) is solver else dataclasses.replace(solver, solver=inner)

    @jit
    def trained(solver_, client):
        memory = solver.init(POPULATION, jnp.asarray(START))
        work = task(CURVATURE[0], CENTRE[0], jnp.asarray(NOISE[0]), 3)._replace(round=1, client=client)
        return solver_.train(jnp.asarray(START), work, row_of(memory, 0), memory.shared)

    plain, halved = trained(with_schedule(Constant()), 1), trained(with_schedule(Geometric(0.5)), 1)
    differing = with_schedule(PerClient([1.0, 0.5]))
    jax.tree.map(np.testing.assert_array_equal, trained(differing, 0), plain)
    found = trained(differing, 1)
    jax.tree.map(np.testing.assert_array_equal, found._replace(rate=halved.rate), halved)
    assert float(found.rate) == float(plain.rate)


def test_the_first_rate_is_known_without_training_for_all_at_once(solver, memory, jit):
    """What moves a memory in an empty round is the rate that training would have begun with."""
    counted = dataclasses.replace(inner_of(solver), schedule=PowerDecay(1.0, "steps"))
    solver_ = counted if inner_of(solver) is solver else dataclasses.replace(solver, solver=counted)
    steps = np.array([3, 1, 5, 1, 9])

    @jit
    def trained(row, steps):
        work = task(CURVATURE[0], CENTRE[0], jnp.asarray(NOISE[0]), steps)._replace(round=2)
        return solver_.train(jnp.asarray(START), work, row, memory.shared).rate

    without = solver_.first_rate(Task(steps, lambda w, step: pytest.fail("no gradient is needed"), 2), memory.shared)
    np.testing.assert_allclose(without, [trained(row_of(memory, 0), count) for count in steps], rtol=1e-6)
    assert len(set(np.asarray(without).tolist())) >= 3


def test_rates_are_numbers_that_can_be_traced(solver, memory, jit, train_traced):
    """A grid of settings is one program: every float of a solver is a leaf of its tree."""
    grid = jax.tree.map(lambda a: np.stack([np.asarray(a), np.asarray(a) / 2]), solver)
    arguments = (row_of(memory, 0), memory.shared, CURVATURE[0], CENTRE[0], NOISE[0], np.int32(3))
    both = jit(jax.vmap(lambda solver: train(solver, *arguments).w))(grid)
    halved = jax.tree.map(lambda a: a / 2, solver)
    np.testing.assert_allclose(both[0], train_traced(solver, *arguments).w, rtol=1e-6)
    np.testing.assert_allclose(both[1], train_traced(halved, *arguments).w, rtol=1e-6)
    assert not np.allclose(both[0], both[1])


def test_without_their_extra_term_all_are_sgd_exactly():
    arguments = ((), (), CURVATURE[0], CENTRE[0], NOISE[0])
    plain = jax.jit(lambda solver: train(solver, *arguments, 5))(s.Sgd(0.1))
    for other in (s.Proximal(0.1, mu=0.0), s.Momentum(0.1, decay=0.0)):
        found = jax.jit(lambda solver: train(solver, *arguments, 5))(other)
        jax.tree.map(np.testing.assert_array_equal, found, plain)


def test_their_work_is_five_steps_of_32_samples_unless_given():
    for kind in {type(solver) for solver in SOLVERS.values() if inner_of(solver) is solver}:
        assert (kind().work.count, kind().work.batch) == (5, 32)
        assert kind(work=Steps(2)).work.count == 2
