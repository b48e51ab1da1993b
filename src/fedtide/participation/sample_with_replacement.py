"""A sample with replacement, by importance."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.declared import Weighting
from fedtide.participation.base import Policy
from fedtide.types import Decision, Observation, Weighing, check_whole, part


@part
class SampleWithReplacement(Policy):
    """`clients` draws of available clients with probabilities ∝ α_k; q_k = (times drawn) / `clients`.

    Unbiased for any α when all are available: E[q_k] = α_k. A client drawn twice trains once, with twice the weight.

    Reference: Li et al., "On the convergence of FedAvg on non-IID data", ICLR 2020 (scheme I).
    """

    clients: int

    def __post_init__(self):
        check_whole(self, "participation", clients=1)

    weighing: ClassVar[Weighing] = "normalised"

    def in_theory(self, importance: np.ndarray, availability: np.ndarray, inverse: np.ndarray) -> Weighting:
        return Weighting(importance, normalised=True).sampled()

    def decide(self, state: tuple[()], observation: Observation) -> tuple[Decision, tuple[()]]:
        weight = jnp.where(observation.available, observation.population.importance, 0)
        names = jnp.arange(len(weight))

        def draw(i: Array) -> Array:
            # A race: the smallest of exponential times of rate α_k is k's with probability α_k / Σ α.
            uniform = observation.stream.uniform(names, 1, start=12 + 4 * i)[:, 0]
            time = jnp.where(weight > 0, -jnp.log1p(-uniform) / weight, jnp.inf)
            return jnp.argmin(time)

        times = jnp.zeros_like(weight).at[jax.lax.map(draw, jnp.arange(self.clients))].add(1)
        times = jnp.where(weight > 0, times, 0)  # argmin has a winner even where no client is available
        return Decision(times > 0, times / self.clients), state
