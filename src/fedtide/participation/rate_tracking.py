"""Selection that evens out long-run participation rates."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from fedtide.errors import flag, number, whole
from fedtide.participation.base import Policy
from fedtide.participation.choice import largest
from fedtide.types import Decision, Observation, Population, part


class Rates(NamedTuple):
    importance: Array  # [N] α
    rate: Array  # [N] running selection rate r


@part
class RateTracking(Policy):
    """The `clients` available ones with the largest −∂H/∂r; then r ← (1−β) r + β 1_S and q_k = α_k / r_k on S.

    H(r) = Σ α_k²/r_k, so the score is α_k²/r_k²; with `correlated` (positively correlated availability)
    H(r) = Σ α_k/r_k and the score α_k/r_k². r starts at min(1, clients · α). Asymptotically unbiased where r
    converges to the long-run selection rate (β → 0). The authors' code divides by the number selected as well, which
    silently shrinks the server step; this does not.

    Reference: Ribero, Vikalo and de Veciana, "Federated learning under intermittent client availability and
    time-varying communication constraints", IEEE JSTSP 2023 (F3AST).
    """

    clients: int = 10
    smoothing: float = 0.01
    correlated: bool = False

    def __post_init__(self):
        object.__setattr__(self, "clients", whole("participation.clients", self.clients, 1))
        number("participation.smoothing", self.smoothing, above=0, high=1)
        flag("participation.correlated", self.correlated)

    @property
    def counts_invitations(self) -> bool:
        return True

    def init(self, population: Population) -> Rates:
        return Rates(population.importance, jnp.minimum(1.0, self.clients * population.importance))

    def decide(self, state: Rates, seen: Observation) -> tuple[Decision, Rates]:
        power = 1 if self.correlated else 2
        # A client without importance starts at rate 0: its score is 0, not 0/0.
        score = jnp.where(state.importance > 0, state.importance**power / state.rate**2, 0)
        invited = largest(score, seen.available, self.clients)
        rate = (1 - self.smoothing) * state.rate + self.smoothing * invited
        return Decision(invited, jnp.where(invited, state.importance / rate, 0)), state._replace(rate=rate)

    def capacity(self, available: int) -> int:
        return min(self.clients, available)
