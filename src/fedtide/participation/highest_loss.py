"""The clients with the largest losses, among some candidates."""

from typing import Any, ClassVar, Literal

import jax.numpy as jnp
from jax import Array

from fedtide.errors import check_one_of, require
from fedtide.participation.base import Policy, weigh
from fedtide.participation.choice import first, largest, race
from fedtide.types import (
    Cohort,
    Decision,
    Observation,
    Population,
    QueriedLosses,
    Updates,
    Weighing,
    check_whole,
    derived,
    part,
)

Losses = Literal["all", "minibatch", "remembered"]
"""The losses by which candidates are compared: see `HighestLoss`."""


@part
class HighestLoss(Policy):
    """d candidates without replacement with probabilities ∝ α_k; the m of them with the largest losses; q_k = 1/m.

    m is `clients`, d is `pool` (None: all available clients); fewer if fewer are available. Biased by design towards
    large losses. With d = m and equal α it is a uniform sample, and unbiased where all π are equal; with unequal α not
    even then, since draws without replacement include important clients less than proportionally. Ties are broken at
    random.

    * `losses`: F_k(w) over `all` samples (pow-d), over one `minibatch` (cpow-d), or `remembered` (rpow-d): the mean
      over the local steps of the client's last round, without asking; clients that never took part come first.
    * `halve_every` = r: d_t = max(m, ⌈d / 2^⌊t/r⌋⌉), so that the bias decays (adapow-d). None: d is constant.

    Reference: Cho, Wang and Joshi, "Towards understanding biased client selection in federated learning", AISTATS 2022.
    """

    clients: int = 10
    pool: int | None = None
    losses: Losses = "all"
    halve_every: int | None = None

    def __post_init__(self):
        check_whole(self, "participation", clients=1, pool=1, halve_every=1)
        wanted = f"{self.clients} or more, as participation.clients"
        require(self.pool is None or self.pool >= self.clients, "participation.pool", self.pool, wanted)
        check_one_of("participation.losses", self.losses, Losses)

    needs_losses: ClassVar[QueriedLosses] = derived(lambda self: None if self.losses == "remembered" else self.losses)
    needs_optimum: ClassVar[bool] = True  # not for the selection, but to measure its skew
    selects_by_loss: ClassVar[bool] = True
    weighing: ClassVar[Weighing] = "normalised"

    def init(self, population: Population) -> Any:
        """[N] mean loss when last trained, ∞ before; () where losses are asked for."""
        return jnp.full_like(population.importance, jnp.inf) if self.losses == "remembered" else ()

    def candidates(self, state: Any, observation: Observation) -> Array:
        clients = len(observation.available)
        score = race(observation.population.importance, observation.stream.uniform(jnp.arange(clients), 2)[:, 0])
        pool = min(self.pool or clients, clients)
        if self.halve_every is None:
            return largest(score, observation.available, pool)
        # ⌈d / 2^i⌉ in whole numbers; i is limited to the shifts that a 32-bit number allows.
        halvings = jnp.minimum(jnp.asarray(observation.round, jnp.int32) // self.halve_every, 30)
        return largest(score, observation.available, pool, jnp.maximum(self.clients, -(-pool >> halvings)))

    def decide(self, state: Any, observation: Observation) -> tuple[Decision, Any]:
        if self.losses == "remembered":
            pool, loss = self.candidates(state, observation), state
        else:
            pool, loss = observation.asked, observation.loss
        ties = observation.stream.uniform(jnp.arange(len(loss)), 2)[:, 1]
        invited = first(-loss, ties, pool, self.clients)
        return Decision(invited, weigh("equal", observation.population.importance, invited)), state

    def learn(self, state: Any, cohort: Cohort, updates: Updates) -> Any:
        if self.losses != "remembered":
            return state
        trained = cohort.present & (updates.steps > 0)
        target = jnp.where(trained, cohort.client, len(state))
        return state.at[target].set(updates.loss, mode="drop")

    def query_capacity(self, available: int) -> int:
        return min(self.pool or available, available)
