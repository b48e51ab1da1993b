"""The clients with the smallest losses, among some candidates."""

from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from fedtide.errors import require
from fedtide.participation.base import Policy, weigh
from fedtide.participation.choice import first, largest, race
from fedtide.types import Decision, Observation, QueriedLosses, Weighing, check_whole, part


@part
class LowestLoss(Policy):
    """d candidates without replacement with probabilities ∝ α_k; the m of them with the smallest F_k(w); q_k = 1/m.

    m is `clients`, d is `pool` (None: all available clients); fewer if fewer are available. The mirror image of
    `HighestLoss`: clients whose data contradict the others' (flipped labels, broken sensors) have large losses and are
    left out, and so are honest clients with rare data. Biased by design towards small losses; with d = m and equal α it
    is a uniform sample. It trusts the losses that clients report. Ties are broken at random; losses that are not finite
    come last.

    Reference: Shah, Wu and Sanghavi, "Choosing the sample with lowest loss makes SGD robust", AISTATS 2020 (of samples;
    here of clients).
    """

    clients: int = 10
    pool: int | None = None

    def __post_init__(self):
        check_whole(self, "participation", clients=1, pool=1)
        wanted = f"{self.clients} or more, as participation.clients"
        require(self.pool is None or self.pool >= self.clients, "participation.pool", self.pool, wanted)

    needs_losses: ClassVar[QueriedLosses] = "all"
    needs_optimum: ClassVar[bool] = True  # not for the selection, but to measure its skew
    selects_by_loss: ClassVar[bool] = True
    weighing: ClassVar[Weighing] = "normalised"

    def candidates(self, state: tuple[()], observation: Observation) -> Array:
        clients = len(observation.available)
        score = race(observation.population.importance, observation.stream.uniform(jnp.arange(clients), 2)[:, 0])
        return largest(score, observation.available, min(self.pool or clients, clients))

    def decide(self, state: tuple[()], observation: Observation) -> tuple[Decision, tuple[()]]:
        ties = observation.stream.uniform(jnp.arange(len(observation.loss)), 2)[:, 1]
        invited = first(observation.loss, ties, observation.asked, self.clients)
        return Decision(invited, weigh("equal", observation.population.importance, invited)), state

    def query_capacity(self, available: int) -> int:
        return min(self.pool or available, available)
