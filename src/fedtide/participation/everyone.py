"""All available clients."""

import numpy as np

from fedtide.declared import Weighting
from fedtide.participation.base import Weighed, Weights, weigh
from fedtide.types import Decision, Observation, part


@part
class Everyone(Weighed):
    """All available clients A, with weights `ratio` α_k / Σ_A α, `fixed` α_k (others count 0), `equal` 1/|A| or
    `scaled` α_k N/|A|.

    Biased towards the available: with fixed weights the long-run objective is Σ p_k F_k, p_k ∝ π_k α_k.
    Unbiased only when availability is the same for all (fixed weights) or no client is ever absent.

    Reference: McMahan et al., "Communication-efficient learning of deep networks", AISTATS 2017.
    """

    weights: Weights = "ratio"

    def in_theory(self, importance: np.ndarray, availability: np.ndarray, inverse: np.ndarray) -> Weighting:
        return self.weighting(importance)

    def decide(self, state: tuple[()], observation: Observation) -> tuple[Decision, tuple[()]]:
        invited = observation.available
        return Decision(invited, weigh(self.weights, observation.population.importance, invited)), state
