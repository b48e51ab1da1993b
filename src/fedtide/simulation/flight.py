"""Updates in flight: computed when their clients started, counted when they arrive."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedtide.simulation.events import Tasks
from fedtide.types import Cohort, Sends, Updates


class Flight(NamedTuple):
    """A table of updates. Where clients send models, `updates.delta` has the model w_k in place of w_t − w_k."""

    client: Array  # [M] client of each row; N where the row is free
    updates: Updates  # [M, …]


def empty(rows: int, clients: int, like: Updates) -> Flight:
    """A table without updates, of the shapes of the rows `like`."""
    updates = jax.tree.map(lambda leaf: jnp.zeros((rows, *leaf.shape[1:]), leaf.dtype), like)
    return Flight(jnp.full(rows, clients, jnp.int32), updates)


def land(
    flight: Flight, arriving: Cohort, trained: Cohort, fresh: Updates, w: Array, sends: Sends, clients: int
) -> Updates:
    """The updates of the arriving cohort: `fresh` ones [C, …] of the clients that started from w, others from the
    table."""

    def places(client: Array) -> Array:
        return jnp.zeros(clients, jnp.int32).at[client].set(jnp.arange(len(client), dtype=jnp.int32), mode="drop")

    of_fresh = places(jnp.where(trained.present, trained.client, clients))[arriving.client]
    of_table = places(flight.client)[arriving.client]
    kept = flight.updates
    if sends == "model":  # the way from the newest model, not from the one it trained from
        kept = kept._replace(delta=w - kept.delta)

    def rows(new: Array, old: Array) -> Array:
        rows = jnp.where(_column(jnp.asarray(arriving.age) == 0, new), new[of_fresh], old[of_table])
        return jnp.where(_column(arriving.present, rows), rows, 0)

    return jax.tree.map(rows, fresh, kept)


def take_off(flight: Flight, tasks: Tasks, t: Array, trained: Cohort, fresh: Updates, w: Array, sends: Sends) -> Flight:
    """The table after server step t + 1: without the rows of clients that have finished or lost their work, with those
    of the clients that started from w and still work."""
    clients, rows = len(tasks.left), len(flight.client)
    running = jnp.append(tasks.running & (tasks.start < t), False)  # the last one is of free rows
    stays = running[flight.client]
    takes_off = trained.present & tasks.running[trained.client]
    (free,) = jnp.nonzero(~stays, size=rows, fill_value=rows)
    place = jnp.minimum(jnp.cumsum(takes_off) - 1, rows - 1)
    target = jnp.where(takes_off, free[place], rows)
    if sends == "model":
        fresh = fresh._replace(delta=w - fresh.delta)
    updates = jax.tree.map(lambda kept, new: kept.at[target].set(new, mode="drop"), flight.updates, fresh)
    client = jnp.where(stays, flight.client, clients)
    client = client.at[target].set(trained.client.astype(jnp.int32), mode="drop")
    return Flight(client, updates)


def _column(mask: Array, rows: Array) -> Array:
    return mask.reshape(-1, *(1,) * (rows.ndim - 1))
