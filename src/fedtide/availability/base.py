"""Shared code of availability processes."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.errors import check_one_each, floats, require, require_each, whole
from fedtide.streams import Purpose, Stream
from fedtide.types import State

_MOST_CLIENTS = 100_000_000  # one random number each in every round

Numbers = Array | Any
"""A field that accepts numbers as users write them (a number, lists, NumPy) and is an array once checked."""


class Process:
    """A random process that decides which clients are available in each round.

    A process has `clients`, `init(stream) -> state` (by default none) and `step(state, stream) -> (available [N] bool,
    state)`, where the stream is that of the round. `classes` names each client's kind, for reports.
    """

    clients: int
    availability: Any  # [N] π, the long-run fraction of rounds in which a client is available; None where unknown
    correlation: Any  # [N] λ, the long-run lag-1 correlation of its availability; 0 for constants, None where undefined
    two_state = False  # whether each client (or cluster) is a two-state chain, independent of the others
    clusters: Any = None  # [N] the cluster of each client, where the clients of one are available together

    def _set(self, **fields: Any) -> None:
        """Sets fields of a frozen part to checked or derived values."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def init(self, stream: Stream) -> State:
        return ()

    def step(self, state: State, stream: Stream) -> tuple[Array, State]:
        raise NotImplementedError

    def sample(self, seed: int, rounds: int) -> np.ndarray:
        """bool[rounds, clients]: the first rounds of a simulation with this seed."""
        require(rounds >= 0, "rounds", rounds, "0 or more")
        require(0 <= seed < 2**32, "seed", seed, "in [0, 2³²)")
        return np.asarray(_sample(self, jnp.uint32(seed), rounds))

    def classes(self) -> list[str]:
        """A short name of each client's kind: from its π and λ where these are known."""
        if self.availability is None:
            return ["all"] * self.clients
        return describe(
            np.asarray(self.availability), None if self.correlation is None else np.asarray(self.correlation)
        )


class Independent(Process):
    """A process without memory: availability is independent between rounds, λ = 0."""

    @property
    def correlation(self) -> np.ndarray:
        return np.zeros(self.clients)


def describe(pi: np.ndarray, lam: np.ndarray | None) -> list[str]:
    """Names of clients' kinds by π (and λ): the values where there are few, otherwise rough classes."""
    if len(np.unique(pi.round(2))) > 6:
        kinds = ["never available", "rarely available", "sometimes available"]
        often = np.select([pi == 0, pi < 1 / 3, pi < 2 / 3], kinds, "often available")
    else:
        often = np.array([f"π = {p:.2g}" for p in pi])
    if lam is None or np.ptp(lam) < 0.2:
        return often.tolist()
    runs = np.where(lam > 0.5 * lam.max(), ", persistent", ", weakly correlated")
    runs = np.where(pi > 0, runs, "")
    return [f"{o}{r}" for o, r in zip(often, runs, strict=True)]


def advance(process: Any, state: State, seed: Array, start: Array | int, rounds: int) -> tuple[Array, State]:
    """Rounds start … start + rounds − 1 of one seed: (bool[rounds, N], state after them)."""

    def one(state: State, t: Array) -> tuple[State, Array]:
        available, state = process.step(state, Stream(seed, Purpose.AVAILABILITY, t))
        return state, available

    state, available = jax.lax.scan(one, state, start + jnp.arange(rounds))
    return available, state


def begin(process: Any, seed: Array) -> State:
    """The state before round 0."""
    return process.init(Stream(seed, Purpose.AVAILABILITY, 0))


@functools.partial(jax.jit, static_argnames="rounds")
def _sample(process: Any, seed: Array, rounds: int) -> Array:
    return advance(process, begin(process, seed), seed, 0, rounds)[0]


def count_clients(clients: int | None, *values: Any) -> int | None:
    """`clients` where given, otherwise the length of the first vector among the values."""
    if clients is None:
        return next((len(v) for v in values if np.ndim(v) == 1), None)
    return whole("availability.clients", clients, 1, _MOST_CLIENTS)


def per_client(field: str, value: Any, clients: int | None, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    """A vector with one checked number for each client, from a number or a sequence."""
    allowed = "a number and `clients`, or one number for each client"
    vector = floats(field, value, allowed)
    if vector.ndim == 0 and clients is not None:
        vector = np.full(clients, vector)
    require(vector.ndim == 1 and vector.size > 0, field, value, allowed)
    check_one_each(field, vector, clients)
    require_each((vector >= low) & (vector <= high), field, vector, f"in [{low:g}, {high:g}]")
    return vector


def lag_one(pi: np.ndarray, both: np.ndarray) -> np.ndarray:
    """Lag-1 correlation from P(available) and P(available in two consecutive rounds); 0 where π is 0 or 1."""
    variance = pi * (1 - pi)
    constant = variance < 1e-12
    return np.where(constant, 0, (both - pi**2) / np.where(constant, 1, variance))
