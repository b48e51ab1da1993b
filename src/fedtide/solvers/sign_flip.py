"""Attackers that send the opposite of their update."""

from jax import Array

from fedtide.attackers import Attackers
from fedtide.solvers.attack import Attack
from fedtide.solvers.sgd import Sgd
from fedtide.types import Solver, Task, part


@part
class SignFlip(Attack):
    """Δ_k ← −s Δ_k for the attackers, where Δ_k is the change made by `solver` and s is `scale`; the others are honest.

    `attackers` are client numbers, or the number of clients drawn by `seed`, which is independent of a run's seeds.
    Without attackers it is `solver` to the bit.

    Reference: Li et al., "RSA: Byzantine-robust stochastic aggregation methods for distributed learning from
    heterogeneous datasets", AAAI 2019.
    """

    solver: Solver = Sgd()
    attackers: Attackers = 1
    scale: float = 1.0
    seed: int = 0

    def forged(self, change: Array, task: Task) -> Array:
        return -self.scale * change
