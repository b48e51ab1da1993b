"""Stays and absences of any mean whose lengths are not geometric, as a step of a process."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.errors import require
from fedtide.streams import Stream

_FOREVER = 2.0**30  # rounds; more are counted as that many


class Turns(NamedTuple):
    """Away (first row) and there (second) in turn. See `fedtide.fleet.runs.Law`."""

    edges: Array | np.ndarray  # [2, 1, classes + 1] ends of the classes of lengths, rounds
    below: Array | np.ndarray  # [2, N, classes] probability of a shorter class
    scale: Array | np.ndarray  # [2, N, 1]


class Level(NamedTuple):
    """Uniform below π in a stay and above it in an absence, so that it is uniform on [0, 1) at any time."""

    level: Array  # [N]
    ahead: Array  # [N] rounds ahead in this run, this one included


def turns(pi: np.ndarray, changes: np.ndarray, stays: Any, absences: Any, round_hours: float) -> Turns:
    """Of clients that arrive `changes` times a round: stays of π / changes rounds, absences of (1 − π) / changes."""
    from fedtide.fleet.runs import law

    laws = law((1 - pi) / changes, absences, round_hours), law(pi / changes, stays, round_hours)
    most = max(len(each.edges) for each in laws)
    # Classes of no probability at the end, so that both have as many.
    edges = [np.r_[each.edges, each.edges[-1] * 2.0 ** np.arange(1, 1 + most - len(each.edges))] for each in laws]
    share = [np.pad(each.share, ((0, 0), (0, most - len(each.edges)))) for each in laws]
    below = np.stack([np.cumsum(each, 1) - each for each in share])
    scale = np.stack([each.scale for each in laws])
    return Turns(np.stack(edges)[:, None], np.minimum(below, 1), scale[:, :, None])


def begin(turns: Turns, level: Array, pi: Array, stream: Stream) -> Level:
    """Somewhere within a run, as at any later time: long ones are met more often."""
    numbers = stream.uniform(jnp.arange(len(level)), 4, start=8)
    there = level < pi
    edges, below, scale = (_of(field, there) for field in turns)
    share = jnp.diff(below, axis=1, append=1.0)
    low, high = edges[:, :-1] * scale, edges[:, 1:] * scale
    one = jnp.clip(1.0, low, high)
    under = jnp.log(one / low)
    met = jnp.cumsum(share * (under + high - one) / jnp.log(high / low), axis=1)
    group = (met[:, :-1] <= numbers[:, :1] * met[:, -1:]).sum(1)[:, None]
    under, one, high = (jnp.take_along_axis(field, group, 1)[:, 0] for field in (under, one, high))
    length = jnp.clip(one + numbers[:, 1] * (under + high - one) - under, 1, _FOREVER)
    short = jnp.floor(length)
    length = short + (numbers[:, 2] * length < (length - short) * (short + 1))
    return Level(level, jnp.floor(numbers[:, 3] * length).astype(jnp.int32) + 1)


def turn(turns: Turns, state: Level, pi: Array, numbers: Array) -> Level:
    """A round further, by three uniform numbers for each client [N, 3]. Who has π = 1 has no absences."""
    there, over = state.level < pi, state.ahead <= 1
    drawn = jnp.where(there & (pi < 1), pi + (1 - pi) * numbers[:, 0], pi * numbers[:, 0])
    edges, below, scale = (_of(field, ~there) for field in turns)
    group = (below[:, 1:] <= numbers[:, 1:2]).sum(1)[:, None]
    first, low, high = (jnp.take_along_axis(f, group, 1)[:, 0] for f in (below, edges[:, :-1], edges[:, 1:]))
    after = jnp.take_along_axis(jnp.pad(below, ((0, 0), (0, 1)), constant_values=1.0), group + 1, 1)[:, 0]
    place = jnp.clip((numbers[:, 1] - first) / jnp.maximum(after - first, 1e-9), 0, 1)
    length = low * (high / low) ** place * scale[:, 0]
    length = jnp.clip(jnp.floor(length + numbers[:, 2]), 1, _FOREVER).astype(jnp.int32)
    return Level(jnp.where(over, drawn, state.level), jnp.where(over, length, state.ahead - 1))


def _of(field: Any, there: Array) -> Array:
    """[N, …]: what holds for clients that are away, or there."""
    away, stay = jnp.asarray(field)
    return jnp.where(there[:, None], stay, away)


def lengths_of(field: str, value: Any) -> Any:
    """Checked (hours between which lengths lie, shares of them), or None."""
    if value is None:
        return None
    from fedtide.fleet.model import MOST_BOUNDS, Lengths

    allowed = "[hours, share]: two or more increasing hours, and the share of runs between each two of them"
    try:
        hours, share = (tuple(float(v) for v in part) for part in value)
    except (TypeError, ValueError):
        require(False, field, value, allowed)
        raise
    fine = 2 <= len(hours) <= MOST_BOUNDS and len(share) == len(hours) - 1 and bool(np.isfinite([*hours, *share]).all())
    fine = fine and hours[0] > 1e-6 and bool((np.diff(hours) > 0).all()) and min(share) >= 0 and sum(share) > 0
    require(fine, field, value, allowed)
    total = sum(share)
    return Lengths(hours, tuple(each / total for each in share))
