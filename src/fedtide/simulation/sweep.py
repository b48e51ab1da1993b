"""Many settings of one method as a batch axis of one program."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from fedtide.availability.base import Process
from fedtide.errors import DoesNotFit, InvalidInput, flag, require
from fedtide.methods.base import Method
from fedtide.simulation import calls, engine
from fedtide.simulation.cores import use_persistent_cache
from fedtide.simulation.measures import EvaluationRecord
from fedtide.simulation.progress import Progress, reporter
from fedtide.simulation.setup import Setup, batch, check_federation, fitted


def sweep(
    problem: Any,
    availability: Process,
    settings: Sequence[Method],
    *,
    rounds: int,
    seeds: int | Sequence[int] = 1,
    evaluate_every: int = 5,
    history: int = 0,
    chunk: int | None = None,
    skew: bool = True,
    progress: bool | Progress | None = None,
    finished: Callable[[EvaluationRecord], None] | None = None,
) -> EvaluationRecord:
    """Evaluations of every setting and seed: arrays [settings, seeds, evaluations], by class [settings, …, classes].

    The settings are methods that differ in plain numbers only (learning rates, κ̄² …) and share one compilation. All
    get the same availability, minibatches and initial models. No records of rounds or clients are kept. Settings that
    do not fit into memory together run a few at a time. `progress` counts the rounds of all settings. Without `skew`
    the skew of a selection by loss is not measured, which needs every client's own optimum. `finished` is called with
    the evaluations of the next settings as soon as these have run: on a CPU one at a time, which takes no longer there.
    """
    use_persistent_cache()
    check_federation(problem, availability)
    several = isinstance(settings, Sequence) and all(isinstance(method, Method) for method in settings)
    require(several, "settings", settings, "methods, such as [fedtide.methods.fedavg(rate=0.1)]")
    flag("skew", skew)
    require(len(settings) > 0, "settings", "none", "one or more methods")
    settings = [fitted(method, problem) for method in settings]
    structure = jax.tree.structure(settings[0])
    for i, other in enumerate(settings):
        if jax.tree.structure(other) != structure:
            raise InvalidInput(f"settings[{i}]", other.name, "different from settings[0] in plain numbers only")
    label = settings[0].name
    setup = Setup(
        problem, availability, {label: settings[0]}, rounds=rounds, seeds=seeds,
        evaluate_every=evaluate_every, history=history, record_clients=False, chunk=chunk, skew=skew,
    )  # fmt: skip
    one_by_one = finished is not None and jax.default_backend() == "cpu"
    together, chunk = _together(setup, settings[0], 1 if one_by_one else len(settings))
    total, found = rounds * len(settings), []
    with reporter(progress, [label], total) as report:
        report(label, 0, total)
        for first in range(0, len(settings), together):
            some = settings[first : first + together]
            padded = [*some, *[some[-1]] * (together - len(some))]  # of one size, for one compilation
            pieces = []
            for done, evaluation in _run(setup, padded, chunk):
                pieces.append(evaluation)
                if done < rounds:
                    report(label, rounds * first + done * len(some), total)
            whole = jax.tree.map(lambda *parts: np.concatenate(parts, axis=2), *filter(None, pieces))
            found.append(jax.tree.map(lambda a, n=len(some): a[:n], whole))
            if finished is not None:
                finished(found[-1])
            report(label, rounds * (first + len(some)), total)  # not earlier: it may raise KeyboardInterrupt
    return jax.tree.map(lambda *parts: np.concatenate(parts), *found)


def _together(setup: Setup, method: Method, settings: int) -> tuple[int, int | None]:
    """(settings at a time, all if they fit; clients trained at a time); raises if not even one setting fits."""
    while True:
        chunk = setup.choose_chunk(method, settings)
        try:
            setup.fitting(method.name, method, chunk, settings)
        except DoesNotFit:
            if settings == 1:
                raise
            settings = -(-settings // 2)
        else:
            return settings, chunk


def _run(setup: Setup, settings: Sequence[Method], chunk: int | None) -> Iterator[tuple[int, EvaluationRecord | None]]:
    """For each segment, the rounds done and its evaluations, if any."""
    method, clients = batch(settings), len(setup.population.sizes)
    carry = engine.start(method, setup.problem, setup.population, setup.seeds, setup.traces.past, setup.history)
    carry = engine.spread(carry, setup.devices)
    for segment in setup.plan:
        shape = setup.shape(settings[0], segment, chunk)
        trace, first = setup.traces[segment], np.int32(segment.first)
        carry, record = engine.run_segment(
            method, setup.problem, setup.population, setup.seeds, carry, first, trace, shape
        )
        for faults in np.asarray(record.faults):
            calls.refuse_faults(
                settings[0].name, settings[0].participation, setup.seed_list, segment.first, clients, faults
            )
        yield segment.end, jax.tree.map(np.asarray, record.evaluation) if segment.evaluates else None
