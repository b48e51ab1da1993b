"""What figures show besides accuracies: who was invited, the errors of estimates, decision regions."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from fedtide.errors import FedtideError
from fedtide.experiments.build import Experiment
from fedtide.experiments.config import Config
from fedtide.methods import Method
from fedtide.reproduce.choosing import MethodToRun
from fedtide.reproduce.draws import of_one_shape, own_seeds, rounded, seeds_of
from fedtide.reproduce.results import Activity, Inclusion, Invited, Regions
from fedtide.reproduce.study import CaseConfig
from fedtide.simulation import simulate
from fedtide.simulation.cells import Arrays, Cells
from fedtide.types import Population

_BINS = 40  # time bins in which invitations are counted
_GRID = 72  # points per side of a plane of decision regions


def attendance(
    panel: CaseConfig, experiments: list[Experiment], methods: dict[str, Method], cells: Cells
) -> tuple[Inclusion, Activity]:
    """Who was available and invited: by kind of client over all runs, and each client in the first run."""
    run, first = panel.config.run, experiments[0]

    def recorded(draw: int, problem: Any) -> Arrays:
        result = simulate(
            problem, first.availability, methods, rounds=run.rounds, seeds=own_seeds(panel.config, draw),
            evaluate_every=run.rounds, history=run.history, record_clients=True, progress=False,
        )  # fmt: skip
        arrays = {"active": result.attendance(next(iter(methods)))[0]}
        for i, method in enumerate(methods):
            arrays |= {f"invited {i}": result.attendance(method)[1], f"weight {i}": result.weights(method)}
        return arrays

    parts = [
        cells(f"attendance, draw {i}", functools.partial(recorded, i, problem))
        for i, problem in enumerate(of_one_shape([e.problem for e in experiments]))
    ]
    arrays = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    clusters = getattr(first.availability, "clusters", None)
    of_clients = np.array(
        first.availability.classes() if clusters is None else [f"cluster {c}" for c in np.asarray(clusters)]
    )
    kinds = list(dict.fromkeys(of_clients.tolist()))
    bins = np.linspace(0, run.rounds, min(_BINS, run.rounds) + 1).round().astype(int)[:-1]
    lengths = np.diff([*bins, run.rounds])[:, None]
    importance = np.repeat([e.problem.importance for e in experiments], len(seeds_of(panel.config)), axis=0)

    def over_time(rounds: np.ndarray) -> np.ndarray:
        shares = np.add.reduceat(rounds, bins, axis=1).astype(float) / lengths
        return rounded([shares[..., of_clients == kind].mean((0, 2)) for kind in kinds], 4)

    def by_kind(rounds: np.ndarray) -> np.ndarray:
        return np.array([rounds[..., of_clients == kind].sum((1, 2)) for kind in kinds])

    active = arrays["active"]  # bool[runs, rounds, clients], as the arrays of each method
    found = {method: (arrays[f"invited {i}"], arrays[f"weight {i}"]) for i, method in enumerate(methods)}
    rounds_available = by_kind(active).astype(float)
    rounds_available[rounds_available == 0] = np.nan  # a kind that is never available has no inclusion rate
    shares = {method: by_kind(invited) / rounds_available for method, (invited, _) in found.items()}
    weights = {method: weight.mean(1) / importance for method, (_, weight) in found.items()}  # [runs, clients]
    inclusion = Inclusion(
        kinds=kinds,
        rounds=(bins + 1).tolist(),
        methods={
            method: Invited(
                invited=over_time(invited),
                share=rounded(shares[method], 4),
                weight=rounded([weights[method][:, of_clients == kind].mean(1) for kind in kinds], 4),
            )
            for method, (invited, _) in found.items()
        },
        present=over_time(active),
    )
    activity = Activity(
        clients=of_clients.tolist(),
        methods={
            method: ["".join(map(str, row)) for row in (active[0].astype(int) + invited[0]).T.tolist()]
            for method, (invited, _) in found.items()
        },
    )
    return inclusion, activity


def estimation_errors(
    config: Config, experiment: Experiment, method: Method, seeds: list[int]
) -> dict[str, np.ndarray]:
    """Mean absolute errors of a method's estimates after the observed rounds, for each seed."""
    process, problem, estimator = experiment.availability, experiment.problem, method.estimator
    population = Population(jnp.asarray(problem.importance), jnp.asarray(problem.sizes))
    truth = np.asarray(process.availability), np.asarray(process.correlation)

    def step(state: Any, available: jax.Array) -> tuple[Any, Any]:
        estimate, state = estimator.update(state, available)
        return state, (estimate.availability, estimate.correlation)

    rows = []
    for seed in seeds:
        trace = jnp.asarray(process.sample(seed, config.run.history))
        _, estimates = jax.lax.scan(step, estimator.init(population), trace)
        rows.append([np.abs(values[-1] - true).mean() for values, true in zip(estimates, truth, strict=True)])
    errors = rounded(np.transpose(rows), 4)
    return {"availability": errors[0], "correlation": errors[1]}


def decision_regions(
    config: Config, experiment: Experiment, chosen: dict[str, MethodToRun], seeds: list[int]
) -> Regions:
    """Predictions of the final models on a grid over the plane of the samples."""
    problem: Any = experiment.problem
    run, points = config.run, np.asarray(problem.x, np.float64)
    if points.ndim != 2 or points.shape[1] != 2:
        raise FedtideError(
            f"{config.origin.source}: shows = ['regions']: samples have shape {points.shape[1:]}; must be (2,)"
        )
    margin = 0.1 * np.ptp(points, axis=0)
    low, high = points.min(axis=0) - margin, points.max(axis=0) + margin
    x, y = (np.linspace(low[i], high[i], _GRID) for i in (0, 1))
    grid = np.stack(np.meshgrid(x, y), -1).reshape(-1, 2).astype(np.float32)
    result = simulate(
        problem, experiment.availability, {label: c.method for label, c in chosen.items()}, rounds=run.rounds,
        seeds=seeds, evaluate_every=run.rounds, history=run.history, record_clients=False, progress=False,
    )  # fmt: skip
    _, unravel = ravel_pytree(problem.init(jax.random.key(0)))
    answers = {}
    for label in chosen:
        logits = problem.model.apply(unravel(result.models[label][0]), grid)
        rows = np.asarray(logits.argmax(axis=-1)).reshape(_GRID, _GRID)
        answers[label] = ["".join(map(str, row)) for row in rows]
    some = np.random.default_rng([0]).permutation(len(points))[:300]
    return Regions(
        low=low,
        high=high,
        answers=answers,
        points=points[some].round(3),
        classes=np.asarray(problem.y)[some].tolist(),
    )
