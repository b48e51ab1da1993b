"""Availability, drawn ahead: it does not depend on the training, so the largest cohort is known before it starts."""

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from fedtide.availability.base import Process, advance, begin


class Span(NamedTuple):
    """A stretch: `blocks` times `rounds` rounds, from `first` on; an evaluation ends each block if it `evaluates`."""

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


def spans(rounds: int, evaluate_every: int, longest: int) -> Iterator[Span]:
    """Stretches of at most `longest` rounds that cover all: several blocks between evaluations, or pieces of one."""
    done = 0
    while done < rounds:
        block = min(evaluate_every - done % evaluate_every, rounds - done)  # rounds to the next evaluation
        if block > longest:
            span = Span(done, 1, longest, evaluates=False)
        elif block == evaluate_every:
            span = Span(done, min((rounds - done) // block, max(1, longest // block)), block)
        else:
            span = Span(done, 1, block)
        yield span
        done = span.end


class Traces:
    """Who is there in every stretch, for every seed; the same for all methods.

    The process's `history` first rounds were observed before training; round 0 is the one after them. `most` are there
    in a round, or as many as are told: these seeds may be some of a run's.
    """

    def __init__(self, process: Process, seeds: Array, plan: list[Span], history: int, most: int = 0):
        self.process, self.seeds, self.history = process, seeds, history
        state = _begin(process, seeds)
        self.past: Any = np.zeros((len(seeds), 0, process.clients), bool)
        if history:
            self.past, _, state = _advance(process, state, seeds, np.int32(0), history)
        self._states = {}
        for span in plan:
            self._states[span] = state
            _, largest, state = _advance(process, state, seeds, np.int32(history + span.first), span.length)
            most = max(most, int(largest))
        self.most = most

    def __getitem__(self, span: Span) -> Array:
        """bool[R, rounds, N]."""
        start = np.int32(self.history + span.first)
        return _advance(self.process, self._states[span], self.seeds, start, span.length)[0]


@jax.jit
def _begin(process: Process, seeds: Array) -> Any:
    return jax.vmap(lambda seed: begin(process, seed))(seeds)


@functools.partial(jax.jit, static_argnames="rounds")
def _advance(process: Process, state: Any, seeds: Array, start: Any, rounds: int) -> tuple[Array, Array, Any]:
    """(who is there bool[R, rounds, N], the most that are there in a round, the states after the rounds)."""
    trace, state = jax.vmap(lambda state, seed: advance(process, state, seed, start, rounds))(state, seeds)
    return trace, trace.sum(axis=-1).max(), state
