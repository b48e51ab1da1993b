"""Clients' own code in any framework: a train function, or gradients of minibatches."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.adapters.rounds import Round, innermost
from fedtide.errors import FedtideError, require
from fedtide.methods.base import title_of
from fedtide.schedules import Constant
from fedtide.solvers.base import SolverWrapper, recipe_of
from fedtide.streams import Purpose, Stream
from fedtide.types import Solver, Task, Trained, part

Arrays = list[np.ndarray]


class Answer(NamedTuple):
    """The result of a train function."""

    arrays: Sequence[np.ndarray]  # the model after training
    examples: int  # it was trained on
    steps: int  # gradient steps taken
    loss: float  # mean over them


class Trainer(Protocol):
    """A client's computations, in any framework. `w` is the model [d], `row` the client's state."""

    def train(self, w: np.ndarray, round: Round, row: Any, shared: Any) -> Trained: ...
    def loss(self, w: np.ndarray, round: Round) -> float: ...
    def evaluate(self, w: np.ndarray, round: Round) -> dict[str, float]: ...
    def examples(self, round: Round) -> int: ...


Train = Callable[[Arrays, Round], Answer]
Gradient = Callable[[Arrays, np.ndarray, Round], tuple[float, Sequence[np.ndarray]]]  # (arrays, samples, round)
Loss = Callable[[Arrays, np.ndarray, Round], float]
Evaluate = Callable[[Arrays, Round], Mapping[str, float]]
Examples = int | Callable[[Round], int]


class _WithEvaluation:
    """Evaluation and the number of examples."""

    _evaluate: Evaluate | None
    _examples: Examples | None

    def evaluate(self, w: np.ndarray, round: Round) -> dict[str, float]:
        if self._evaluate is None:
            raise FedtideError("evaluate = None: must be given if evaluate-every is set")
        return {name: float(value) for name, value in self._evaluate(round.split(w), round).items()}

    def examples(self, round: Round) -> int:
        count = self._examples(round) if callable(self._examples) else self._examples or 0
        require(isinstance(count, int | np.integer) and count >= 0, "examples", count, "a whole number, 0 or more")
        return int(count)


class Functions(_WithEvaluation):
    """A user's train function: (arrays, round) -> Answer."""

    def __init__(self, train: Train, evaluate: Evaluate | None, examples: Examples | None):
        self._train, self._evaluate, self._examples = train, evaluate, examples

    def train(self, w: np.ndarray, round: Round, row: Any, shared: Any) -> Trained:
        needed = ingredients(round, row, shared)
        answer = self._train(round.split(w), round)
        require(isinstance(answer, Answer), "train", answer, "an Answer(arrays, examples, steps, loss)")
        missing = sorted(needed - round.used)
        if missing:
            use = " and ".join(f"round.{name}" for name in missing)
            raise FedtideError(f"{title_of(round.method)} needs {use}, which the train function does not use")
        if answer.examples != (known := self.examples(round)) and known:
            raise FedtideError(f"examples = {answer.examples}: must be {known}, as reported at enrolment")
        return trained_by(round, w, round.joined(answer.arrays), answer.steps, answer.loss, row, shared)

    def loss(self, w: np.ndarray, round: Round) -> float:
        if self._evaluate is None:
            raise FedtideError(f"{title_of(round.method)} needs losses: give evaluate=, which returns them")
        return float(self._evaluate(round.split(w), round)["loss"])


class Gradients(_WithEvaluation):
    """A user's gradients of minibatches. Fedtide's solver takes the steps, so every solver works.

    `gradient(arrays, samples, round) -> (loss, gradients)`, the samples numbered 0 … examples − 1.
    """

    def __init__(self, gradient: Gradient, loss: Loss | None, evaluate: Evaluate | None, examples: Examples | None):
        self._gradient, self._loss, self._evaluate, self._examples = gradient, loss, evaluate, examples

    def train(self, w: np.ndarray, round: Round, row: Any, shared: Any) -> Trained:
        solver, size = round.method.solver, self.examples(round)

        def gradient(at: Any, step: Any) -> tuple[Any, Any]:
            samples = self._minibatch(round, Purpose.MINIBATCH, size, int(step))
            with jax.disable_jit(False):  # the user's function may be JAX, and compiled
                loss, gradients = self._gradient(round.split(np.asarray(at)), samples, round)
            return jnp.asarray(loss, w.dtype), jnp.asarray(round.joined(gradients))

        # Step by step in Python: JAX cannot trace a function that uses another framework.
        with jax.disable_jit():
            number, examples = jnp.int32(round.client_number), jnp.int32(size)
            stream = Stream(jnp.uint32(round.seed), Purpose.WORK, round.number)
            steps = int(solver.work.steps(stream, number, examples))
            per_epoch = int(solver.work.steps_per_epoch(examples))
            task = Task(steps, gradient, round.number, per_epoch, client=round.client_number, stream=stream)
            trained = solver.train(jnp.asarray(w), task, *jax.tree.map(jnp.asarray, (row, shared)))
        return jax.tree.map(np.asarray, trained)

    def loss(self, w: np.ndarray, round: Round) -> float:
        size = self.examples(round)
        everything = round.method.participation.needs_losses == "all"
        samples = np.arange(size) if everything else self._minibatch(round, Purpose.QUERY, size, 0)
        arrays = round.split(w)
        return float(self._loss(arrays, samples, round) if self._loss else self._gradient(arrays, samples, round)[0])

    def _minibatch(self, round: Round, purpose: Purpose, size: int, step: int) -> np.ndarray:
        """The samples of a step, as drawn by the simulator."""
        stream = Stream(jnp.uint32(round.seed), purpose, round.number)
        number, work = jnp.int32(round.client_number), round.method.solver.work
        samples, present = work.minibatch(stream, number, jnp.int32(size), step)
        return np.asarray(samples)[np.asarray(present)]


# Mass, rate, row and message of training that a user's function did in place of the solver.


def ingredients(round: Round, row: Any, shared: Any) -> set[str]:
    """The attributes of `Round` that a train function must use with its method; raises if none would suffice."""
    method = round.method
    recipe = recipe_of(method.solver, row, shared)
    if recipe is None:
        why = f"{type(method.solver).__name__} takes steps that a train function cannot"
        raise FedtideError(f"{title_of(method)}: {why}; give gradient= instead of train=")
    needed = {name for name, value in recipe._asdict().items() if value is not None}
    scheduled = not isinstance(innermost(method.solver).schedule, Constant)
    return needed | {"rate"} if "correction" in needed or method.aggregation.divides_by_mass or scheduled else needed


def trained_by(round: Round, w: np.ndarray, w_k: np.ndarray, steps: int, loss: float, row: Any, shared: Any) -> Trained:
    """A train function's result in the form that the solver returns."""
    if round.losses and len(round.losses) != steps:
        called = f"{len(round.losses)} times in {steps} steps"
        raise FedtideError(f"round.factor was called {called}: must be called once per step")
    solver = round.method.solver
    taken = _StepsTaken(innermost(solver), w_k, steps, round.losses)
    client = np.int32(round.client_number)
    task = Task(np.int32(steps), lambda at, i: (at, at), np.int32(round.number), client=client)  # pyright: ignore
    trained = _with_inner(solver, taken).train(w, task, row, shared)  # pyright: ignore[reportArgumentType]
    numbers = {"loss": loss, "mass": trained.mass, "rate": trained.rate}
    numbers = {name: np.asarray(value, w.dtype) for name, value in numbers.items()}
    return jax.tree.map(np.asarray, trained._replace(**numbers))


@part
class _StepsTaken(SolverWrapper):
    """A solver whose steps have already been taken, and led to w_k."""

    solver: Solver
    w_k: np.ndarray
    steps: int
    losses: list[float]

    def train(self, w: Array, task: Task, row: Any, shared: Any) -> Trained:
        losses = np.array([*self.losses, 0.0], self.w_k.dtype)
        trained = _without_gradients(self.solver, np.int32(self.steps), task.round, task.client, losses, row, shared)
        return trained._replace(w=self.w_k)


@jax.jit
def _without_gradients(solver: Solver, steps: Any, t: Any, client: Any, losses: Any, row: Any, shared: Any) -> Trained:
    """Mass, rate, row and message of the steps. In these solvers they do not depend on gradients, which are 0 here."""
    task = Task(steps, lambda at, i: (losses[i], jnp.zeros_like(at)), t, client=client)
    return solver.train(jnp.zeros(1), task, row, shared)


def _with_inner(solver: Any, inner: Solver) -> Solver:
    """The solver with `inner` as the solver that takes the steps."""
    return replace(solver, solver=_with_inner(solver.solver, inner)) if hasattr(solver, "solver") else inner
