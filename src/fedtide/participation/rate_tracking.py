"""Selection that equalises long-run participation rates."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.declared import Weighting, settled
from fedtide.errors import flag, number
from fedtide.participation.base import Policy
from fedtide.participation.choice import largest
from fedtide.types import Decision, Observation, Population, check_whole, part


@part
class RateTracking(Policy):
    """The `clients` available clients with the largest −∂H/∂r; then r ← (1−β) r + β 1_S and q_k = α_k / r_k on S.

    H(r) = Σ α_k²/r_k, so the score is α_k²/r_k²; with `correlated` (positively correlated availability)
    H(r) = Σ α_k/r_k and the score α_k/r_k². r starts at min(1, clients · α). Asymptotically unbiased where r
    converges to the long-run selection rate (β → 0). The authors' code also divides by the number selected, which
    silently reduces the server step; this does not.

    Reference: Ribero, Vikalo and de Veciana, "Federated learning under intermittent client availability and
    time-varying communication constraints", IEEE JSTSP 2023 (F3AST).
    """

    clients: int = 10
    smoothing: float = 0.01
    correlated: bool = False

    def __post_init__(self):
        check_whole(self, "participation", clients=1)
        number("participation.smoothing", self.smoothing, above=0, high=1)
        flag("participation.correlated", self.correlated)

    counts_invitations: ClassVar[bool] = True

    def in_theory(self, importance: np.ndarray, availability: np.ndarray, inverse: np.ndarray) -> Weighting:
        return settled(importance, availability)

    def init(self, population: Population) -> Array:
        return jnp.minimum(1.0, self.clients * population.importance)  # r

    def decide(self, state: Array, observation: Observation) -> tuple[Decision, Array]:
        importance = observation.population.importance
        power = 1 if self.correlated else 2
        # A client without importance starts at rate 0: its score is 0, not 0/0.
        score = jnp.where(importance > 0, importance**power / state**2, 0)
        invited = largest(score, observation.available, self.clients)
        rate = (1 - self.smoothing) * state + self.smoothing * invited
        return Decision(invited, jnp.where(invited, importance / rate, 0)), rate
