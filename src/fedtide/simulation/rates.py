"""The learning rate of a round, independent of its participants."""

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
    """The updates with the rate of round t, for an aggregation that also moves in empty rounds."""
    if not method.aggregation.moves_when_empty:
        return updates
    return updates._replace(round_rate=rate_of_round(method, population, seed, t, shared))


def rate_of_round(method: Method, population: Population, seed: Array, t: Array, shared: object) -> Array:
    """η of round t: the rate of a participant's first step. In an empty round the memory is applied with this rate.

    Where the rate depends on the client (a schedule that counts steps or epochs, with unequal work), it is the mean
    over all clients with at least one step in this round, available or not.
    """
    solver, clients = method.solver, jnp.arange(len(population.sizes))
    steps = solver.work.steps(Stream(seed, Purpose.WORK, t), clients, population.sizes)
    task = Task(steps, _no_gradient, t, solver.work.steps_per_epoch(population.sizes))
    rate = jnp.asarray(calls.first_rate(solver, task, shared), jnp.result_type(float))
    if rate.ndim == 0:
        return rate
    asked = jnp.broadcast_to(jnp.asarray(steps) > 0, rate.shape)
    return mean_rows(asked.astype(rate.dtype), rate[:, None])[0]


def _no_gradient(w: Array, step: Array | int) -> tuple[Array, Array]:
    raise AssertionError("rates do not depend on gradients")
