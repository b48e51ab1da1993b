"""Stays and absences of any mean whose lengths are not geometric, as a step of a process."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.errors import require
from fedtide.streams import Stream


class Turns(NamedTuple):
    """Away (row 0) and there (row 1) in turn; [2, N] each. See `fedtide.fleet.runs.Law`."""

    brief: Array | np.ndarray  # probability that a run is brief
    end_brief: Array | np.ndarray  # that a brief run ends with a round
    end_stage: Array | np.ndarray  # that a stage of another does
    stages: Array | np.ndarray
    now_brief: Array | np.ndarray  # that a run that is going on is brief


class Level(NamedTuple):
    """Uniform below π in a stay and above it in an absence, so that it is uniform on [0, 1) at any time."""

    level: Array  # [N]
    ahead: Array  # [N] stages ahead, this one included; 0 in a brief run


def turns(pi: np.ndarray, changes: np.ndarray, stays: Any, absences: Any, round_hours: float) -> Turns:
    """Of clients that arrive `changes` times a round: stays of π / changes rounds, absences of (1 − π) / changes."""
    from fedtide.fleet.runs import law

    laws = law((1 - pi) / changes, absences, round_hours), law(pi / changes, stays, round_hours)
    brief, short, long, stages = (np.stack(both) for both in zip(*laws, strict=True))
    ends = np.minimum(1 / short, 1), np.minimum(stages / long, 1)
    return Turns(brief, *ends, stages, np.stack([each.now_brief for each in laws]))


def begin(turns: Turns, level: Array, pi: Array, stream: Stream) -> Level:
    """Somewhere within a run, as at any later time."""
    numbers = stream.uniform(jnp.arange(len(level)), 2, start=8)
    now_brief, stages = (_of(field, level < pi) for field in (turns.now_brief, turns.stages))
    ahead = jnp.floor(numbers[:, 1] * stages).astype(jnp.int32) + 1
    return Level(level, jnp.where(numbers[:, 0] < now_brief, 0, ahead))


def turn(turns: Turns, state: Level, pi: Array, numbers: Array) -> Level:
    """A round further, by three uniform numbers for each client [N, 3]."""
    there = state.level < pi
    end = jnp.where(state.ahead == 0, _of(turns.end_brief, there), _of(turns.end_stage, there))
    done = numbers[:, 0] < end
    over = done & (state.ahead <= 1)
    drawn = jnp.where(there, pi + (1 - pi) * numbers[:, 1], pi * numbers[:, 1])
    ahead = jnp.where(numbers[:, 2] < _of(turns.brief, ~there), 0, _of(turns.stages, ~there))
    return Level(
        jnp.where(over, drawn, state.level), jnp.where(over, ahead, state.ahead - (done & ~over)).astype(jnp.int32)
    )


def _of(field: Any, there: Array) -> Array:
    return jnp.where(there, jnp.asarray(field)[1], jnp.asarray(field)[0])


def lengths_of(field: str, value: Any) -> Any:
    """Checked (share of brief runs, their mean hours, mean hours of the others, stages of these), or None."""
    if value is None:
        return None
    from fedtide.fleet.model import Lengths

    allowed = "a share in [0, 1), hours of brief runs, at least as many of the others, and their stages (1 to 64)"
    try:
        brief, short, long, stages = (float(v) for v in value)
    except (TypeError, ValueError):
        require(False, field, value, allowed)
        raise
    fine = 0 <= brief < 1 and 1e-6 <= short <= long < np.inf and stages in range(1, 65)
    require(fine, field, value, allowed)
    return Lengths(brief, short, long, int(stages))
