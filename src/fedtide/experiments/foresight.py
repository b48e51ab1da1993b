"""From a configuration to what theory says about it."""

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from fedtide.availability import Always, Bernoulli, Clusters, Markov, Process
from fedtide.experiments.build import Experiment
from fedtide.methods import Method
from fedtide.participation import (
    CorrelationAware,
    Everyone,
    MostAvailable,
    NormalisedInverse,
    RateTracking,
    Subsample,
    Unbiased,
    UniformSample,
)
from fedtide.problems import Classification, Quadratic, softmax_regression
from fedtide.servers import Optimiser
from fedtide.solvers import Sgd
from fedtide.theory.families import QuadraticFamily, SoftmaxFamily
from fedtide.theory.outlook import CaFed, Fleet, Outlook, Plan, Training, outlook
from fedtide.work import Epochs, FullBatch, Steps, StepsPerClient

_NUMBERS_SAMPLED = 4_000_000  # at most so many clients × rounds of a process that has no formula
_MOST_PARAMETERS = 1500  # beyond that the spread of runs is left out: it costs their cube
_NEVER = 1e-12  # stands for an availability of 0


def foresee(
    experiment: Experiment, rounds: int, progress: Callable[[str, int], None] = lambda label, done: None
) -> Outlook:
    """What theory says about an experiment: presence, bias, predicted paths, whom CA-Fed leaves out, bounds."""
    fleet = _fleet(experiment.availability, np.asarray(experiment.problem.importance, float))
    sizes = np.asarray(experiment.problem.sizes)
    plans = {label: plan(method, fleet, sizes) for label, method in experiment.methods.items()}
    family = family_of(experiment.problem)
    if family is None:
        plans = {label: p if p.ca_fed is None else p._replace(note=_LOOKS_AT_LOSSES) for label, p in plans.items()}
        return outlook(fleet, plans, rounds, progress=progress)
    start = _start(experiment.problem)
    cloud = family.dimension <= _MOST_PARAMETERS
    return outlook(fleet, plans, rounds, family, start, cloud=cloud, progress=progress)


def family_of(problem: Any) -> QuadraticFamily | SoftmaxFamily | None:
    """The problem as theory knows it; None where it does not."""
    if isinstance(problem, Quadratic):
        noise = np.asarray(problem.noise, float)
        covariances = np.einsum("kmi,kmj->kij", noise, noise) / noise.shape[1]
        return QuadraticFamily(np.asarray(problem.hessians), np.asarray(problem.centres), covariances)
    if not isinstance(problem, Classification) or not problem.ridge > 0:
        return None
    params = problem.init(jax.random.key(0))
    if not isinstance(params, dict) or set(params) != {"bias", "weight"} or np.ndim(params["weight"]) != 2:
        return None
    shape, classes = np.shape(problem.x)[1:], len(params["bias"])
    if problem.model not in (softmax_regression(math.prod(shape), classes), softmax_regression(shape, classes)):
        return None
    return SoftmaxFamily(
        np.asarray(problem.x, float), np.asarray(problem.y), np.asarray(problem.sizes), float(problem.ridge), classes
    )


def plan(method: Method, fleet: Fleet, sizes: np.ndarray) -> Plan:
    """What a method does, as far as theory follows it."""
    rule, solver = (type(p).__name__ for p in (method.aggregation, method.solver))
    if solver not in _DESCENDS:
        return Plan(note=f"Its clients do more than descend ({solver}): neither limit nor path is predicted.")
    whole = getattr(method.aggregation, "trust", 0) == 1  # then absent clients count by their latest update in full
    if rule == "LatestUpdates" and (whole or isinstance(method.participation, Unbiased)):
        aim = "Its memory of everyone's updates aims at the target; its path is not predicted."
        return Plan(_inverse(fleet), note=aim)
    if rule not in ("WeightedSum", "Normalised"):
        return Plan(note=f"It does not simply add weighted updates ({rule}): neither limit nor path is predicted.")
    found = _weights(method.participation, fleet)
    steps = _steps(method.solver.work, sizes)
    notes = [found.note]
    if steps is None:
        return found._replace(note=f"{found.note} Its local work varies, so only its limit is predicted.".lstrip())
    if np.ptp(steps) > 0 and rule == "WeightedSum":
        factor = steps / steps.mean()
        found = found._replace(factor=factor if found.factor is None else found.factor * factor)
        notes.append("Clients take different numbers of steps, which count as importance.")
    training, note = _training(method, float(steps.mean())) if rule == "WeightedSum" else (None, _LIMIT_ONLY)
    return found._replace(training=training, note=" ".join(filter(None, (*notes, note))))


_DESCENDS = ("Sgd", "Momentum", "Proximal", "ControlVariate")
_LIMIT_ONLY = "Its steps are not plain SGD with a constant rate, so only its limit is predicted."
_LOOKS_AT_LOSSES = "Whom it leaves out depends on losses, so nothing is predicted."
_SAMPLING = "Sampling adds noise that the path leaves out."


def _inverse(fleet: Fleet) -> np.ndarray:
    return np.where(fleet.availability > _NEVER, fleet.importance / fleet.availability, 0)


def _weights(policy: Any, fleet: Fleet) -> Plan:
    alpha, pi, inverse = fleet.importance, fleet.availability, _inverse(fleet)
    equal = Plan(np.ones_like(alpha), normalised=True)
    scaled = equal._replace(factor=alpha * len(alpha))
    match policy:
        case Everyone():
            return {"ratio": Plan(alpha, normalised=True), "fixed": Plan(alpha), "equal": equal, "scaled": scaled}[
                _weighing(policy)
            ]
        case Unbiased():
            return Plan(inverse)
        case NormalisedInverse():
            return Plan(inverse, normalised=True)
        case MostAvailable():
            kept = math.ceil(policy.fraction * len(pi) * (1 - 1e-6))
            first = np.argsort(-pi, kind="stable")[:kept]
            return Plan(np.where(np.isin(np.arange(len(pi)), first), inverse, 0))
        case CorrelationAware(optimum="running_min"):
            return Plan(note="With F* as the running minimum CA-Fed's choices depend on the run and are not predicted.")
        case CorrelationAware():
            oracle = policy.optimum == "oracle"
            settings = CaFed(float(policy.kappa_squared), float(policy.threshold), policy.strict, oracle)
            return Plan(inverse, ca_fed=settings)
        case UniformSample(weights="equal"):  # whoever is there is as likely as the others, and shares equally
            return equal._replace(note=_SAMPLING)
        case UniformSample(weights="scaled"):
            return scaled._replace(note=_SAMPLING)
        case Subsample():
            inner = _weights(policy.policy, fleet)
            return inner._replace(note=f"{inner.note} {_SAMPLING}".lstrip())
        case RateTracking():
            return Plan(inverse, note="Taken as unbiased, which it is once its rates have settled.")
    kind = type(policy).__name__
    return Plan(note=f"Its weights ({kind}) depend on the run: neither limit nor path is predicted.")


def _weighing(policy: Everyone) -> str:
    return getattr(policy, "weights", "ratio" if getattr(policy, "normalise", True) else "fixed")


def _training(method: Method, steps: float) -> tuple[Training | None, str]:
    """The steps, or why they are not predicted."""
    solver, server = method.solver, method.server
    schedule = getattr(solver, "schedule", None)
    constant = schedule is None or type(schedule).__name__ == "Constant"
    plain = isinstance(server, Optimiser) and server.algorithm == "sgd" and not server.options
    if not (isinstance(solver, Sgd) and isinstance(server, Optimiser) and constant and plain):
        return None, _LIMIT_ONLY
    work = solver.work
    samples = steps * work.batch if isinstance(work, Steps | StepsPerClient) else math.inf  # else each counts once
    return Training(float(solver.rate), float(server.rate), steps, samples), ""


def _steps(work: Any, sizes: np.ndarray) -> np.ndarray | None:
    """Local steps of each client [N]; None where they are not fixed."""
    match work:
        case Steps() | FullBatch():
            return np.full(len(sizes), float(work.count))
        case Epochs():
            return work.count * np.ceil(sizes / work.batch)
        case StepsPerClient():
            return np.asarray(work.counts, float)
    return None


def _start(problem: Any) -> np.ndarray | None:
    """The initial model in the family's coordinates."""
    if isinstance(problem, Quadratic):
        return np.asarray(problem.start, float)
    params = problem.init(jax.random.key(0))
    return np.hstack([np.asarray(params["weight"]), np.asarray(params["bias"])[:, None]]).astype(float).ravel()


def _fleet(process: Process, alpha: np.ndarray) -> Fleet:
    """π and λ where the process has them; else, and for joint behaviour, from sampled rounds."""
    together = np.asarray(process.membership) if isinstance(process, Clusters) else None
    inner = process.process if isinstance(process, Clusters) else process
    chains = isinstance(inner, Always | Bernoulli | Markov)
    observed = None
    if not (chains and together is None):
        rounds = int(np.clip(_NUMBERS_SAMPLED // process.clients, 200, 20_000))
        observed = process.sample(0, rounds)
    pi, lam = process.availability, process.correlation
    pi = _observed(observed).mean(0) if pi is None else np.asarray(pi, float)
    lam = _lag_one(_observed(observed)) if lam is None else np.asarray(lam, float)
    return Fleet(alpha, np.maximum(pi, _NEVER), lam, process.classes(), chains, together, observed)


def _observed(rounds: np.ndarray | None) -> np.ndarray:
    assert rounds is not None  # two-state chains have formulas
    return rounds.astype(float)


def _lag_one(here: np.ndarray) -> np.ndarray:
    """Lag-1 correlation of each column; 0 for constants."""
    away = here - here.mean(0)
    variance = (away**2).mean(0)
    return np.divide((away[1:] * away[:-1]).mean(0), variance, out=np.zeros(here.shape[1]), where=variance > 0)
