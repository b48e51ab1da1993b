"""A uniform sample of the clients that another policy would invite, or of those that it may choose from."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.declared import Weighting
from fedtide.errors import check_kind, require
from fedtide.participation.choice import largest
from fedtide.types import (
    Cohort,
    Decision,
    Observation,
    Participation,
    Population,
    QueriedLosses,
    State,
    Updates,
    Weighing,
    check_whole,
    derived,
    part,
)


class _Sampling:
    """A wrapper that declares what its `policy` declares."""

    policy: Participation
    clients: int

    def __post_init__(self):
        check_kind("participation.policy", self.policy, "participation")
        check_whole(self, "participation", clients=1)

    needs_estimates: ClassVar[bool] = derived(lambda self: self.policy.needs_estimates)
    needs_correlation: ClassVar[bool] = derived(lambda self: self.policy.needs_correlation)
    needs_losses: ClassVar[QueriedLosses] = derived(lambda self: self.policy.needs_losses)
    needs_optimum: ClassVar[bool] = derived(lambda self: self.policy.needs_optimum)
    selects_by_loss: ClassVar[bool] = derived(lambda self: self.policy.selects_by_loss)

    def in_theory(self, importance: np.ndarray, availability: np.ndarray, inverse: np.ndarray) -> Weighting:
        return self.policy.in_theory(importance, availability, inverse).sampled()

    def init(self, population: Population) -> State:
        return self.policy.init(population)

    def learn(self, state: State, cohort: Cohort, updates: Updates) -> State:
        return self.policy.learn(state, cohort, updates)

    def capacity(self, available: int) -> int:
        return min(self.clients, self.policy.capacity(available))


@part
class Subsample(_Sampling):
    """At most `clients` of those that `policy` invites, uniformly; weights are multiplied by (invited / sampled).

    Given the available clients, the expected direction is that of `policy`: it is unbiased exactly when `policy` is.
    `SampleFirst` samples before the decision.
    """

    policy: Participation
    clients: int

    def __post_init__(self):
        super().__post_init__()
        wanted = "one that does not depend on past invitations: it would count clients that the sample leaves out"
        require(not self.policy.counts_invitations, "participation.policy", type(self.policy).__name__, wanted)

    weighing: ClassVar[Weighing] = "free"
    counts_invitations: ClassVar[bool] = False

    def candidates(self, state: State, observation: Observation) -> Array:
        return self.policy.candidates(state, observation)

    def decide(self, state: State, observation: Observation) -> tuple[Decision, State]:
        inner, state = self.policy.decide(state, observation)
        # Counters from 4 on: the wrapped policy may use the first block.
        score = observation.stream.uniform(jnp.arange(len(inner.invited)), 1, start=4)[:, 0]
        invited = largest(score, inner.invited, self.clients)
        growth = inner.invited.sum() / jnp.maximum(invited.sum(), 1)
        return Decision(invited, jnp.where(invited, inner.weight * growth, 0)), state

    def query_capacity(self, available: int) -> int:
        return self.policy.query_capacity(available)


@part
class SampleFirst(_Sampling):
    """`policy` on a uniform sample S of at most `clients` of the available clients A, in place of A.

    Only S is asked for losses, and only S can be invited. Weights that are not normalised are multiplied by |A|/|S|:
    the expected direction is that of `policy` if its weights do not depend on the other available clients (`Unbiased`,
    or CA-Fed for the same losses); normalised weights stay normalised. `Subsample` samples after the decision.

    Reference: Rodio et al., "Federated learning under heterogeneous and correlated client availability",
    IEEE/ACM ToN 2024, App. H2.
    """

    policy: Participation
    clients: int

    weighing: ClassVar[Weighing] = derived(
        lambda self: "normalised" if self.policy.weighing == "normalised" else "free"
    )
    counts_invitations: ClassVar[bool] = derived(lambda self: self.policy.counts_invitations)

    def candidates(self, state: State, observation: Observation) -> Array:
        return self.policy.candidates(state, self._sampled(observation))

    def decide(self, state: State, observation: Observation) -> tuple[Decision, State]:
        sampled = self._sampled(observation)
        decision, state = self.policy.decide(state, sampled)
        if self.policy.weighing == "normalised":
            return decision, state
        growth = observation.available.sum() / jnp.maximum(sampled.available.sum(), 1)
        return decision._replace(weight=decision.weight * growth), state

    def query_capacity(self, available: int) -> int:
        return self.policy.query_capacity(min(self.clients, available))

    def capacity(self, available: int) -> int:
        return self.policy.capacity(min(self.clients, available))

    def _sampled(self, observation: Observation) -> Observation:
        # Counters from 8 on: the wrapped policy, or a `Subsample` of this one, may use the blocks before.
        score = observation.stream.uniform(jnp.arange(len(observation.available)), 1, start=8)[:, 0]
        return observation._replace(available=largest(score, observation.available, self.clients))
