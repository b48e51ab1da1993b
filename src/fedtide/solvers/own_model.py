"""Clients that train models of their own, whether or not they are available."""

from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jax import Array

from fedtide.solvers.base import SolverWrapper, check_sends_change, choose
from fedtide.solvers.sgd import Sgd
from fedtide.types import Cohort, Memory, Population, Sends, Solver, Task, Trained, Updates, part


class OwnRow(NamedTuple):
    model: Array  # [d] x_k
    inner: Any


@part
class OwnModel(SolverWrapper):
    """`solver` from the client's own model x_k, in every round and by every client, available or not.

    Participants send their model and receive the server's new one; the others keep the model they trained. All start
    with the initial model. Only the channel is unavailable: all N clients train in every round.

    Reference: Xiang et al., "Towards bias correction of FedAvg over nonuniform and time-varying communications",
    CDC 2023 (FedPBC).
    """

    solver: Solver = Sgd()

    def __post_init__(self):
        check_sends_change(self.solver)

    sends: ClassVar[Sends] = "model"
    trains_absent: ClassVar[bool] = True

    def init(self, population: Population, w: Array) -> Memory:
        inner = self.solver.init(population, w)
        return Memory(OwnRow(jnp.tile(w, (len(population.sizes), 1)), inner.client), inner.shared)

    def train(self, w: Array, task: Task, row: OwnRow, shared: Any) -> Trained:
        trained = self.solver.train(row.model, task, row.inner, shared)
        return trained._replace(row=OwnRow(trained.w, trained.row))

    def close(
        self, shared: Any, cohort: Cohort, updates: Updates, before: Any, after: Any, model: Array
    ) -> tuple[Any, OwnRow]:
        shared, inner = self.solver.close(shared, cohort, updates, before.inner, after.inner, model)
        received = jnp.broadcast_to(model, after.model.shape)
        return shared, OwnRow(choose(cohort.present, received, after.model), inner)
