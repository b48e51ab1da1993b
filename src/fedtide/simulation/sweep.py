"""Many settings of one method as a batch axis of one program."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedtide.availability.base import Process
from fedtide.errors import InvalidInput, require
from fedtide.methods.base import Method
from fedtide.simulation import engine, memory
from fedtide.simulation.cache import use_persistent_cache
from fedtide.simulation.measures import EvaluationRecord
from fedtide.simulation.setup import Setup, batch, fitted


def sweep(
    problem: Any,
    availability: Process,
    settings: Sequence[Method],
    *,
    rounds: int,
    seeds: int | Sequence[int] = 1,
    evaluate_every: int = 5,
    history: int = 0,
) -> EvaluationRecord:
    """Evaluations of every setting and seed: arrays [settings, seeds, evaluations].

    The settings are methods that differ in plain numbers only (learning rates, κ̄² …): one compilation serves them all.
    All meet the same availability, minibatches and initial models. No records of rounds or clients are kept.
    """
    use_persistent_cache()
    require(len(settings) > 0, "settings", "none", "one or more methods")
    settings = [fitted(method, problem) for method in settings]
    structure = jax.tree.structure(settings[0])
    for i, other in enumerate(settings):
        if jax.tree.structure(other) != structure:
            raise InvalidInput(f"settings[{i}]", other.name, "different from settings[0] in plain numbers only")
    setup = Setup(
        problem, availability, {settings[0].name: settings[0]}, rounds=rounds, seeds=seeds,
        evaluate_every=evaluate_every, history=history, record_clients=False, chunk=None,
    )  # fmt: skip
    chunk = setup.choose_chunk(settings[0], len(settings))
    need = setup.memory(settings[0], chunk, len(settings))
    memory.refuse_if_too_large(settings[0].name, need, setup.parameters, availability.clients, memory.device_memory())
    method = batch(settings)
    carry = engine.start(method, setup.problem, setup.population, setup.seeds, setup.traces.past, history)
    carry = engine.spread(carry, setup.devices)
    found = []
    for span in setup.plan:
        shape = setup.shape(settings[0], span, chunk)
        trace, first = setup.traces[span], jnp.int32(span.first)
        carry, stretch = engine.run_stretch(
            method, setup.problem, setup.population, setup.seeds, carry, first, trace, shape
        )
        if span.evaluates:
            found.append(jax.tree.map(np.asarray, stretch.evaluation))
    return jax.tree.map(lambda *parts: np.concatenate(parts, axis=-1), *found)
