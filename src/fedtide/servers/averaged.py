"""A server that returns the mean of its last two models."""

from typing import Any, NamedTuple

from jax import Array

from fedtide.declared import Descent
from fedtide.errors import check_kind
from fedtide.servers.optimiser import Optimiser
from fedtide.types import Server, State, part


class LastTwo(NamedTuple):
    inner: Any
    before: Array  # [d] the model that `server` returned before the last step


@part
class AverageOfLastTwo:
    """The steps of `server`; returns (w_t + w_{t−1}) / 2 for evaluation and use, not for training. w_t is the model
    that `server` would return.

    Reference: Jhunjhunwala, Wang and Joshi, "FedExP: Speeding up federated averaging via extrapolation", ICLR 2023.
    """

    server: Server = Optimiser()

    def __post_init__(self):
        check_kind("server.server", self.server, "server")

    def in_theory(self) -> Descent:
        return self.server.in_theory()._replace(rate=None)

    def init(self, w: Array) -> LastTwo:
        inner = self.server.init(w)
        return LastTwo(inner, self.server.serve(inner, w))

    def step(self, state: LastTwo, w: Array, direction: Array) -> tuple[Array, LastTwo]:
        before = self.server.serve(state.inner, w)
        after, inner = self.server.step(state.inner, w, direction)
        return after, LastTwo(inner, before)

    def end_round(self, state: LastTwo, w: Array, round: Array) -> tuple[Array, LastTwo]:
        w, inner = self.server.end_round(state.inner, w, round)
        return w, state._replace(inner=inner)

    def serve(self, state: State, w: Array) -> Array:
        return (self.server.serve(state.inner, w) + state.before) / 2
