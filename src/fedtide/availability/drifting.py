"""Availability that changes with time, in runs."""

import jax.numpy as jnp
from jax import Array

from fedtide.availability.base import Process
from fedtide.streams import Stream


class Drifting(Process):
    """Client k is there in round t with probability exactly π_k(t) = `marginal(t)`, and its runs persist.

    Each client holds a number U, uniform on [0, 1). From a round to the next it keeps it with probability ρ_k
    (`persistence`) and otherwise draws another; it is there in round t when U < π_k(t). U stays uniform, so the
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
