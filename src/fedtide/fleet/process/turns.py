"""Alternating stays and absences with lengths that are not geometric, as the state of a process."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.errors import require
from fedtide.fleet.model import MOST_BOUNDS, Lengths
from fedtide.fleet.process.run_lengths import lasting, law, left, weighed
from fedtide.streams import Stream


class Turns(NamedTuple):
    """The laws of absences (first row) and stays (second). See `fedtide.fleet.process.run_lengths.Law`."""

    edges: Array | np.ndarray  # [2, 1, classes + 1] bounds of the classes of lengths, in rounds
    below: Array | np.ndarray  # [2, N, classes] probability of a shorter class
    scale: Array | np.ndarray  # [2, N, 1]


class TurnLevel(NamedTuple):
    """Uniform below π in a stay and above π in an absence, so that it is uniform on [0, 1) at any time."""

    level: Array  # [N]
    ahead: Array  # [N] remaining rounds of this run, with the current one


def turns(pi: np.ndarray, changes: np.ndarray, stays: Any, absences: Any, round_hours: float) -> Turns:
    """For `changes` arrivals per round: stays of π / changes rounds, absences of (1 − π) / changes."""
    laws = law((1 - pi) / changes, absences, round_hours), law(pi / changes, stays, round_hours)
    most = max(len(each.edges) for each in laws)
    # Padded with classes of probability 0, so that both have the same number.
    edges = [np.r_[each.edges, each.edges[-1] * 2.0 ** np.arange(1, 1 + most - len(each.edges))] for each in laws]
    share = [np.pad(each.share, ((0, 0), (0, most - len(each.edges)))) for each in laws]
    below = np.stack([np.cumsum(each, 1) - each for each in share])
    scale = np.stack([each.scale for each in laws])
    return Turns(np.stack(edges)[:, None], np.minimum(below, 1), scale[:, :, None])


def begin(turns: Turns, level: Array, pi: Array, stream: Stream) -> TurnLevel:
    """In the middle of a run, as at any later time (length-biased)."""
    numbers = stream.uniform(jnp.arange(len(level)), 4, start=8)
    available = level < pi
    edges, below, scale = (_of(field, available) for field in turns)
    share = jnp.diff(below, axis=1, append=1.0)
    low, high = edges[:, :-1] * scale, edges[:, 1:] * scale
    met = jnp.cumsum(share * weighed(jnp, low, high)[2] / jnp.log(high / low), axis=1)
    group = (met[:, :-1] <= numbers[:, :1] * met[:, -1:]).sum(1)[:, None]
    low, high = (jnp.take_along_axis(field, group, 1)[:, 0] for field in (low, high))
    return TurnLevel(level, left(jnp, low, high, *numbers[:, 1:].T).astype(jnp.int32))


def turn(turns: Turns, state: TurnLevel, pi: Array, numbers: Array) -> TurnLevel:
    """The next round, from three uniform numbers per client [N, 3]. Clients with π = 1 have no absences."""
    available, over = state.level < pi, state.ahead <= 1
    drawn = jnp.where(available & (pi < 1), pi + (1 - pi) * numbers[:, 0], pi * numbers[:, 0])
    edges, below, scale = (_of(field, ~available) for field in turns)
    group = (below[:, 1:] <= numbers[:, 1:2]).sum(1)[:, None]
    first, low, high = (jnp.take_along_axis(f, group, 1)[:, 0] for f in (below, edges[:, :-1], edges[:, 1:]))
    after = jnp.take_along_axis(jnp.pad(below, ((0, 0), (0, 1)), constant_values=1.0), group + 1, 1)[:, 0]
    place = jnp.clip((numbers[:, 1] - first) / jnp.maximum(after - first, 1e-9), 0, 1)
    length = lasting(jnp, low, high, scale[:, 0], place, numbers[:, 2]).astype(jnp.int32)
    return TurnLevel(jnp.where(over, drawn, state.level), jnp.where(over, length, state.ahead - 1))


def _of(field: Any, available: Array) -> Array:
    """[N, …] the row for each client, by whether it is available."""
    absence, stay = jnp.asarray(field)
    return jnp.where(available[:, None], stay, absence)


def lengths_of(field: str, value: Any) -> Any:
    """The checked lengths, or None."""
    if value is None:
        return None
    allowed = "[hours, share]: two or more increasing hours, and the share of runs between consecutive ones"
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
