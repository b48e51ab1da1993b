"""A uniform sample of the available clients."""

import jax.numpy as jnp
import numpy as np

from fedtide.declared import Weighting
from fedtide.participation.base import Weighed, Weights, weigh
from fedtide.participation.choice import largest
from fedtide.types import Decision, Observation, part


@part
class UniformSample(Weighed):
    """`clients` available clients, uniformly without replacement (all, if fewer are available).

    Weights of the sample S: `equal` 1/|S|; `scaled` α_k N/|S|, unbiased for any α when all are available;
    `ratio` α_k / Σ_S α, biased in general; `fixed` α_k. None corrects for unequal availability.

    Reference: McMahan et al., "Communication-efficient learning of deep networks", AISTATS 2017.
    """

    clients: int
    weights: Weights = "equal"

    def in_theory(self, importance: np.ndarray, availability: np.ndarray, inverse: np.ndarray) -> Weighting:
        if self.weights in ("ratio", "fixed"):
            return super().in_theory(importance, availability, inverse)
        return self.weighting(importance).sampled()  # all available clients are equally likely

    def decide(self, state: tuple[()], observation: Observation) -> tuple[Decision, tuple[()]]:
        score = observation.stream.uniform(jnp.arange(len(observation.available)))
        invited = largest(score, observation.available, self.clients)
        return Decision(invited, weigh(self.weights, observation.population.importance, invited)), state
