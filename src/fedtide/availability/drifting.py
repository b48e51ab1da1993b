"""Time-varying availability with correlation."""

import jax.numpy as jnp
from jax import Array

from fedtide.availability.base import Process
from fedtide.streams import Stream


class Drifting(Process):
    """Client k is available in round t with probability exactly π_k(t) = `marginal(t)`, correlated over rounds.

    Each client has a number U, uniform on [0, 1). From one round to the next it keeps U with probability ρ_k
    (`persistence`) and otherwise draws a new one; it is available in round t when U < π_k(t). U stays uniform, so the
    marginal is exact whatever ρ. U survives s rounds with probability ρ^s and is independent after that, so
    Cov(on_t, on_{t+s}) = ρ^s (min(π(t), π(t+s)) − π(t) π(t+s)). Where π does not change this is the two-state chain
    with correlation λ = ρ.
    """

    persistence: Array

    def marginal(self, t: Array | int) -> Array:
        """π_k(t) [N]."""
        raise NotImplementedError

    def init(self, stream: Stream) -> Array:
        return stream.uniform(jnp.arange(self.clients))

    def step(self, state: Array, stream: Stream) -> tuple[Array, Array]:
        numbers = stream.uniform(jnp.arange(self.clients), 3)
        kept = jnp.where(numbers[:, 1] < self.persistence, state, numbers[:, 2])
        return state < self.marginal(stream.round), kept
