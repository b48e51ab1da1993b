"""Rounds whose every state can be looked at."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from fedtide.simulation.replica import Carry, Shape, initial, replica
from fedtide.simulation.setup import fitted
from fedtide.streams import Purpose, Stream
from fedtide.types import Population


def start(method, problem, population) -> Carry:
    w, _ = ravel_pytree(problem.init(Stream(0, Purpose.MODEL).key()))
    return initial(method, population, w)


def one_round(method, problem, population, carry, t, there) -> Carry:
    clients = len(there)
    one = replica(method, problem, population, jnp.uint32(0), Shape(1, 1, clients, clients, None, False))
    return one.round(carry, (t, there))[0]


@pytest.fixture(scope="session")
def play(haste):
    """A function of (problem, method, trace): the states after each round [T, …] in double precision, with the clients
    that `trace` [T, N] says are there."""
    begin = jax.jit(start, compiler_options=haste)
    # A round alone, so that runs of any length and with any numbers share one compilation.
    advance = jax.jit(one_round, compiler_options=haste)

    def states(problem, method, trace) -> Carry:
        with jax.enable_x64(True):
            method, problem = jax.tree.map(np.asarray, (fitted(method, problem), problem))
            population = Population(problem.importance, np.asarray(problem.sizes, np.int32))
            carry, found = begin(method, problem, population), []
            for t, there in enumerate(np.asarray(trace, bool)):
                carry = advance(method, problem, population, carry, np.int32(t), there)
                found.append(carry)
            return jax.tree.map(lambda *states: np.stack(states), *found)

    return states
