"""Attackers that send noise."""

import jax.numpy as jnp
from jax import Array

from fedtide.attackers import Attackers
from fedtide.solvers.attack import Attack
from fedtide.solvers.sgd import Sgd
from fedtide.streams import normal
from fedtide.types import Solver, Task, part


@part
class RandomUpdate(Attack):
    """Δ_k ← s ‖Δ_k‖ z / √d for the attackers, with z ~ N(0, I) drawn anew in every round; the others are honest.

    Δ_k is the change made by `solver` and s is `scale`: the noise is about s times as long as the change it replaces,
    and independent between attackers, rounds and the run's seeds. `attackers` are client numbers, or the number of
    clients drawn by `seed`, which is independent of a run's seeds. Without attackers it is `solver` to the bit.

    Reference: Blanchard et al., "Machine learning with adversaries: Byzantine tolerant gradient descent", NeurIPS 2017
    (the Gaussian attack, there with a fixed standard deviation).
    """

    solver: Solver = Sgd()
    attackers: Attackers = 1
    scale: float = 1.0
    seed: int = 0

    def forged(self, change: Array, task: Task) -> Array:
        noise = normal(task.uniform(change.size)).astype(change.dtype)
        return self.scale * jnp.sqrt((change**2).sum() / change.size) * noise
