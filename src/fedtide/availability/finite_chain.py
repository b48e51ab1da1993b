"""Finite Markov chains over sets of clients."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.availability.base import Numbers, Process, count_clients, lag_one
from fedtide.errors import floats, require, require_each
from fedtide.statistics import stationary_law
from fedtide.streams import Stream
from fedtide.types import part


@part
class FiniteChain(Process):
    """A finite Markov chain whose states are sets of available clients, started from its stationary distribution.

    State i goes to state j with probability P_ij = `transition[i, j]`, and in state i the clients of `active_sets[i]`
    are available. With the stationary law μ = μP and a_i = 1 where state i has client k:
    π_k = Σ μ_i a_i and λ_k = (Σ μ_i a_i P_ij a_j − π_k²) / (π_k(1 − π_k)), 0 where π_k is 0 or 1. The chain must be
    irreducible and aperiodic.

    `active_sets` is a matrix of booleans [states, clients], or the numbers of the available clients of each state,
    together with `clients`.
    """

    transition: Numbers
    active_sets: Numbers
    clients: int = None  # pyright: ignore[reportAssignmentType]  # filled from active_sets
    stationary: Array = dataclasses.field(init=False, repr=False)

    def __post_init__(self):
        transition = _stochastic(self.transition)
        active = _as_matrix(self.active_sets, self.clients, len(transition))
        _require_ergodic(transition)
        self._set(transition=transition, active_sets=active, clients=active.shape[1])
        self._set(stationary=stationary_law(transition))

    @property
    def availability(self) -> np.ndarray:
        return np.asarray(self.stationary) @ np.asarray(self.active_sets)

    @property
    def correlation(self) -> np.ndarray:
        active = np.asarray(self.active_sets, float)
        both = (np.asarray(self.stationary)[:, None] * active * (np.asarray(self.transition) @ active)).sum(0)
        return lag_one(self.availability, both)

    def init(self, stream: Stream) -> Array:
        return _draw(self.stationary, stream.uniform(0))

    def step(self, state: Array, stream: Stream) -> tuple[Array, Array]:
        # The second random number of round t decides the state of round t + 1.
        return jnp.asarray(self.active_sets)[state], _draw(jnp.asarray(self.transition)[state], stream.uniform(0, 2)[1])


def _draw(probabilities: Array, uniform: Array) -> Array:
    """The state whose part of [0, 1) contains the number; never a state of probability 0, despite rounding."""
    upto = jnp.cumsum(jnp.asarray(probabilities))
    return jnp.searchsorted(upto, uniform * upto[-1], side="right")


def _stochastic(value: Any) -> np.ndarray:
    allowed = "a square matrix of probabilities"
    matrix = floats("transition", value, allowed)
    square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] and matrix.size > 0
    require(square, "transition", value, allowed)
    require_each(matrix >= 0, "transition", matrix, "a probability")
    sums = matrix.sum(1)
    off = np.abs(sums - 1) > 1e-6
    if off.any():
        i = int(off.argmax())
        require(False, f"transition[{i}]", matrix[i].tolist(), f"a row that sums to 1, not {sums[i]:.6g}")
    return matrix / sums[:, None]


def _as_matrix(value: Any, clients: int | None, states: int) -> np.ndarray:
    """bool[states, clients] from either form of the sets."""
    try:
        rows = [np.asarray(row) for row in value]
    except (TypeError, ValueError):
        rows = []
    require(len(rows) == states, "active_sets", value, f"one set for each of the {states} states")
    if all(row.dtype == bool and row.ndim == 1 for row in rows):
        width = clients or len(rows[0])
        fine = width > 0 and all(len(row) == width for row in rows)
        require(fine, "active_sets", value, f"rows with one boolean for each of {width} clients")
        return np.stack(rows)
    if clients is None:
        require(False, "active_sets", value, "booleans [states, clients], or numbers of clients and `clients`")
    clients = count_clients(clients) or 0
    matrix = np.zeros((states, clients), bool)
    for i, row in enumerate(rows):
        if row.size:
            fine = row.ndim == 1 and row.dtype.kind in "iu" and len(np.unique(row)) == len(row)
            field, numbers = f"active_sets[{i}]", row.tolist()
            require(fine, field, numbers, "distinct numbers of clients, or a boolean for each client")
            require(bool(((row >= 0) & (row < clients)).all()), field, numbers, f"clients in 0 … {clients - 1}")
            matrix[i, row] = True
    return matrix


def _require_ergodic(transition: np.ndarray) -> None:
    edges = transition > 0
    reach = _power(edges | np.eye(len(edges), dtype=bool), len(edges))
    if not reach.all():
        i, j = np.argwhere(~reach)[0]
        require(False, "transition", transition.tolist(), f"irreducible, but state {j} is never reached from state {i}")
    # A chain is irreducible and aperiodic if and only if this power of its matrix is positive (Wielandt).
    primitive = _power(edges, (len(edges) - 1) ** 2 + 1).all()
    require(bool(primitive), "transition", transition.tolist(), "aperiodic, but this chain returns only periodically")


def _power(edges: np.ndarray, exponent: int) -> np.ndarray:
    """Pairs joined by exactly `exponent` edges, by repeated squaring."""
    result = np.eye(len(edges), dtype=bool)
    while exponent:
        if exponent & 1:
            result = result.astype(np.float32) @ edges.astype(np.float32) > 0
        edges = edges.astype(np.float32) @ edges.astype(np.float32) > 0
        exponent >>= 1
    return result
