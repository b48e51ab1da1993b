"""A uniform sample of those whom another policy would invite."""

from typing import Literal

import jax.numpy as jnp
from jax import Array

from fedtide.errors import check_kind, require, whole
from fedtide.participation.choice import largest
from fedtide.types import Cohort, Decision, Observation, Participation, Population, State, Updates, part


@part
class Subsample:
    """At most `clients` of those that `policy` invites, uniformly; weights grow by (invited / sampled).

    Given who is available, the expected direction is that of `policy`: (un)biased exactly when it is.

    Reference: Rodio et al., "Federated learning under heterogeneous and correlated client availability",
    IEEE/ACM ToN 2024 (its heuristic H2).
    """

    policy: Participation
    clients: int

    def __post_init__(self):
        check_kind("participation.policy", self.policy, "participation")
        wanted = "one that does not keep count of whom it invites: it would count those whom the sample leaves out"
        require(not self.policy.counts_invitations, "participation.policy", type(self.policy).__name__, wanted)
        object.__setattr__(self, "clients", whole("participation.clients", self.clients, 1))

    @property
    def needs_estimates(self) -> bool:
        return self.policy.needs_estimates

    @property
    def needs_correlation(self) -> bool:
        return self.policy.needs_correlation

    @property
    def needs_losses(self) -> Literal["minibatch", "all"] | None:
        return self.policy.needs_losses

    @property
    def needs_optimum(self) -> bool:
        return self.policy.needs_optimum

    @property
    def weighing(self) -> Literal["fixed", "normalised", "free"]:
        return "free"

    @property
    def counts_invitations(self) -> bool:
        return False

    @property
    def selects_by_loss(self) -> bool:
        return self.policy.selects_by_loss

    def init(self, population: Population) -> State:
        return self.policy.init(population)

    def candidates(self, state: State, seen: Observation) -> Array:
        return self.policy.candidates(state, seen)

    def decide(self, state: State, seen: Observation) -> tuple[Decision, State]:
        inner, state = self.policy.decide(state, seen)
        # Counter 4 onwards: the wrapped policy may use the first block of its own.
        score = seen.stream.uniform(jnp.arange(len(inner.invited)), 1, start=4)[:, 0]
        invited = largest(score, inner.invited, self.clients)
        growth = inner.invited.sum() / jnp.maximum(invited.sum(), 1)
        return Decision(invited, jnp.where(invited, inner.weight * growth, 0)), state

    def learn(self, state: State, cohort: Cohort, updates: Updates) -> State:
        return self.policy.learn(state, cohort, updates)

    def query_capacity(self, available: int) -> int:
        return self.policy.query_capacity(available)

    def capacity(self, available: int) -> int:
        return min(self.clients, self.policy.capacity(available))
