"""The least available of the available clients."""

from typing import ClassVar

import jax.numpy as jnp

from fedtide.errors import number
from fedtide.participation.base import Policy
from fedtide.participation.choice import largest
from fedtide.types import Decision, Observation, check_whole, part


@part
class LeastAvailable(Policy):
    """The `clients` available ones with the largest α_k²/r_k², r = (1−β) π̂ + β for the available; q_k = α_k / r_k.

    This is what the code of the CA-Fed paper runs as F3AST. It has no memory: r starts from π̂ in every round, and from
    being available, not from having been selected, where `RateTracking`, F3AST as published, tracks the rate of its own
    selection. Biased: towards clients with a small availability for their importance.

    Reference: the code of Rodio et al., "Federated learning under heterogeneous and correlated client availability",
    IEEE/ACM ToN 2024.
    """

    clients: int = 10
    smoothing: float = 0.0  # β

    def __post_init__(self):
        check_whole(self, "participation", clients=1)
        number("participation.smoothing", self.smoothing, low=0, high=1)

    needs_estimates: ClassVar[bool] = True

    def decide(self, state: tuple[()], observation: Observation) -> tuple[Decision, tuple[()]]:
        rate = (1 - self.smoothing) * observation.estimate.availability + self.smoothing
        weight = observation.population.importance / rate
        invited = largest(weight, observation.available, self.clients)  # the order of the squares
        return Decision(invited, jnp.where(invited, weight, 0)), state

    def capacity(self, available: int) -> int:
        return min(self.clients, available)
