"""What a client brings: a train function, or the gradients of its data, in any framework."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from fedtide.adapters.rounds import Round
from fedtide.adapters.solving import ingredients, trained_by
from fedtide.errors import FedtideError, require
from fedtide.methods.base import title_of
from fedtide.streams import Purpose, Stream
from fedtide.types import Task, Trained

Arrays = list[np.ndarray]


class Answer(NamedTuple):
    """What a train function returns."""

    arrays: Sequence[np.ndarray]  # the model after training
    examples: int  # it was trained on
    steps: int  # gradient steps taken
    loss: float  # mean over them


class Trainer(Protocol):
    """One client's work, whatever it is written in. `w` is the model [d], `row` what the client remembers."""

    def train(self, w: np.ndarray, round: Round, row: Any, shared: Any) -> Trained: ...
    def loss(self, w: np.ndarray, round: Round) -> float: ...
    def evaluate(self, w: np.ndarray, round: Round) -> dict[str, float]: ...
    def examples(self, round: Round) -> int: ...


Evaluate = Callable[[Arrays, Round], Mapping[str, float]]
Examples = int | Callable[[Round], int]


class Functions:
    """A train function of the user's: (arrays, round) -> Answer."""

    def __init__(self, train: Callable[[Arrays, Round], Answer], evaluate: Evaluate | None, examples: Examples | None):
        self._train, self._evaluate, self._examples = train, evaluate, examples

    def train(self, w: np.ndarray, round: Round, row: Any, shared: Any) -> Trained:
        needed = ingredients(round.method)
        answer = self._train(round.split(w), round)
        require(isinstance(answer, Answer), "train", answer, "an Answer(arrays, examples, steps, loss)")
        missing = sorted(needed - round.used)
        if missing:
            use = " and ".join(f"round.{name}" for name in missing)
            raise FedtideError(f"{title_of(round.method)} needs {use}, which the train function does not use")
        if answer.examples != (known := self.examples(round)) and known:
            raise FedtideError(f"examples = {answer.examples}, but the client has enrolled with {known}")
        return trained_by(round, w, round.joined(answer.arrays), answer.steps, answer.loss, row, shared)

    def loss(self, w: np.ndarray, round: Round) -> float:
        if self._evaluate is None:
            raise FedtideError(f"{title_of(round.method)} asks for losses: give evaluate=, which returns one")
        return float(self._evaluate(round.split(w), round)["loss"])

    def evaluate(self, w: np.ndarray, round: Round) -> dict[str, float]:
        return _evaluated(self._evaluate, w, round)

    def examples(self, round: Round) -> int:
        return _count(self._examples, round)


class Gradients:
    """Gradients of the user's minibatches; Fedtide's own solver takes the steps, so that any solver works.

    `gradient(arrays, samples, round) -> (loss, gradients)`, the samples numbered 0 … examples − 1.
    """

    def __init__(
        self,
        gradient: Callable[[Arrays, np.ndarray, Round], tuple[float, Sequence[np.ndarray]]],
        loss: Callable[[Arrays, np.ndarray, Round], float] | None,
        evaluate: Evaluate | None,
        examples: Examples,
    ):
        self._gradient, self._loss, self._evaluate, self._examples = gradient, loss, evaluate, examples

    def train(self, w: np.ndarray, round: Round, row: Any, shared: Any) -> Trained:
        solver, size = round.method.solver, self.examples(round)

        def gradient(at: Any, step: Any) -> tuple[Any, Any]:
            samples = self._minibatch(round, Purpose.MINIBATCH, size, int(step))
            with jax.disable_jit(False):  # where it is JAX, it may be compiled
                loss, found = self._gradient(round.split(np.asarray(at)), samples, round)
            return jnp.asarray(loss, w.dtype), jnp.asarray(round.joined(found))

        # Step by step in Python: what JAX would trace here may be PyTorch.
        with jax.disable_jit():
            number = jnp.int32(round.client_number)
            steps = solver.work.steps(
                Stream(jnp.uint32(round.seed), Purpose.WORK, round.number), number, jnp.int32(size)
            )
            task = Task(int(steps), gradient, round.number, int(solver.work.a_pass(jnp.int32(size))))
            trained = solver.train(
                jnp.asarray(w), task, jax.tree.map(jnp.asarray, row), jax.tree.map(jnp.asarray, shared)
            )
        return jax.tree.map(np.asarray, trained)

    def loss(self, w: np.ndarray, round: Round) -> float:
        size = self.examples(round)
        everything = round.method.participation.needs_losses == "all"
        samples = np.arange(size) if everything else self._minibatch(round, Purpose.QUERY, size, 0)
        arrays = round.split(w)
        return float(self._loss(arrays, samples, round) if self._loss else self._gradient(arrays, samples, round)[0])

    def evaluate(self, w: np.ndarray, round: Round) -> dict[str, float]:
        return _evaluated(self._evaluate, w, round)

    def examples(self, round: Round) -> int:
        return _count(self._examples, round)

    def _minibatch(self, round: Round, purpose: Purpose, size: int, step: int) -> np.ndarray:
        """The samples of a step: those that the simulator would draw."""
        stream = Stream(jnp.uint32(round.seed), purpose, round.number)
        number, work = jnp.int32(round.client_number), round.method.solver.work
        samples, present = work.minibatch(stream, number, jnp.int32(size), step)
        return np.asarray(samples)[np.asarray(present)]


def _evaluated(evaluate: Evaluate | None, w: np.ndarray, round: Round) -> dict[str, float]:
    if evaluate is None:
        raise FedtideError("evaluate = None: must be given where evaluate-every is")
    return {name: float(value) for name, value in evaluate(round.split(w), round).items()}


def _count(examples: Examples | None, round: Round) -> int:
    found = examples(round) if callable(examples) else examples or 0
    require(isinstance(found, int | np.integer) and found >= 0, "examples", found, "a whole number, 0 or more")
    return int(found)
