"""No estimate at all."""

from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from fedtide.types import Estimate, Population, part


@part
class Blind:
    """Estimates nothing: for policies that use neither π̂ nor λ̂ (other policies refuse it)."""

    knows: ClassVar[tuple[str, ...]] = ()

    def init(self, population: Population) -> tuple[()]:
        return ()

    def update(self, state: tuple[()], available: Array) -> tuple[Estimate, tuple[()]]:
        nothing = jnp.full(len(available), jnp.nan)
        return Estimate(nothing, nothing), state
