"""Clients that pause between participations, with weights from their participation rates."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.declared import Weighting, settled
from fedtide.errors import number
from fedtide.participation.base import Policy
from fedtide.participation.choice import largest
from fedtide.types import Decision, Observation, Population, check_whole, part


class History(NamedTuple):
    times: Array  # [N] rounds in which it was invited
    rounds: Array  # [] rounds so far
    pause: Array  # [N] rounds left to wait


@part
class Separated(Policy):
    """Available clients that were not invited in the last R rounds, or `clients` of them uniformly; q_k = α_k / r̂_k.

    r̂_k = (rounds invited + n r₀) / (rounds + n), this one included, is an estimate of the participation rate. R is
    `separation`, n is `prior` and r₀ = min(1 / (R + 1), clients / N) is the rate if all were always available. Unbiased
    as r̂ converges to the long-run rate, for any R. A larger R makes rates more equal, and all of them smaller.

    Reference: Sun et al., "Debiasing federated learning with correlated client participation", ICLR 2025.
    """

    clients: int | None = None
    separation: int = 0
    prior: float = 1.0

    def __post_init__(self):
        check_whole(self, "participation", clients=1, separation=0)
        number("participation.prior", self.prior, low=0)

    counts_invitations: ClassVar[bool] = True

    def in_theory(self, importance: np.ndarray, availability: np.ndarray, inverse: np.ndarray) -> Weighting:
        return settled(importance, availability)

    def init(self, population: Population) -> History:
        nothing = jnp.zeros(len(population.importance), jnp.int32)
        return History(nothing, jnp.zeros((), jnp.int32), nothing)

    def decide(self, state: History, observation: Observation) -> tuple[Decision, History]:
        clients = len(observation.available)
        invited = observation.available & (state.pause == 0)
        if self.clients is not None:
            invited = largest(observation.stream.uniform(jnp.arange(clients)), invited, self.clients)
        times, rounds = state.times + invited, state.rounds + 1
        prior_rate = min(1 / (self.separation + 1), (self.clients or clients) / clients)
        rate = (times + self.prior * prior_rate) / (rounds + self.prior)
        pause = jnp.where(invited, self.separation, jnp.maximum(state.pause - 1, 0))
        weight = jnp.where(invited, observation.population.importance / rate, 0)
        return Decision(invited, weight), History(times, rounds, pause)
