"""Clients that pause between two rounds, weighed by how often they take part."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from fedtide.errors import number, whole
from fedtide.participation.base import Policy
from fedtide.participation.choice import largest
from fedtide.types import Decision, Observation, Population, part


class History(NamedTuple):
    importance: Array  # [N] α
    times: Array  # [N] rounds it was invited
    rounds: Array  # [] rounds so far
    pause: Array  # [N] rounds it still has to wait


@part
class Separated(Policy):
    """Available clients that have waited R rounds since their last, or `clients` of them uniformly; q_k = α_k / r̂_k.

    r̂_k = (rounds invited + n r₀) / (rounds + n), this one included: the rate at which it takes part, estimated as it
    goes. R is `separation`, n is `prior` and r₀ = min(1 / (R + 1), clients / N), the rate if nobody were ever away.
    Unbiased as r̂ converges to the long-run rate, for any R. A larger R makes rates more alike, and all of them smaller.

    Reference: Sun et al., "Debiasing federated learning with correlated client participation", ICLR 2025.
    """

    clients: int | None = None
    separation: int = 0
    prior: float = 1.0

    def __post_init__(self):
        if self.clients is not None:
            object.__setattr__(self, "clients", whole("participation.clients", self.clients, 1))
        object.__setattr__(self, "separation", whole("participation.separation", self.separation, 0))
        number("participation.prior", self.prior, low=0)

    @property
    def counts_invitations(self) -> bool:
        return True

    def init(self, population: Population) -> History:
        nothing = jnp.zeros(len(population.importance), jnp.int32)
        return History(population.importance, nothing, jnp.zeros((), jnp.int32), nothing)

    def decide(self, state: History, seen: Observation) -> tuple[Decision, History]:
        clients = len(state.importance)
        invited = seen.available & (state.pause == 0)
        if self.clients is not None:
            invited = largest(seen.stream.uniform(jnp.arange(clients)), invited, self.clients)
        times, rounds = state.times + invited, state.rounds + 1
        usual = min(1 / (self.separation + 1), (self.clients or clients) / clients)
        rate = (times + self.prior * usual) / (rounds + self.prior)
        pause = jnp.where(invited, self.separation, jnp.maximum(state.pause - 1, 0))
        weight = jnp.where(invited, state.importance / rate, 0)
        return Decision(invited, weight), History(state.importance, times, rounds, pause)

    def capacity(self, available: int) -> int:
        return min(self.clients or available, available)
