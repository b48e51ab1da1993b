"""How much an update counts by its age: the server steps between the model it started from and the one it changes."""

import jax.numpy as jnp
from jax import Array

from fedtide.errors import number
from fedtide.types import part

__all__ = ["Constant", "Hinge", "Polynomial"]


@part
class Constant:
    """Always 1."""

    def discount(self, age: Array) -> Array:
        return jnp.ones(jnp.shape(age))


@part
class Hinge:
    """1 up to age b, then 1 / (a (age − b) + 1); a is `slope` and b is `until`.

    Reference: Xie, Koyejo and Gupta, "Asynchronous federated optimization", OPT 2020 (FedAsync).
    """

    slope: float = 10.0
    until: float = 4.0

    def __post_init__(self):
        number("staleness.slope", self.slope, low=0)
        number("staleness.until", self.until, low=0)

    def discount(self, age: Array) -> Array:
        return 1 / (self.slope * jnp.maximum(age - self.until, 0) + 1)


@part
class Polynomial:
    """(1 + age)^(−a); a is `power`.

    Reference: Xie, Koyejo and Gupta, "Asynchronous federated optimization", OPT 2020 (FedAsync).
    """

    power: float = 0.5

    def __post_init__(self):
        number("staleness.power", self.power, low=0)

    def discount(self, age: Array) -> Array:
        return (1 + jnp.asarray(age, jnp.result_type(float))) ** (-self.power)
