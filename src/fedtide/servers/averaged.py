"""A server that hands out the mean of its last two models."""

from typing import Any, NamedTuple

from jax import Array

from fedtide.servers.optimiser import Optimiser
from fedtide.types import Server, State, part


class LastTwo(NamedTuple):
    inner: Any
    before: Array  # [d] the model before the last step


@part
class AverageOfLastTwo:
    """Trains as `server` does, and hands out (w_t + w_{t−1}) / 2 for evaluation and use, never for training.

    Reference: Jhunjhunwala, Wang and Joshi, "FedExP: Speeding up federated averaging via extrapolation", ICLR 2023.
    """

    server: Server = Optimiser()

    def init(self, w: Array) -> LastTwo:
        return LastTwo(self.server.init(w), w)

    def step(self, state: LastTwo, w: Array, direction: Array) -> tuple[Array, LastTwo]:
        after, inner = self.server.step(state.inner, w, direction)
        return after, LastTwo(inner, w)

    def end_round(self, state: LastTwo, w: Array, round: Array) -> tuple[Array, LastTwo]:
        w, inner = self.server.end_round(state.inner, w, round)
        return w, state._replace(inner=inner)

    def serve(self, state: State, w: Array) -> Array:
        return (w + state.before) / 2
