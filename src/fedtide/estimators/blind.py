"""No estimate at all."""

import jax.numpy as jnp
from jax import Array

from fedtide.types import Estimate, Population, part


@part
class Blind:
    """Learns nothing: for policies that do not look at π̂ and λ̂ (those that do refuse it)."""

    @property
    def knows(self) -> tuple[str, ...]:
        return ()

    def init(self, population: Population) -> tuple[()]:
        return ()

    def update(self, state: tuple[()], available: Array) -> tuple[Estimate, tuple[()]]:
        nothing = jnp.full(len(available), jnp.nan)
        return Estimate(nothing, nothing), state
