"""A server that amplifies the change over a period."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from fedtide.declared import Descent
from fedtide.errors import check_kind, number, require
from fedtide.servers.optimiser import Optimiser
from fedtide.servers.projected import Projected
from fedtide.types import Server, State, check_whole, part


class AmplifiedState(NamedTuple):
    inner: Any
    start: Array  # [d] the model before the period's first step
    begun: Array  # [] bool: whether that step has been taken


@part
class Amplified:
    """The steps of `server`, and after every `period` = P rounds w ← w_P + γ (w − w_P), w_P the model P rounds ago.

    Rounds without participants are counted, too. γ = `factor` = 1 changes nothing. The long step would leave the ball
    of an inner `Projected`, which is refused: wrap this server in `Projected` instead.

    Reference: Wang and Ji, "A unified analysis of federated learning with arbitrary client participation",
    NeurIPS 2022.
    """

    server: Server = Optimiser()
    period: int = 10
    factor: float = 1.5

    def __post_init__(self):
        check_kind("server.server", self.server, "server")
        inner: Any = self.server
        while inner is not None:  # through averages
            wanted = "one without a ball, which the long step would leave: use Projected(Amplified(…)) instead"
            require(not isinstance(inner, Projected), "server.server", type(inner).__name__, wanted)
            inner = getattr(inner, "server", None)
        check_whole(self, "server", period=1)
        number("server.factor", self.factor, low=0)

    def in_theory(self) -> Descent:
        return self.server.in_theory()._replace(rate=None)

    def init(self, w: Array) -> AmplifiedState:
        return AmplifiedState(self.server.init(w), w, jnp.asarray(False))

    def step(self, state: AmplifiedState, w: Array, direction: Array) -> tuple[Array, AmplifiedState]:
        # Stored when the model leaves it, not when it is reached: a wrapper may have changed it in between.
        start = jnp.where(state.begun, state.start, w)
        w, inner = self.server.step(state.inner, w, direction)
        return w, AmplifiedState(inner, start, jnp.asarray(True))

    def end_round(self, state: AmplifiedState, w: Array, round: Array) -> tuple[Array, AmplifiedState]:
        w, inner = self.server.end_round(state.inner, w, round)
        ends = (round + 1) % self.period == 0
        w = jnp.where(ends & state.begun, w + (self.factor - 1) * (w - state.start), w)
        return w, AmplifiedState(inner, state.start, state.begun & ~ends)

    def serve(self, state: State, w: Array) -> Array:
        return self.server.serve(state.inner, w)
