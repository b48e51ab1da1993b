"""The mean time between two participations."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from fedtide.errors import whole
from fedtide.types import Estimate, Population, part


class Gaps(NamedTuple):
    mean: Array  # [N] ω, mean of the closed gaps; 1 before the first
    closed: Array  # [N] how many there were
    open: Array  # [N] rounds since the last one was closed


@part
class Interval:
    """π̂_k = 1 / ω_k, ω_k the mean number of rounds from one participation to the next; 1 before the first.

    A gap that lasts `cutoff` rounds is closed and counted as that long, so that weights 1/π̂ stay at most `cutoff`
    (None: never closed). The gap that ends in this round counts from the next one on. Without a cutoff ω → 1/π for
    independent rounds and for any ergodic chain; with one, π̂ is too large for clients that are often away longer.

    Reference: Wang and Ji, "A lightweight method for tackling unknown participation statistics in federated averaging",
    ICLR 2024 (FedAU).
    """

    cutoff: int | None = 50

    def __post_init__(self):
        if self.cutoff is not None:
            object.__setattr__(self, "cutoff", whole("estimator.cutoff", self.cutoff, 1))

    @property
    def knows(self) -> tuple[str, ...]:
        return ("availability",)

    def init(self, population: Population) -> Gaps:
        clients = len(population.importance)
        nothing = jnp.zeros(clients, jnp.int32)
        return Gaps(jnp.ones(clients), nothing, nothing)

    def update(self, state: Gaps, available: Array) -> tuple[Estimate, Gaps]:
        gap = state.open + 1
        closes = available if self.cutoff is None else available | (gap >= self.cutoff)
        closed = state.closed + closes
        # The mean moves towards the gap by its share: gaps that are all equal keep it exactly there.
        mean = jnp.where(closes, state.mean + (gap - state.mean) / jnp.maximum(closed, 1), state.mean)
        believed = Estimate(1 / state.mean, jnp.full_like(state.mean, jnp.nan))
        return believed, Gaps(mean, closed, jnp.where(closes, 0, gap))
