"""What a train function is told about its round, and the client-side parts that it can use."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedtide.errors import FedtideError, require
from fedtide.methods.base import Method
from fedtide.solvers import ControlVariate, TailRisk
from fedtide.types import Task

_nothing: Any = ()


class Round:
    """One round as a client sees it.

    `number` counts from 0; `client` is the client's id and `node` its node configuration, `config` the run's. `rate`,
    `steps`, `pull`, `correction`, `factor` and `decay` are the method's client-side parts for a train function's own
    loop. A method that needs one of them refuses a train function that does not use it.
    """

    def __init__(
        self,
        method: Method,
        number: int = 0,
        client: str = "",
        client_number: int = 0,
        shapes: Sequence[tuple[int, ...]] = (),
        node: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
        seed: int = 0,
    ):
        self.method, self.number, self.client, self.client_number = method, number, client, client_number
        self.shapes, self.node, self.config, self.seed = tuple(shapes), node or {}, config or {}, seed
        self.used: set[str] = set()
        self._received, self._row, self._shared = np.zeros(0), _nothing, _nothing
        self._threshold, self._mass, self._taken = 0.0, 0.0, 0

    def opened(self, w: np.ndarray, row: Any, shared: Any) -> "Round":
        """With what the client received and remembers."""
        self._received, self._row, self._shared = w, row, shared
        if isinstance(self.method.solver, TailRisk) and np.ndim(shared) == 0:
            self._threshold = float(shared)
        return self

    def rate(self, step: int = 0) -> float:
        """η of a local step, the schedule included."""
        self.used.add("rate")
        return self._rate(step)

    @property
    def steps(self) -> int | None:
        """The local steps that the method asks for in this round; None where that depends on the client's samples."""
        self.used.add("steps")
        shared = self._shared
        return int(shared.steps) if hasattr(shared, "steps") else getattr(self.method.solver.work, "count", None)

    @property
    def decay(self) -> float:
        """ρ of the momentum buffer, which starts at 0 in every round."""
        self.used.add("decay")
        return float(getattr(innermost(self.method.solver), "decay", 0.0))

    def pull(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """μ (w_k − w_t), to be added to the gradients at the model w_k (after momentum, where there is some)."""
        self.used.add("pull")
        mu = float(getattr(innermost(self.method.solver), "mu", 0.0))
        return self.split(mu * (self.joined(arrays) - self._received))

    @property
    def correction(self) -> list[np.ndarray]:
        """c − c_k, to be added to every gradient."""
        self.used.add("correction")
        if not isinstance(self.method.solver, ControlVariate):
            return self.split(np.zeros_like(self._received))
        return self.split(np.asarray(self._shared.control - self._row.control))

    def factor(self, loss: float) -> float:
        """(1 − γ) 1{f > t}/α + γ for a minibatch of this loss: what its gradient is multiplied by. Once every step."""
        self.used.add("factor")
        solver, step = self.method.solver, self._taken
        if not isinstance(solver, TailRisk):
            return 1.0
        slope = (1 - solver.mix) * (1 - (loss > self._threshold) / solver.level)
        self._threshold -= solver.threshold_rate * self._scheduled(step) * slope
        self._mass += self._rate(step) * (1 - slope)
        self._taken += 1
        return float(1 - slope)

    @property
    def tail(self) -> tuple[float, float, int]:
        """(threshold, mass, steps) after the calls of `factor`."""
        return self._threshold, self._mass, self._taken

    def split(self, w: np.ndarray) -> list[np.ndarray]:
        """The vector [d] as the model's arrays."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])
        return [part.reshape(shape).copy() for part, shape in zip(np.split(w, ends[:-1]), self.shapes, strict=True)]

    def joined(self, arrays: Sequence[Any]) -> np.ndarray:
        """The model's arrays as a vector [d] of the server's type; raises where count, shapes or kinds differ."""
        found = [np.asarray(array) for array in arrays]
        given = [array.shape for array in found]
        require(given == list(self.shapes), "shapes of arrays", given, f"{list(self.shapes)}")
        if any(array.dtype.kind != "f" for array in found):
            raise FedtideError(f"arrays are of types {[str(a.dtype) for a in found]}: must be floating")
        return np.concatenate([array.ravel() for array in found]).astype(self._received.dtype)

    def _rate(self, step: int) -> float:
        return float(innermost(self.method.solver).rate * self._scheduled(step))

    def _scheduled(self, step: int) -> float:
        task = Task(self._count, lambda w, i: (w, w), self.number)
        return float(innermost(self.method.solver).schedule.factor(task, step))

    @property
    def _count(self) -> int:
        return int(getattr(self.method.solver.work, "count", 1))


def innermost(solver: Any) -> Any:
    """The solver that takes the steps."""
    while not hasattr(solver, "rate"):
        solver = solver.solver
    return solver
