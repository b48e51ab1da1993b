"""The learning rate of a round, whoever takes part in it."""

import jax.numpy as jnp
from jax import Array

from fedtide.aggregation.sums import mean_rows
from fedtide.methods.base import Method
from fedtide.simulation import calls
from fedtide.streams import Purpose, Stream
from fedtide.types import Population, Task, Updates


def with_round_rate(
    updates: Updates, method: Method, population: Population, seed: Array, t: Array, shared: object
) -> Updates:
    """The updates with the rate of round t, where the aggregation moves also when nobody joins."""
    if not method.aggregation.moves_when_empty:
        return updates
    return updates._replace(round_rate=rate_of_round(method, population, seed, t, shared))


def rate_of_round(method: Method, population: Population, seed: Array, t: Array, shared: object) -> Array:
    """η of round t: the rate at which a client that takes part in it begins; where nobody does, the memory moves at it.

    A rate that depends on the client, by a schedule that counts steps or epochs where clients have unequal work, is the
    mean over all clients that the work asks for a step in this round, whether or not they are available.
    """
    solver, clients = method.solver, jnp.arange(len(population.sizes))
    steps = solver.work.steps(Stream(seed, Purpose.WORK, t), clients, population.sizes)
    task = Task(steps, _no_gradient, t, solver.work.a_pass(population.sizes))
    rate = jnp.asarray(calls.first_rate(solver, task, shared), jnp.result_type(float))
    if rate.ndim == 0:
        return rate
    asked = jnp.broadcast_to(jnp.asarray(steps) > 0, rate.shape)
    return mean_rows(asked.astype(rate.dtype), rate[:, None])[0]


def _no_gradient(w: Array, step: Array | int) -> tuple[Array, Array]:
    raise AssertionError("a rate depends on no gradient")
