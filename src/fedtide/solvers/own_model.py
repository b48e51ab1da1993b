"""Clients that train a model of their own, heard or not."""

from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
from jax import Array

from fedtide.solvers.base import Around, check_sends_change, choose
from fedtide.solvers.sgd import Sgd
from fedtide.types import Cohort, Memory, Population, Solver, Task, Trained, Updates, part


class OwnRow(NamedTuple):
    model: Array  # [d] x_k
    inner: Any


@part
class OwnModel(Around):
    """`solver` from the client's own model x_k, in every round and by every client, there or not.

    Those who take part send their model and get the server's new one; the others keep what they trained. All start with
    the initial model. Unavailability is that of the channel: the work is that of all N clients in every round.

    Reference: Xiang et al., "Towards bias correction of FedAvg over nonuniform and time-varying communications",
    CDC 2023 (FedPBC).
    """

    solver: Solver = Sgd()

    def __post_init__(self):
        check_sends_change(self.solver)

    @property
    def sends(self) -> Literal["change", "model", "difference"]:
        return "model"

    @property
    def trains_absent(self) -> bool:
        return True

    def init(self, population: Population, w: Array) -> Memory:
        inner = self.solver.init(population, w)
        return Memory(OwnRow(everybodys(w, len(population.sizes)), inner.client), inner.shared)

    def train(self, w: Array, task: Task, row: OwnRow, shared: Any) -> Trained:
        trained = self.solver.train(row.model, task, row.inner, shared)
        return trained._replace(row=OwnRow(trained.w, trained.row))

    def close(
        self, shared: Any, cohort: Cohort, updates: Updates, before: Any, after: Any, model: Array
    ) -> tuple[Any, OwnRow]:
        shared, inner = self.solver.close(shared, cohort, updates, before.inner, after.inner, model)
        received = jnp.broadcast_to(model, after.model.shape)
        return shared, OwnRow(choose(cohort.present, received, after.model), inner)


def everybodys(w: Array, clients: int) -> Array:
    """A copy of the initial model for each client: [N, d]."""
    return jnp.tile(w, (clients, 1))
