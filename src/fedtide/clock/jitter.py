"""How the duration of a task varies: a factor for each task, 1 in the mean."""

from typing import Protocol

import jax.numpy as jnp
from jax import Array

from fedtide.errors import number
from fedtide.streams import normal
from fedtide.types import part


class Jitter(Protocol):
    """The factor of each task's duration."""

    def factor(self, uniform: Array) -> Array:
        """Factors from uniform numbers in [0, 1)."""
        ...


@part
class Steady:
    """Always 1: a task of a client takes as long as its last one with as much work."""

    def factor(self, uniform: Array) -> Array:
        return jnp.ones_like(uniform)


@part
class Lognormal:
    """exp(σ z − σ²/2) with z ~ N(0, 1): of mean 1, with `spread` σ as the standard deviation of its logarithm."""

    spread: float = 0.5

    def __post_init__(self):
        number("jitter.spread", self.spread, low=0)

    def factor(self, uniform: Array) -> Array:
        return jnp.exp(self.spread * normal(uniform) - self.spread**2 / 2)


@part
class Exponential:
    """−log(1 − u): exponential of mean 1, the case in which waiting times have closed forms."""

    def factor(self, uniform: Array) -> Array:
        return -jnp.log1p(-uniform)
