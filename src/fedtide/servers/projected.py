"""A server that projects its models onto a ball."""

import jax.numpy as jnp
from jax import Array

from fedtide.declared import Descent
from fedtide.errors import check_kind, number
from fedtide.types import Server, State, part


@part
class Projected:
    """w ← Π_W(step of `server`), W the ball of `radius` around 0: w · min(1, radius / ‖w‖).

    Reference: Rodio et al., "Federated learning under heterogeneous and correlated client availability",
    IEEE/ACM ToN 2024, eq. (3).
    """

    server: Server
    radius: float

    def __post_init__(self):
        check_kind("server.server", self.server, "server")
        number("server.radius", self.radius, above=0)

    def in_theory(self) -> Descent:
        return Descent(unfollowed="Its server projects, and the limit may be outside the ball")

    def init(self, w: Array) -> State:
        return self.server.init(w)

    def step(self, state: State, w: Array, direction: Array) -> tuple[Array, State]:
        w, state = self.server.step(state, w, direction)
        return self._project(w), state

    def end_round(self, state: State, w: Array, round: Array) -> tuple[Array, State]:
        after, state = self.server.end_round(state, w, round)
        return jnp.where((after != w).any(), self._project(after), w), state

    def serve(self, state: State, w: Array) -> Array:
        return self.server.serve(state, w)

    def _project(self, w: Array) -> Array:
        norm = jnp.sqrt((w * w).sum())
        return w * jnp.minimum(1.0, self.radius / jnp.maximum(norm, jnp.finfo(w.dtype).tiny))
