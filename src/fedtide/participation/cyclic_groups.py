"""Groups of clients that are invited in turn."""

import jax.numpy as jnp

from fedtide.errors import require
from fedtide.participation.base import Weighed, Weights, weigh
from fedtide.participation.choice import largest
from fedtide.types import Decision, Observation, Population, check_whole, part


@part
class CyclicGroups(Weighed):
    """In round t the available clients of group t mod K̄, or `clients` of them uniformly; weights as in
    `UniformSample`.

    `groups` = K̄: groups of consecutive clients, equal up to one client, always in the same order. Over a cycle in
    which all clients are available each one counts the same; within a round the direction is that of one group, so it
    is biased where groups differ. K̄ = 1 is `UniformSample`, or `Everyone` without `clients`.

    Reference: Cho et al., "On the convergence of federated averaging with cyclic client participation", ICML 2023.
    """

    groups: int = 5
    clients: int | None = None
    weights: Weights = "equal"

    def __post_init__(self):
        super().__post_init__()
        check_whole(self, "participation", groups=1)

    def init(self, population: Population) -> tuple[()]:
        clients = len(population.importance)
        wanted = f"at most {clients}, the number of clients"
        require(self.groups <= clients, "participation.groups", self.groups, wanted)
        return ()

    def decide(self, state: tuple[()], observation: Observation) -> tuple[Decision, tuple[()]]:
        clients = len(observation.available)
        client = jnp.arange(clients)
        turn = jnp.asarray(observation.round, jnp.int32) % self.groups
        invited = observation.available & (client * self.groups // clients == turn)
        if self.clients is not None:
            invited = largest(observation.stream.uniform(client), invited, self.clients)
        return Decision(invited, weigh(self.weights, observation.population.importance, invited)), state
