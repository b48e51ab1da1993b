"""Clients with different data, selected about equally often."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.errors import FedtideError, check_one_each, number, require
from fedtide.participation.base import Policy, weigh
from fedtide.types import Decision, Observation, Population, Weighing, check_whole, part

_MOST = 1000  # clients: N² distances, N³ operations for shortest paths


class Graph(NamedTuple):
    distance: Array  # [N, N] in [0, 1]: constant, but too expensive to compute in every round
    times: Array  # [N] rounds in which it was selected


@part
class GraphSpread(Policy):
    """A set S of `clients` available clients with a large a · D(S) − Σ_{k∈S} 2 (v_k − min v) / (N − 1); q_k = α_k / Σ_S
    α.

    D is the mean distance between two clients of S, v_k the number of times k was selected, a is `spread`. a = 0
    selects the clients selected least, ties at random; a large a selects clients with different data, however often. A
    greedy search, improved by swaps of one client while they help (the authors solve it exactly, with a commercial
    solver). Biased towards available clients, but less than a uniform sample.

    Distances are shortest paths in the graph whose edges have length exp(−s²/`scale`), s the cosine similarity of two
    clients' label counts, an edge only where s ≥ `threshold`; then divided by the largest, which is also the distance
    of unconnected clients. This is the paper's oracle graph: the server must know the label counts. Other distances can
    be given (`distance` [N, N]). For at most 1,000 clients.

    Reference: Wang et al., "FedGS: federated graph-based sampling with arbitrary client availability", AAAI 2023.
    """

    clients: int = 10
    spread: float = 0.1
    scale: float = 0.01
    threshold: float = 0.1
    distance: Array | None = None

    def __post_init__(self):
        check_whole(self, "participation", clients=1)
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

    counts_invitations: ClassVar[bool] = True
    weighing: ClassVar[Weighing] = "normalised"

    def init(self, population: Population) -> Graph:
        clients = len(population.importance)
        if clients > _MOST:
            raise FedtideError(
                f"participation GraphSpread: at most {_MOST:,} clients, not {clients:,}: it compares all pairs"
            )
        return Graph(self._distances(population), jnp.zeros(clients, jnp.int32))

    def decide(self, state: Graph, observation: Observation) -> tuple[Decision, Graph]:
        clients = len(observation.available)
        # A random thousandth of a round decides between clients that were selected equally often.
        ties = 1e-3 * observation.stream.uniform(jnp.arange(clients))
        cost = (state.times - state.times.min() + ties) * (2 / max(clients - 1, 1))
        count = jnp.minimum(observation.available.sum(), self.clients)
        distance = state.distance * (2 * self.spread / jnp.maximum(count * (count - 1), 1))
        invited = spread_apart(distance, cost, observation.available, min(self.clients, clients))
        weight = weigh("ratio", observation.population.importance, invited)
        return Decision(invited, weight), state._replace(times=state.times + invited)

    def _distances(self, population: Population) -> Array:
        clients = len(population.importance)
        if self.distance is not None:
            check_one_each("participation.distance", self.distance, clients)
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
    """Mask of `count` allowed clients (all, where there are fewer) with a large Σ_{i<j} distance_ij − Σ_i cost_i.

    Greedy, then at most `count` times the best swap of a selected client for another, while that improves the sum.
    """
    nobody = jnp.zeros(len(cost), bool)

    def add(_: int, chosen: Array) -> Array:
        gain = jnp.where(allowed & ~chosen, distance @ chosen.astype(distance.dtype) - cost, -jnp.inf)
        best = jnp.argmax(gain)
        return chosen.at[best].set(chosen[best] | (gain[best] > -jnp.inf))

    def best_swap(chosen: Array) -> tuple[Array, Array]:
        value = distance @ chosen.astype(distance.dtype) - cost
        # i leaves, j joins: the distance between j and i no longer counts.
        change = jnp.where(
            chosen[:, None] & (allowed & ~chosen)[None, :], value[None, :] - distance - value[:, None], -jnp.inf
        )
        out, come = jnp.unravel_index(jnp.argmax(change), change.shape)
        better = change[out, come] > 8 * jnp.finfo(value.dtype).eps * jnp.abs(value[out])
        return better, jnp.where(better, chosen.at[out].set(False).at[come].set(True), chosen)

    def swap(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        done, _, chosen = state
        return done + 1, *best_swap(chosen)

    greedy = jax.lax.fori_loop(0, count, add, nobody)
    start = (jnp.int32(0), jnp.bool_(True), greedy)
    return jax.lax.while_loop(lambda state: state[1] & (state[0] < count), swap, start)[2]
