"""The adaptive servers of federated optimisation, as published."""

from typing import Literal, NamedTuple

import jax.numpy as jnp
from jax import Array

from fedtide.errors import check_one_of, number
from fedtide.servers.base import LastModel
from fedtide.types import part

Algorithm = Literal["adagrad", "adam", "yogi"]


class ServerMoments(NamedTuple):
    mean: Array | None  # [d] m; Adagrad has none
    square: Array  # [d] u


@part
class PublishedOptimiser(LastModel):
    """m ← b1 m + (1 − b1) v, w ← w − η_s m / (√u + ε), from m = 0 and u = ε², without bias correction.

    `adagrad`: u ← u + v² and m = v; `adam`: u ← b2 u + (1 − b2) v²; `yogi`: u ← u − (1 − b2) v² sign(u − v²).
    `Optimiser` has optax's versions, which correct m and u for their start and begin elsewhere: with those the first
    steps are up to 1/(1 − b1) times as long.

    Reference: Reddi et al., "Adaptive federated optimization", ICLR 2021, Algorithm 2.
    """

    algorithm: Algorithm = "adam"
    rate: float = 0.1
    b1: float = 0.9
    b2: float = 0.99
    epsilon: float = 1e-3

    def __post_init__(self):
        check_one_of("server.algorithm", self.algorithm, Algorithm)
        number("server.rate", self.rate, low=0)
        number("server.b1", self.b1, low=0, below=1)
        number("server.b2", self.b2, low=0, below=1)
        number("server.epsilon", self.epsilon, above=0)

    def init(self, w: Array) -> ServerMoments:
        mean = None if self.algorithm == "adagrad" else jnp.zeros_like(w)
        return ServerMoments(mean, jnp.full_like(w, self.epsilon**2))

    def step(self, state: ServerMoments, w: Array, direction: Array) -> tuple[Array, ServerMoments]:
        v, u = direction, state.square
        if self.algorithm == "adagrad":
            u = u + v * v
        elif self.algorithm == "adam":
            u = self.b2 * u + (1 - self.b2) * v * v
        else:
            u = u - (1 - self.b2) * v * v * jnp.sign(u - v * v)
        mean = None if state.mean is None else self.b1 * state.mean + (1 - self.b1) * v
        return w - self.rate * (v if mean is None else mean) / (jnp.sqrt(u) + self.epsilon), ServerMoments(mean, u)
