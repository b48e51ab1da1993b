"""Methods that make no sense with a clock, or with a barrier; decided by what their parts declare."""

import jax
import jax.numpy as jnp

from fedtide.clock import Clock
from fedtide.errors import FedtideError
from fedtide.methods.base import Method
from fedtide.types import Population


def refuse_misfits(label: str, method: Method, clock: Clock, clients: int, history: int = 0) -> None:
    """Raises, with the reason in one line, for a method that cannot run with this clock."""
    barrier = clock.barrier
    kind, solver, policy = type(barrier).__name__, type(method.solver).__name__, type(method.participation).__name__
    if method.solver.trains_absent:
        reason = "its clients also train while they are unavailable, which takes no time that a clock could tell"
        raise FedtideError(f"{label}: cannot run with a clock: {reason} ({solver})")
    if barrier.starts == "places":
        if method.participation.needs_losses:
            reason = "it asks clients for a loss before they train, but this barrier decides who trains"
            raise FedtideError(f"{label}: cannot run with {kind}: {reason} ({policy})")
        if history:
            reason = "estimates are then of arrivals, of which there are none before the first server step"
            raise FedtideError(f"history = {history}: must be 0 with {kind}: {reason}")
    if barrier.keeps and keeps_rows(method, clients):
        reason = "its clients keep a state that belongs to the newest model, but an update may be of an older one"
        raise FedtideError(f"{label}: cannot run with {kind}: {reason} ({solver})")


def keeps_rows(method: Method, clients: int) -> bool:
    """Whether clients keep anything between rounds."""
    population = Population(jnp.ones(clients), jnp.ones(clients, jnp.int32), labels=jnp.ones((clients, 1)))
    return bool(jax.tree.leaves(jax.eval_shape(lambda: method.solver.init(population, jnp.zeros(1)).client)))
