"""Clients of a Fedtide problem, which train on the same minibatches as in the simulator."""

from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from fedtide.adapters.rounds import Round
from fedtide.errors import require
from fedtide.methods.base import Method
from fedtide.simulation.replica import Replica, Shape, replica, unraveller
from fedtide.simulation.setup import fitted, on_device
from fedtide.streams import Purpose, Stream
from fedtide.types import Population, Problem, Trained


class ProblemTrainer:
    """The clients of a problem, with the simulator's random numbers. A process is the client whose number is the
    `partition-id` of its node configuration."""

    def __init__(self, problem: Problem):
        self.problem = problem

    def train(self, w: np.ndarray, round: Round, row: Any, shared: Any) -> Trained:
        """Local training from the model w."""
        return jax.tree.map(np.asarray, _train(*self._client(round), w, row, shared))

    def loss(self, w: np.ndarray, round: Round) -> float:
        """The loss that is reported to the policy."""
        return float(_loss(*self._client(round), w))

    def evaluate(self, w: np.ndarray, round: Round) -> dict[str, float]:
        """Loss and accuracy on the client's own samples."""
        metrics = _evaluate(self._arrays, w, self._index(round))
        return {name: float(value) for name, value in metrics.items() if np.isfinite(value)}

    def examples(self, round: Round) -> int:
        return int(np.asarray(self.problem.sizes)[self._index(round)])

    @cached_property
    def _arrays(self) -> Any:
        return jax.tree.map(on_device, self.problem)

    def _client(self, round: Round) -> tuple[Any, ...]:
        method = jax.tree.map(on_device, fitted(round.method, self.problem))
        t, seed = np.int32(round.number), np.uint32(round.seed)
        return method, self._arrays, population_of(self.problem), seed, t, self._index(round)

    def _index(self, round: Round) -> np.int32:
        index, clients = round.node.get("partition-id"), len(self.problem.sizes)
        fine = isinstance(index, int) and 0 <= index < clients
        require(fine, "partition-id in the node configuration", index, f"a client 0 … {clients - 1} of the problem")
        return np.int32(index)  # pyright: ignore[reportArgumentType]


def population_of(problem: Problem) -> Population:
    """Importance and sizes of the problem's clients."""
    return Population(on_device(np.asarray(problem.importance)), on_device(np.asarray(problem.sizes, np.int32)))


def initial_model(problem: Problem, seed: int = 0) -> np.ndarray:
    """The simulator's initial model [d]."""
    key = Stream(jnp.uint32(seed), Purpose.MODEL).key()
    return np.asarray(jax.jit(lambda key: ravel_pytree(problem.init(key))[0])(key))


def _alone(method: Method, problem: Problem, population: Population, seed: Array) -> Replica:
    return replica(method, problem, population, seed, Shape(1, 1, 1, 1, None, False))


@jax.jit
def _train(
    method: Method, problem: Any, population: Population, seed: Array, t: Array, k: Array, w: Array, row: Any,
    shared: Any,
) -> Trained:  # fmt: skip
    delta, trained = _alone(method, problem, population, seed).train_one(w, t, k, row, shared)
    return trained._replace(w=w - delta)


@jax.jit
def _loss(method: Method, problem: Any, population: Population, seed: Array, t: Array, k: Array, w: Array) -> Array:
    return _alone(method, problem, population, seed).loss_of(w, t, k)


@jax.jit
def _evaluate(problem: Any, w: Array, client: Array) -> dict[str, Array]:
    evaluation = problem.evaluate(unraveller(problem)(w))
    accuracy = jnp.where(evaluation.tested[client], evaluation.test_accuracy[client], jnp.nan)
    return {"loss": evaluation.train_loss[client], "accuracy": accuracy}
