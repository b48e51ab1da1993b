"""Groups of clients that are invited in turn."""

import jax.numpy as jnp
from jax import Array

from fedtide.errors import check_one_of, require, whole
from fedtide.participation.base import Weighed, Weights, weigh
from fedtide.participation.choice import largest
from fedtide.types import Decision, Observation, Population, part


@part
class CyclicGroups(Weighed):
    """In round t those of group t mod K̄ who are available, or `clients` of them uniformly; weights as `UniformSample`.

    `groups` = K̄: equal groups of consecutive clients, up to one client, always in the same order. Over a whole cycle
    with everybody available each client counts the same; within a round the direction is that of one group, so it is
    biased where groups differ. K̄ = 1 is `UniformSample`, or `Everyone` without `clients`.

    Reference: Cho et al., "On the convergence of federated averaging with cyclic client participation", ICML 2023.
    """

    groups: int = 5
    clients: int | None = None
    weights: Weights = "equal"

    def __post_init__(self):
        object.__setattr__(self, "groups", whole("participation.groups", self.groups, 1))
        if self.clients is not None:
            object.__setattr__(self, "clients", whole("participation.clients", self.clients, 1))
        check_one_of("participation.weights", self.weights, Weights)

    def init(self, population: Population) -> Array:
        clients = len(population.importance)
        require(self.groups <= clients, "participation.groups", self.groups, f"at most {clients}, the clients")
        return population.importance

    def decide(self, state: Array, seen: Observation) -> tuple[Decision, Array]:
        client = jnp.arange(len(state))
        turn = jnp.asarray(seen.round, jnp.int32) % self.groups
        invited = seen.available & (client * self.groups // len(state) == turn)
        if self.clients is not None:
            invited = largest(seen.stream.uniform(client), invited, self.clients)
        return Decision(invited, weigh(self.weights, state, invited)), state

    def capacity(self, available: int) -> int:
        return min(self.clients or available, available)
