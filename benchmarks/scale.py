"""One round of availability + Bayesian estimate + CA-Fed decision, for growing fleets."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from common import best_of

from fedtide.availability import Markov
from fedtide.availability.base import begin
from fedtide.estimators import Bayesian
from fedtide.participation import CorrelationAware
from fedtide.streams import Purpose, Stream
from fedtide.types import Observation, Population


def measure(sizes: tuple[int, ...] = (10**3, 10**4, 10**5, 10**6)) -> list[dict[str, object]]:
    """Seconds and bytes for each N; `growth` is the time relative to N log N at the smallest N."""
    rows: list[dict[str, object]] = []
    for clients in sizes:
        seconds, memory = _decision(clients)
        scale = clients * np.log(clients)
        base = rows[0] if rows else {"seconds": seconds, "scale": scale}
        growth = (seconds / base["seconds"]) / (scale / base["scale"])  # pyright: ignore
        rows.append(
            {
                "clients": clients,
                "seconds": seconds,
                "MB": memory / 1e6,
                "bytes per client": memory / clients,
                "growth": growth,
                "scale": scale,
            }
        )
    for row in rows:
        del row["scale"]
    return rows


def _decision(clients: int) -> tuple[float, int]:
    rng = np.random.default_rng(0)
    process = Markov(rng.uniform(0.05, 0.95, clients), rng.uniform(0, 0.95, clients))
    process = jax.tree.map(lambda v: jnp.asarray(v, jnp.float32), process)
    estimator, policy = Bayesian(), CorrelationAware(kappa_squared=0.01)
    population = Population(jnp.full(clients, 1 / clients), jnp.full(clients, 100))
    losses = jnp.asarray(rng.gamma(2.0, 1.0, clients), jnp.float32)

    @functools.partial(jax.jit, donate_argnums=0)
    def one_round(carry, process, losses, t):
        state, counts, remembered = carry
        available, state = process.step(state, Stream(0, Purpose.AVAILABILITY, t))
        estimate, counts = estimator.update(counts, available)
        loss, stream = jnp.where(available, losses, 0), Stream(0, Purpose.PARTICIPATION, t)
        seen = Observation(available, estimate, loss, available, t, stream, population)
        decision, remembered = policy.decide(remembered, seen)
        return (state, counts, remembered), decision.weight.sum()

    carry = (begin(process, jnp.uint32(0)), estimator.init(population), policy.init(population))
    carry = jax.tree.map(jnp.array, carry)
    program = one_round.lower(carry, process, losses, jnp.int32(0)).compile()
    analysis = program.memory_analysis()
    memory = analysis.temp_size_in_bytes + analysis.argument_size_in_bytes + analysis.output_size_in_bytes
    for t in range(20):  # some history, so that estimates differ between clients
        carry, _ = program(carry, process, losses, jnp.int32(t))

    def run() -> object:
        nonlocal carry
        carry, kept = program(carry, process, losses, jnp.int32(20))
        return kept

    return best_of(run, repetitions=3), memory
