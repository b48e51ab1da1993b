"""What availability processes have in common."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.errors import require, whole
from fedtide.streams import Purpose, Stream
from fedtide.types import State

_MOST_CLIENTS = 100_000_000  # numbers that have to be drawn in every round

Numbers = Array | Any
"""A field that takes numbers as users write them (a number, lists, NumPy) and holds them as an array once checked."""


class Process:
    """A random process that says who is there, round after round.

    A process has `clients`, `init(stream) -> state` and `step(state, stream) -> (available [N] bool, state)`, where
    the stream is that of the round. `classes` names each client's kind, for reports.
    """

    clients: int
    availability: Any  # [N] π, the long-run share of rounds in which a client is there; None where unknown
    correlation: Any  # [N] λ, the long-run lag-1 correlation of being there; 0 for constants, None where meaningless

    def init(self, stream: Stream) -> State:
        raise NotImplementedError

    def step(self, state: State, stream: Stream) -> tuple[Array, State]:
        raise NotImplementedError

    def sample(self, seed: int, rounds: int) -> np.ndarray:
        """bool[rounds, clients]: the first rounds that a simulation with this seed sees."""
        require(rounds >= 0, "rounds", rounds, "0 or more")
        require(0 <= seed < 2**32, "seed", seed, "in [0, 2³²)")
        return np.asarray(_sample(self, jnp.uint32(seed), rounds))

    def classes(self) -> list[str]:
        """A short name of each client's kind: its π and λ where it has them."""
        if self.availability is None:
            return ["all"] * self.clients
        return describe(
            np.asarray(self.availability), None if self.correlation is None else np.asarray(self.correlation)
        )


def describe(pi: np.ndarray, lam: np.ndarray | None) -> list[str]:
    """Names kinds of clients by π (and λ): the values where few, rough classes where many."""
    if len(np.unique(pi.round(2))) > 6:
        kinds = ["never here", "rarely here", "sometimes here"]
        often = np.select([pi == 0, pi < 1 / 3, pi < 2 / 3], kinds, "often here")
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
    try:
        vector = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        vector = np.array([np.nan])
    if vector.ndim == 0 and clients is not None:
        vector = np.full(clients, vector)
    require(vector.ndim == 1 and vector.size > 0, field, value, "a number and `clients`, or one number for each client")
    if clients is not None:
        require(len(vector) == clients, field, f"{len(vector)} entries", f"one for each of {clients} clients")
    bad = ~((vector >= low) & (vector <= high))
    if bad.any():
        k = int(bad.argmax())
        require(False, f"{field}[{k}]", float(vector[k]), f"in [{low:g}, {high:g}]")
    return vector


def membership_of(field: str, value: Any, groups: int | None = None) -> np.ndarray:
    """A checked vector of group numbers 0 … groups − 1, one for each client."""
    try:
        member = np.asarray(value)
    except ValueError:
        member = np.array(np.nan)
    whole = member.ndim == 1 and member.size > 0 and member.dtype.kind in "iu"
    require(whole, field, value, "a whole number for each client")
    bad = member < 0 if groups is None else (member < 0) | (member >= groups)
    if bad.any():
        k = int(bad.argmax())
        require(False, f"{field}[{k}]", int(member[k]), "0 or more" if groups is None else f"in 0 … {groups - 1}")
    return member.astype(np.int32)


def lag_one(pi: np.ndarray, both: np.ndarray) -> np.ndarray:
    """Correlation of presence in consecutive rounds from P(on) and P(on, then on again); 0 where π is 0 or 1."""
    variance = pi * (1 - pi)
    constant = variance < 1e-12
    return np.where(constant, 0, (both - pi**2) / np.where(constant, 1, variance))
