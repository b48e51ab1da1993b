"""The argument of train functions: the round, and the method's client-side parts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedtide.errors import FedtideError, require
from fedtide.methods.base import Method
from fedtide.solvers.base import Recipe, recipe_of
from fedtide.types import Task


@dataclass(eq=False)
class Round:
    """One round on a client.

    `number` counts from 0; `client` is the client's id and `node` its node configuration, `config` the run's. `rate`,
    `steps`, `pull`, `correction`, `factor` and `decay` are the method's client-side parts for a train function's own
    loop. If a method needs one of them, a train function that does not use it is an error.
    """

    method: Method
    number: int = 0
    client: str = ""
    client_number: int = 0
    shapes: Sequence[tuple[int, ...]] = ()
    node: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        self.used: set[str] = set()
        self.opened(np.zeros(0), (), ())

    def opened(self, w: np.ndarray, row: Any, shared: Any) -> "Round":
        """Sets what the client received, and its row."""
        self._received, self._row, self._shared = w, row, shared
        self.losses: list[float] = []  # passed to `factor`
        self._tail, self._known = None, None
        return self

    def rate(self, step: int = 0) -> float:
        """η of a local step, the schedule included."""
        self.used.add("rate")
        return float(innermost(self.method.solver).rate * self._scheduled(step))

    @property
    def steps(self) -> int | None:
        """The number of local steps in this round; None if it depends on the client's samples."""
        self.used.add("steps")
        steps = self._recipe.steps
        return getattr(self.method.solver.work, "count", None) if steps is None else int(steps)

    @property
    def decay(self) -> float:
        """ρ of the momentum buffer, which starts at 0 in every round."""
        self.used.add("decay")
        return self._recipe.decay or 0.0

    def pull(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """μ (w_k − w_t), to be added to the gradients at the model w_k (after momentum, if any)."""
        self.used.add("pull")
        return self.split((self._recipe.pull or 0.0) * (self.joined(arrays) - self._received))

    @property
    def correction(self) -> list[np.ndarray]:
        """c − c_k, to be added to every gradient."""
        self.used.add("correction")
        correction = self._recipe.correction
        return self.split(np.zeros_like(self._received) if correction is None else np.asarray(correction))

    def factor(self, loss: float) -> float:
        """(1 − γ) 1{f > t}/α + γ, the factor of the gradient of a minibatch with this loss. Call it once per step."""
        self.used.add("factor")
        weigh = self._recipe.factor
        if weigh is None:
            return 1.0
        factor, self._tail = weigh(self._tail, loss, self._scheduled(len(self.losses)))
        self.losses.append(loss)
        return float(factor)

    def split(self, w: np.ndarray) -> list[np.ndarray]:
        """The vector [d] as the model's arrays."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])
        return [part.reshape(shape).copy() for part, shape in zip(np.split(w, ends[:-1]), self.shapes, strict=True)]

    def joined(self, arrays: Sequence[Any]) -> np.ndarray:
        """The model's arrays as a vector [d] of the server's type; raises if their number, shapes or types differ."""
        converted = [np.asarray(array) for array in arrays]
        given = [array.shape for array in converted]
        require(given == list(self.shapes), "shapes of arrays", given, f"{list(self.shapes)}")
        if any(array.dtype.kind != "f" for array in converted):
            raise FedtideError(f"arrays are of types {[str(a.dtype) for a in converted]}: must be floating")
        return np.concatenate([array.ravel() for array in converted]).astype(self._received.dtype)

    @property
    def _recipe(self) -> Recipe:
        if self._known is None:
            self._known = recipe_of(self.method.solver, self._row, self._shared) or Recipe()
        return self._known

    def _scheduled(self, step: int) -> float:
        steps = int(getattr(self.method.solver.work, "count", 1))
        task = Task(steps, lambda w, i: (w, w), self.number, client=self.client_number)
        return float(innermost(self.method.solver).schedule.factor(task, step))


def innermost(solver: Any) -> Any:
    """The solver that takes the steps."""
    while not hasattr(solver, "rate"):
        solver = solver.solver
    return solver
