"""Clients that continue from the last model they received and compensate for their absence."""

from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jax import Array

from fedtide.errors import number
from fedtide.solvers.base import SolverWrapper, check_sends_change
from fedtide.solvers.sgd import Sgd
from fedtide.types import Cohort, Memory, Population, Sends, Solver, Task, Trained, Updates, part


class EchoRow(NamedTuple):
    model: Array  # [d] x_k, the last model received
    last: Array  # [] the round after which it was received
    inner: Any


@part
class Echo(SolverWrapper):
    """`solver` from the client's own model x_k: it sends the model x_k − η_g (t − last_k) Δ_k, Δ_k = x_k − (x_k after
    training). The update counts once for each round since the client last took part.

    After the round the participants keep the server's new model, and last_k = t. All start with the initial model and
    last_k = −1, so that a client that is always available behaves as in FedAvg (η_g = `amplification` = 1).

    Reference: Xiang et al., "Efficient federated learning against heterogeneous and non-stationary client
    unavailability", NeurIPS 2024 (FedAWE).
    """

    solver: Solver = Sgd()
    amplification: float = 1.0

    def __post_init__(self):
        check_sends_change(self.solver)
        number("solver.amplification", self.amplification, low=0)

    sends: ClassVar[Sends] = "model"
    trains_absent: ClassVar[bool] = False  # an absent client does not take part in the round

    def init(self, population: Population, w: Array) -> Memory:
        inner, clients = self.solver.init(population, w), len(population.sizes)
        return Memory(EchoRow(jnp.tile(w, (clients, 1)), jnp.full(clients, -1, jnp.int32), inner.client), inner.shared)

    def train(self, w: Array, task: Task, row: EchoRow, shared: Any) -> Trained:
        trained = self.solver.train(row.model, task, row.inner, shared)
        echoes = self.amplification * jnp.asarray(task.round - row.last, w.dtype)
        sent = trained.w - (echoes - 1) * (row.model - trained.w)
        now = jnp.asarray(task.round, row.last.dtype)
        return trained._replace(w=sent, row=EchoRow(row.model, now, trained.row))

    def close(
        self, shared: Any, cohort: Cohort, updates: Updates, before: Any, after: Any, model: Array
    ) -> tuple[Any, EchoRow]:
        shared, inner = self.solver.close(shared, cohort, updates, before.inner, after.inner, model)
        return shared, EchoRow(jnp.broadcast_to(model, after.model.shape), after.last, inner)
