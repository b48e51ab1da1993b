"""Rounds whose every state can be looked at."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from fedtide.simulation.replica import Carry, Shape, replica
from fedtide.simulation.setup import fitted
from fedtide.streams import Purpose, Stream
from fedtide.types import Population


@jax.jit
def start(method, problem, population) -> Carry:
    w, _ = ravel_pytree(problem.init(Stream(0, Purpose.MODEL).key()))
    return Carry(
        w,
        method.estimator.init(population),
        method.participation.init(population),
        method.solver.init(population, w),
        method.aggregation.init(population, len(w)),
        method.server.init(w),
    )


@jax.jit  # a round alone, so that runs of any length and with any numbers share one compilation
def one_round(method, problem, population, carry, t, there) -> Carry:
    clients = len(there)
    one = replica(method, problem, population, jnp.uint32(0), Shape(1, 1, clients, clients, None, False))
    return one.round(carry, (t, there))[0]


def play(problem, method, trace) -> Carry:
    """The states after each round [T, …] in double precision, with the clients that `trace` [T, N] says are there."""
    with jax.enable_x64(True):
        method = jax.tree.map(jnp.asarray, fitted(method, problem))
        problem = jax.tree.map(jnp.asarray, problem)
        population = Population(jnp.asarray(problem.importance), jnp.asarray(problem.sizes, jnp.int32))
        carry, states = start(method, problem, population), []
        for t, there in enumerate(np.asarray(trace, bool)):
            carry = one_round(method, problem, population, carry, jnp.int32(t), there)
            states.append(carry)
        return jax.tree.map(lambda *states: np.stack(states), *states)


@pytest.fixture(scope="session", name="play")
def play_fixture():
    return play
