"""One client of a Fedtide problem: it trains as in the simulator, on the same minibatches."""

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
from fedtide.simulation.setup import batch, fitted
from fedtide.streams import Purpose, Stream
from fedtide.types import Population, Problem, Trained


class ProblemClient:
    """Client `number` of the problem under a method, with the random numbers that the simulator gives it."""

    def __init__(self, problem: Problem, method: Method, number: int, seed: int = 0):
        self.number, self.seed = np.int32(number), np.uint32(seed)
        self.problem = jax.tree.map(_as_here, problem)
        self.method = jax.tree.map(lambda a: a[0], batch([fitted(method, problem)]))
        self.population = population_of(problem)
        self.examples = int(np.asarray(problem.sizes)[number])

    def train(self, w: np.ndarray, t: int, row: Any, shared: Any) -> Trained:
        """Local training in round t from the model w."""
        common = (self.method, self.problem, self.population, self.seed)
        trained = _train(*common, w, np.int32(t), self.number, row, shared)
        return jax.tree.map(np.asarray, trained)

    def loss(self, w: np.ndarray, t: int) -> float:
        """What the policy is told in round t."""
        common = (self.method, self.problem, self.population, self.seed)
        return float(_loss(*common, w, np.int32(t), self.number))

    def evaluate(self, w: np.ndarray) -> dict[str, float]:
        """Loss and accuracy on the client's own samples."""
        found = _evaluate(self.problem, w, self.number)
        values = {name: float(value) for name, value in found.items()}
        return {name: value for name, value in values.items() if np.isfinite(value)}


class ProblemTrainer:
    """The clients of a problem as real ones: which of them a process is, its node's `partition-id` says."""

    def __init__(self, problem: Problem):
        self.problem = problem

    def train(self, w: np.ndarray, round: Round, row: Any, shared: Any) -> Trained:
        return self._client(round).train(w, round.number, row, shared)

    def loss(self, w: np.ndarray, round: Round) -> float:
        return self._client(round).loss(w, round.number)

    def evaluate(self, w: np.ndarray, round: Round) -> dict[str, float]:
        return self._client(round).evaluate(w)

    def examples(self, round: Round) -> int:
        return int(np.asarray(self.problem.sizes)[self._index(round)])

    def _client(self, round: Round) -> ProblemClient:
        return ProblemClient(self.problem, round.method, self._index(round), round.seed)

    def _index(self, round: Round) -> int:
        index, clients = round.node.get("partition-id"), len(self.problem.sizes)
        fine = isinstance(index, int) and 0 <= index < clients
        require(fine, "partition-id in the node configuration", index, f"a client 0 … {clients - 1} of the problem")
        return int(index)  # pyright: ignore[reportArgumentType]


def population_of(problem: Problem) -> Population:
    """What a server knows of the problem's clients: importance and sizes."""
    importance = jnp.asarray(np.asarray(problem.importance), jnp.result_type(float))
    return Population(importance, jnp.asarray(np.asarray(problem.sizes, np.int32)))


def initial_model(problem: Problem, seed: int = 0) -> np.ndarray:
    """The model [d] that the simulator begins with."""
    key = Stream(jnp.uint32(seed), Purpose.MODEL).key()
    return np.asarray(jax.jit(lambda key: ravel_pytree(problem.init(key))[0])(key))


def _alone(method: Method, problem: Problem, population: Population, seed: Array) -> Replica:
    return replica(method, problem, population, seed, Shape(1, 1, 1, 1, None, False))


@jax.jit
def _train(
    method: Method,
    problem: Any,
    population: Population,
    seed: Array,
    w: Array,
    t: Array,
    k: Array,
    row: Any,
    shared: Any,
) -> Trained:
    delta, trained = _alone(method, problem, population, seed).train_one(w, t, k, row, shared)
    return trained._replace(w=w - delta)


@jax.jit
def _loss(method: Method, problem: Any, population: Population, seed: Array, w: Array, t: Array, k: Array) -> Array:
    return _alone(method, problem, population, seed).loss_of(w, t, k)


@jax.jit
def _evaluate(problem: Any, w: Array, client: Array) -> dict[str, Array]:
    found = problem.evaluate(unraveller(problem)(w))
    accuracy = jnp.where(found.tested[client], found.test_accuracy[client], jnp.nan)
    return {"loss": found.train_loss[client], "accuracy": accuracy}


def _as_here(leaf: Any) -> Any:
    array = np.asarray(leaf)
    return jnp.asarray(array, jnp.result_type(float)) if array.dtype.kind == "f" else jnp.asarray(array)
