"""Availability, drawn before training, on which it does not depend: so the largest cohort is known in advance."""

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from fedtide.availability.base import Process, advance, begin


class Segment(NamedTuple):
    """A segment of `blocks` × `rounds` rounds from round `first` on; each block ends with an evaluation if
    `evaluates`."""

    first: int
    blocks: int
    rounds: int
    evaluates: bool = True

    @property
    def length(self) -> int:
        return self.blocks * self.rounds

    @property
    def end(self) -> int:
        return self.first + self.length


def segments(rounds: int, evaluate_every: int, longest: int) -> Iterator[Segment]:
    """Segments of at most `longest` rounds that cover all rounds: several blocks, or parts of one block."""
    done = 0
    while done < rounds:
        block = min(evaluate_every - done % evaluate_every, rounds - done)  # rounds to the next evaluation
        if block > longest:
            segment = Segment(done, 1, longest, evaluates=False)
        elif block == evaluate_every:
            segment = Segment(done, min((rounds - done) // block, max(1, longest // block)), block)
        else:
            segment = Segment(done, 1, block)
        yield segment
        done = segment.end


class Traces:
    """The available clients in every segment, for every seed; the same for all methods.

    The process's `history` first rounds were observed before training; round 0 follows them. `most` is the largest
    number of available clients in a round, or the given one if larger: these seeds may be only some of a run's.
    """

    def __init__(self, process: Process, seeds: Array, plan: list[Segment], history: int, most: int = 0):
        self.process, self.seeds, self.history = process, seeds, history
        state = _begin(process, seeds)
        self.past: Any = np.zeros((len(seeds), 0, process.clients), bool)
        if history:
            self.past, _, state = _advance(process, state, seeds, np.int32(0), history)
        self._states = {}
        for segment in plan:
            self._states[segment] = state
            _, largest, state = _advance(process, state, seeds, np.int32(history + segment.first), segment.length)
            most = max(most, int(largest))
        self.most = most

    def __getitem__(self, segment: Segment) -> Array:
        """bool[R, rounds, N]."""
        start = np.int32(self.history + segment.first)
        return _advance(self.process, self._states[segment], self.seeds, start, segment.length)[0]


@jax.jit
def _begin(process: Process, seeds: Array) -> Any:
    return jax.vmap(lambda seed: begin(process, seed))(seeds)


@functools.partial(jax.jit, static_argnames="rounds")
def _advance(process: Process, state: Any, seeds: Array, start: Any, rounds: int) -> tuple[Array, Array, Any]:
    """(available clients bool[R, rounds, N], the most of them in a round, the states after the rounds)."""
    trace, state = jax.vmap(lambda state, seed: advance(process, state, seed, start, rounds))(state, seeds)
    return trace, trace.sum(axis=-1).max(), state
