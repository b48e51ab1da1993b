"""The clients that the model serves worst, among some candidates."""

from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
from jax import Array

from fedtide.errors import check_one_of, require, whole
from fedtide.participation.base import Policy, weigh
from fedtide.participation.choice import first, largest, race
from fedtide.types import Cohort, Decision, Observation, Population, Updates, part

Losses = Literal["all", "minibatch", "remembered"]
"""What candidates are compared by: see `HighestLoss`."""


class Choices(NamedTuple):
    importance: Array  # [N] α
    loss: Any  # [N] mean loss when last trained, ∞ before; () where losses are asked for


@part
class HighestLoss(Policy):
    """d candidates without replacement with probabilities ∝ α_k; the m of them with the largest losses; q_k = 1/m.

    m is `clients`, d is `pool` (None: all who are there); fewer where fewer are there. Biased by design towards large
    losses. With d = m and equal α it is a uniform sample, and unbiased where all π are equal; with unequal α not even
    then, since draws without replacement include the important less than in proportion. Ties are broken at random.

    * `losses`: F_k(w) over `all` samples (pow-d), over one `minibatch` (cpow-d), or `remembered` (rpow-d): the mean
      over the local steps of its last round, with nobody asked; who never took part comes first.
    * `halve_every` = r: d_t = max(m, ⌈d / 2^⌊t/r⌋⌉), so that the bias fades (adapow-d). None: d stays.

    Reference: Cho, Wang and Joshi, "Towards understanding biased client selection in federated learning", AISTATS 2022.
    """

    clients: int = 10
    pool: int | None = None
    losses: Losses = "all"
    halve_every: int | None = None

    def __post_init__(self):
        clients = whole("participation.clients", self.clients, 1)
        object.__setattr__(self, "clients", clients)
        if self.pool is not None:
            object.__setattr__(self, "pool", whole("participation.pool", self.pool, 1))
            require(
                self.pool >= clients, "participation.pool", self.pool, f"{clients} or more, as participation.clients"
            )
        if self.halve_every is not None:
            object.__setattr__(self, "halve_every", whole("participation.halve_every", self.halve_every, 1))
        check_one_of("participation.losses", self.losses, Losses)

    @property
    def needs_losses(self) -> Literal["minibatch", "all"] | None:
        return None if self.losses == "remembered" else self.losses

    @property
    def needs_optimum(self) -> bool:
        return True  # not to select: to measure how the selection leans

    @property
    def selects_by_loss(self) -> bool:
        return True

    @property
    def weighing(self) -> Literal["fixed", "normalised", "free"]:
        return "normalised"

    def init(self, population: Population) -> Choices:
        importance = population.importance
        return Choices(importance, jnp.full_like(importance, jnp.inf) if self.losses == "remembered" else ())

    def candidates(self, state: Choices, seen: Observation) -> Array:
        clients = len(state.importance)
        score = race(state.importance, seen.stream.uniform(jnp.arange(clients), 2)[:, 0])
        pool = min(self.pool or clients, clients)
        if self.halve_every is None:
            return largest(score, seen.available, pool)
        # Counted in whole numbers: ⌈d / 2^i⌉, with i kept where a 32-bit number can be shifted by it.
        halvings = jnp.minimum(jnp.asarray(seen.round, jnp.int32) // self.halve_every, 30)
        return largest(score, seen.available, pool, jnp.maximum(self.clients, -(-pool >> halvings)))

    def decide(self, state: Choices, seen: Observation) -> tuple[Decision, Choices]:
        if self.losses == "remembered":
            pool, loss = self.candidates(state, seen), state.loss
        else:
            pool, loss = seen.asked, seen.loss
        ties = seen.stream.uniform(jnp.arange(len(loss)), 2)[:, 1]
        invited = first(-loss, ties, pool, self.clients)
        return Decision(invited, weigh("equal", state.importance, invited)), state

    def learn(self, state: Choices, cohort: Cohort, updates: Updates) -> Choices:
        if self.losses != "remembered":
            return state
        trained = cohort.present & (updates.steps > 0)
        target = jnp.where(trained, cohort.client, len(state.importance))
        return state._replace(loss=state.loss.at[target].set(updates.loss, mode="drop"))

    def query_capacity(self, available: int) -> int:
        return min(self.pool or available, available)

    def capacity(self, available: int) -> int:
        return min(self.clients, available)
