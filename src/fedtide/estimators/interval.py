"""The mean interval between participations."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jax import Array

from fedtide.declared import Belief
from fedtide.errors import whole
from fedtide.types import Estimate, Population, part


class Gaps(NamedTuple):
    """The gaps between a client's participations."""

    mean: Array  # [N] ω, mean of the closed gaps; 1 before the first
    closed: Array  # [N] number of closed gaps
    open: Array  # [N] rounds since the last gap was closed


@part
class Interval:
    """π̂_k = 1 / ω_k, where ω_k is the mean number of rounds from one participation to the next; 1 before the first.

    A gap that lasts `cutoff` rounds is closed and counted with that length, so that weights 1/π̂ stay at most `cutoff`
    (None: never closed). The gap that ends in a round counts from the next round on. Without a cutoff ω → 1/π for
    independent rounds and for any ergodic chain; with one, π̂ is too large for clients that are often absent longer.

    Reference: Wang and Ji, "A lightweight method for tackling unknown participation statistics in federated averaging",
    ICLR 2024 (FedAU).
    """

    cutoff: int | None = 50

    def __post_init__(self):
        if self.cutoff is not None:
            object.__setattr__(self, "cutoff", whole("estimator.cutoff", self.cutoff, 1))

    knows: ClassVar[tuple[str, ...]] = ("availability",)

    def in_theory(self) -> Belief:
        return Belief(self.cutoff)

    def init(self, population: Population) -> Gaps:
        clients = len(population.importance)
        nothing = jnp.zeros(clients, jnp.int32)
        return Gaps(jnp.ones(clients), nothing, nothing)

    def update(self, state: Gaps, available: Array) -> tuple[Estimate, Gaps]:
        gap = state.open + 1
        closes = available if self.cutoff is None else available | (gap >= self.cutoff)
        closed = state.closed + closes
        # Updated by the gap's share of the difference, so that equal gaps leave the mean exactly unchanged.
        mean = jnp.where(closes, state.mean + (gap - state.mean) / jnp.maximum(closed, 1), state.mean)
        estimate = Estimate(1 / state.mean, jnp.full_like(state.mean, jnp.nan))
        return estimate, Gaps(mean, closed, jnp.where(closes, 0, gap))
