"""What the server needs to know of training that was not its solver's: mass, rate, row and message."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedtide.adapters.rounds import Round, innermost
from fedtide.errors import FedtideError
from fedtide.methods.base import Method, title_of
from fedtide.schedules import Constant
from fedtide.solvers import AdaptiveSteps, ControlVariate, Momentum, Proximal, Sgd, TailRisk
from fedtide.solvers.control_variate import ControlRow, mean_gradient
from fedtide.types import Task, Trained


def ingredients(method: Method) -> set[str]:
    """The helpers of `Round` that a train function must use under this method; raises where none would do."""
    solver, needed = method.solver, set()
    if isinstance(solver, AdaptiveSteps):
        needed.add("steps")
        solver = solver.solver
    if isinstance(solver, ControlVariate):
        needed |= {"correction", "rate"}
        solver = solver.solver
    known = type(solver) in (Sgd, Momentum, Proximal, TailRisk)
    if not known or (isinstance(solver, Momentum) and solver.persistent):
        name = type(method.solver).__name__
        raise FedtideError(
            f"{title_of(method)}: {name} takes steps that a train function cannot; give gradient= in place of train="
        )
    if isinstance(solver, TailRisk):
        needed.add("factor")
    if isinstance(solver, Proximal) and float(solver.mu) > 0:
        needed.add("pull")
    if isinstance(solver, Momentum | Proximal) and float(solver.decay) > 0:
        needed.add("decay")
    if method.aggregation.divides_by_mass or not isinstance(innermost(solver).schedule, Constant):
        needed.add("rate")
    return needed


def trained_by(round: Round, w: np.ndarray, w_k: np.ndarray, steps: int, loss: float, row: Any, shared: Any) -> Trained:
    """A train function's result as the solver would have returned it."""
    solver = round.method.solver
    inner_shared = shared
    if isinstance(solver, AdaptiveSteps):
        solver, inner_shared = solver.solver, shared.inner
    if isinstance(solver, TailRisk):
        threshold, mass, taken = round.tail
        if taken != steps:
            raise FedtideError(f"round.factor was called {taken} times in {steps} steps: must be once every step")
        message = np.asarray(threshold, w.dtype)
        return _plain(w_k, loss, steps, mass, round.rate(), row, message, w.dtype)
    controlled = isinstance(solver, ControlVariate)
    base = solver.solver if controlled else solver
    mass, rate = _reckoned(
        base, np.int32(steps), np.int32(round.number), inner_shared.inner if controlled else inner_shared
    )
    trained = _plain(w_k, loss, steps, mass, rate, row, (), w.dtype)
    if not controlled:
        return trained
    mean = np.asarray(mean_gradient(w, trained, row.control, inner_shared.control))  # pyright: ignore
    return trained._replace(row=ControlRow(mean, row.inner))  # pyright: ignore[reportArgumentType]


@jax.jit
def _reckoned(solver: Any, steps: Any, t: Any, shared: Any) -> tuple[Any, Any]:
    """(mass, rate) of so many steps. They depend on no gradient in these solvers: training on zeros tells them."""
    task = Task(steps, lambda at, i: (jnp.zeros(()), jnp.zeros_like(at)), t)
    found = solver.train(jnp.zeros(1), task, (), shared)
    return found.mass, found.rate


def _plain(w_k: Any, loss: Any, steps: int, mass: Any, rate: Any, row: Any, message: Any, dtype: Any) -> Trained:
    numbers = (np.asarray(value, dtype) for value in (mass, rate))
    return Trained(w_k, np.asarray(loss, dtype), np.int32(steps), *numbers, row, message)  # pyright: ignore
