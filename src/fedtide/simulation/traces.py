"""Availability, drawn ahead: it does not depend on the training, so the largest cohort is known before it starts."""

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from fedtide.availability.base import Process, advance, begin


class Span(NamedTuple):
    """A stretch of rounds: `blocks` times `rounds`, from `first` on; an evaluation ends each block."""

    first: int
    blocks: int
    rounds: int

    @property
    def length(self) -> int:
        return self.blocks * self.rounds

    @property
    def end(self) -> int:
        return self.first + self.length


def spans(rounds: int, evaluate_every: int, blocks: int) -> Iterator[Span]:
    """Stretches that cover all rounds: full blocks, at most `blocks` at a time, then what is left."""
    whole = rounds // evaluate_every
    for block in range(0, whole, blocks):
        yield Span(block * evaluate_every, min(blocks, whole - block), evaluate_every)
    if rounds % evaluate_every:
        yield Span(whole * evaluate_every, 1, rounds % evaluate_every)


class Traces:
    """Who is there in every stretch, for every seed; the same for all methods.

    The process's `history` first rounds were observed before training; round 0 is the one after them.
    """

    def __init__(self, process: Process, seeds: Array, plan: list[Span], history: int):
        self.process, self.seeds, self.history = process, seeds, history
        state = _begin(process, seeds)
        self.past, state = _advance(process, state, seeds, jnp.int32(0), history)
        self._states = {}
        most = 0
        for span in plan:
            self._states[span] = state
            trace, state = _advance(process, state, seeds, jnp.int32(history + span.first), span.length)
            most = max(most, int(trace.sum(axis=-1).max()))
        self.most = most

    def __getitem__(self, span: Span) -> Array:
        """bool[R, rounds, N]."""
        start = jnp.int32(self.history + span.first)
        return _advance(self.process, self._states[span], self.seeds, start, span.length)[0]


@jax.jit
def _begin(process: Process, seeds: Array) -> Any:
    return jax.vmap(lambda seed: begin(process, seed))(seeds)


@functools.partial(jax.jit, static_argnames="rounds")
def _advance(process: Process, state: Any, seeds: Array, start: Array, rounds: int) -> tuple[Array, Any]:
    return jax.vmap(lambda state, seed: advance(process, state, seed, start, rounds))(state, seeds)
