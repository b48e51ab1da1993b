"""Groups that take turns."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.availability.base import Numbers, Process, count_clients
from fedtide.errors import check_one_each, membership_of, require
from fedtide.streams import Stream
from fedtide.types import part


@part
class Cyclic(Process):
    """Groups of clients take turns, always in the same order; nothing is random.

    In round t the clients of group ⌊t / period⌋ mod K̄ are available: π = 1/K̄ as an average over time. λ is None: a
    deterministic schedule is not described by a two-state chain.

    `groups` is the group of each client, 0 … K̄ − 1, or a number K̄ of groups and `clients`: groups of consecutive
    clients, equal up to one client. A turn lasts `period` rounds.

    Reference: Cho et al., "On the convergence of federated averaging with cyclic client participation", ICML 2023.
    """

    correlation = None

    groups: Numbers
    period: int = 1
    clients: int = None  # pyright: ignore[reportAssignmentType]  # filled from groups
    turns: int = dataclasses.field(init=False, repr=False)

    def __post_init__(self):
        clients = count_clients(self.clients, self.groups)
        groups = self.groups
        if np.ndim(groups) == 0:
            require(clients is not None, "groups", groups, "the group of each client, or a number and `clients`")
            fine = np.asarray(groups).dtype.kind in "iu" and 1 <= int(groups) <= (clients or 0)
            require(fine, "groups", groups, f"a number of groups from 1 to {clients}, the clients")
            groups = np.arange(clients or 0) * int(groups) // (clients or 1)
        groups = membership_of("groups", groups)
        check_one_each("groups", groups, clients)
        turns = int(groups.max()) + 1
        empty = np.flatnonzero(np.bincount(groups, minlength=turns) == 0)
        require(len(empty) == 0, "groups", self.groups, f"without gaps: group {empty[:1].tolist()} has no client")
        require(self.period >= 1, "period", self.period, "1 or more rounds")
        self._set(groups=groups, clients=len(groups), turns=turns)

    @property
    def availability(self) -> np.ndarray:
        return np.full(self.clients, 1 / self.turns)

    def classes(self) -> list[str]:
        return [f"group {g}" for g in np.asarray(self.groups)]

    def step(self, state: tuple[()], stream: Stream) -> tuple[Array, tuple[()]]:
        turn = jnp.asarray(stream.round, jnp.int32) // self.period % self.turns
        return jnp.asarray(self.groups) == turn, state
