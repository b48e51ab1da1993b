"""Clients whose data lie far apart, chosen about equally often."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.errors import FedtideError, number, require, whole
from fedtide.participation.base import Policy, weigh
from fedtide.types import Decision, Observation, Population, part

_MOST = 1000  # clients: distances are N² numbers, shortest paths N³ operations


class Graph(NamedTuple):
    importance: Array  # [N] α
    distance: Array  # [N, N] in [0, 1]
    times: Array  # [N] rounds it was chosen


@part
class GraphSpread(Policy):
    """S of `clients` available ones with a large a · D(S) − Σ_{k∈S} 2 (v_k − min v) / (N − 1); q_k = α_k / Σ_S α.

    D is the mean distance of two clients of S, v_k how often k was chosen, a is `spread`. a = 0 chooses those chosen
    least, ties at random; a large a chooses clients with different data, however often. Found greedily, then improved
    by swaps of one client while that helps (the authors solve it exactly, with a commercial solver). Biased, but less
    so towards the available than a uniform sample.

    Distances are shortest paths in the graph whose edges have length exp(−s²/`scale`), s the cosine similarity of two
    clients' label counts, an edge only where s ≥ `threshold`; then divided by the largest, which is also the distance
    of the unconnected. This is the paper's oracle graph: the server must be allowed to know the label counts. Other
    distances can be given (`distance` [N, N]). For at most 1,000 clients.

    Reference: Wang et al., "FedGS: federated graph-based sampling with arbitrary client availability", AAAI 2023.
    """

    clients: int = 10
    spread: float = 0.1
    scale: float = 0.01
    threshold: float = 0.1
    distance: Array | None = None

    def __post_init__(self):
        object.__setattr__(self, "clients", whole("participation.clients", self.clients, 1))
        number("participation.spread", self.spread, low=0)
        number("participation.scale", self.scale, above=0)
        number("participation.threshold", self.threshold, low=0, high=1)
        if self.distance is not None:
            given = np.asarray(self.distance, float)
            fine = given.ndim == 2 and given.shape[0] == given.shape[1] and bool((given >= 0).all())
            fine = fine and np.array_equal(given, given.T) and not given.diagonal().any()
            wanted = "symmetric, 0 or more and 0 on the diagonal, a row for each client"
            require(bool(fine), "participation.distance", self.distance, wanted)
            object.__setattr__(self, "distance", given)

    @property
    def counts_invitations(self) -> bool:
        return True

    @property
    def weighing(self) -> Literal["fixed", "normalised", "free"]:
        return "normalised"

    def init(self, population: Population) -> Graph:
        clients = len(population.importance)
        if clients > _MOST:
            raise FedtideError(
                f"participation GraphSpread: at most {_MOST:,} clients, not {clients:,}: it compares all"
            )
        return Graph(population.importance, self._distances(population), jnp.zeros(clients, jnp.int32))

    def decide(self, state: Graph, seen: Observation) -> tuple[Decision, Graph]:
        clients = len(state.importance)
        # A thousandth of a round, at random, decides between those who were chosen equally often.
        ties = 1e-3 * seen.stream.uniform(jnp.arange(clients))
        cost = (state.times - state.times.min() + ties) * (2 / max(clients - 1, 1))
        count = jnp.minimum(seen.available.sum(), self.clients)
        distance = state.distance * (2 * self.spread / jnp.maximum(count * (count - 1), 1))
        invited = spread_apart(distance, cost, seen.available, min(self.clients, clients))
        weight = weigh("ratio", state.importance, invited)
        return Decision(invited, weight), state._replace(times=state.times + invited)

    def capacity(self, available: int) -> int:
        return min(self.clients, available)

    def _distances(self, population: Population) -> Array:
        clients = len(population.importance)
        if self.distance is not None:
            entries = len(self.distance)
            allowed = f"one for each of {clients} clients"
            require(entries == clients, "participation.distance", f"{entries} rows", allowed)
            return jnp.asarray(self.distance, population.importance.dtype)
        if population.labels is None:
            raise FedtideError("participation GraphSpread: this problem has no labels to compare; give `distance`")
        labels = population.labels / jnp.maximum(jnp.sqrt((population.labels**2).sum(axis=1, keepdims=True)), 1e-12)
        similarity = jnp.clip(jnp.matmul(labels, labels.T, precision=jax.lax.Precision.HIGHEST), 0, 1)
        edges = jnp.where(similarity >= self.threshold, jnp.exp(-(similarity**2) / self.scale), jnp.inf)
        paths = shortest_paths(jnp.where(jnp.eye(clients, dtype=bool), 0, edges))
        longest = jnp.where(paths < jnp.inf, paths, 0).max()
        return jnp.minimum(paths / jnp.maximum(longest, jnp.finfo(paths.dtype).tiny), 1)


def shortest_paths(lengths: Array) -> Array:
    """Lengths of shortest paths [N, N] from those of the edges, ∞ where there is none (Floyd and Warshall)."""

    def through(k: Array, paths: Array) -> Array:
        return jnp.minimum(paths, paths[:, k, None] + paths[None, k, :])

    return jax.lax.fori_loop(0, len(lengths), through, lengths)


def spread_apart(distance: Array, cost: Array, allowed: Array, count: int) -> Array:
    """Mask of `count` of the allowed (all, where fewer are) with a large Σ_{i<j} distance_ij − Σ_i cost_i.

    Greedy, then at most `count` times the best swap of one chosen client for another, while that improves the sum.
    """
    nobody = jnp.zeros(len(cost), bool)

    def add(_: int, chosen: Array) -> Array:
        gain = jnp.where(allowed & ~chosen, distance @ chosen.astype(distance.dtype) - cost, -jnp.inf)
        best = jnp.argmax(gain)
        return chosen.at[best].set(chosen[best] | (gain[best] > -jnp.inf))

    def best_swap(chosen: Array) -> tuple[Array, Array]:
        worth = distance @ chosen.astype(distance.dtype) - cost
        # i leaves, j comes: j no longer has i to be far from.
        change = jnp.where(
            chosen[:, None] & (allowed & ~chosen)[None, :], worth[None, :] - distance - worth[:, None], -jnp.inf
        )
        out, come = jnp.unravel_index(jnp.argmax(change), change.shape)
        better = change[out, come] > 8 * jnp.finfo(worth.dtype).eps * jnp.abs(worth[out])
        return better, jnp.where(better, chosen.at[out].set(False).at[come].set(True), chosen)

    def swap(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        done, _, chosen = state
        return done + 1, *best_swap(chosen)

    greedy = jax.lax.fori_loop(0, count, add, nobody)
    start = (jnp.int32(0), jnp.bool_(True), greedy)
    return jax.lax.while_loop(lambda state: state[1] & (state[0] < count), swap, start)[2]
