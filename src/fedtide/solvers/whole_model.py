"""Clients that send their model in place of its change."""

from typing import Any, ClassVar

from jax import Array

from fedtide.declared import Descent
from fedtide.solvers.base import Recipe, SolverWrapper, check_sends_change, recipe_of
from fedtide.solvers.sgd import Sgd
from fedtide.types import Cohort, Memory, Population, Sends, Solver, Task, Trained, Updates, part


@part
class WholeModel(SolverWrapper):
    """The steps of `solver`; the client sends its model w_k, and the server moves towards it.

    For an update from the newest model w this is the change w − w_k, as without the wrapper. For an older one it also
    undoes the part of the server's steps since then that its weight allows.

    Reference: Xie, Koyejo and Gupta, "Asynchronous federated optimization", OPT 2020 (FedAsync).
    """

    solver: Solver = Sgd()

    def __post_init__(self):
        check_sends_change(self.solver)

    sends: ClassVar[Sends] = "model"

    def in_theory(self) -> Descent:
        return self.solver.in_theory()

    def init(self, population: Population, w: Array) -> Memory:
        return self.solver.init(population, w)

    def recipe(self, row: Any, shared: Any) -> Recipe | None:
        return recipe_of(self.solver, row, shared)

    def train(self, w: Array, task: Task, row: Any, shared: Any) -> Trained:
        return self.solver.train(w, task, row, shared)

    def close(
        self, shared: Any, cohort: Cohort, updates: Updates, before: Any, after: Any, model: Array
    ) -> tuple[Any, Any]:
        return self.solver.close(shared, cohort, updates, before, after, model)
