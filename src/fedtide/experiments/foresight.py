"""From a configuration to what theory says about it."""

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from fedtide.aggregation import LatestUpdates, Normalised, WeightedSum
from fedtide.availability import Always, Bernoulli, Clusters, Markov, Process
from fedtide.estimators import Discounted, Interval
from fedtide.experiments.build import Experiment
from fedtide.methods import Method
from fedtide.participation import (
    CorrelationAware,
    Everyone,
    MostAvailable,
    NormalisedInverse,
    RateTracking,
    SampleWithReplacement,
    Separated,
    Subsample,
    Unbiased,
    UniformSample,
)
from fedtide.problems import Classification, Quadratic, softmax_regression
from fedtide.schedules import Constant
from fedtide.servers import Optimiser, Projected
from fedtide.solvers import ControlVariate, Momentum, Proximal, Sgd
from fedtide.theory.chains import TwoState, lowest_correlation
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
    unfollowed = _unfollowed(method)
    if unfollowed:
        return Plan(note=f"{unfollowed}: neither limit nor path is predicted.")
    found = _weights(method, fleet)
    normalised = isinstance(method.aggregation, Normalised)
    memory = method.aggregation.aggregation if isinstance(method.aggregation, Normalised) else method.aggregation
    corrected = isinstance(method.solver, ControlVariate)
    if isinstance(memory, LatestUpdates):
        # While the model moves slowly, client k counts by β α_k from memory and by 1 − β of its mean weight afresh.
        trust = float(memory.trust)
        if trust < 1 and (found.score is None or found.normalised or found.ca_fed is not None):
            return Plan(
                note="It trusts its memory in part and changes its weights: neither limit nor path is predicted."
            )
        fresh = 0 if found.score is None or trust == 1 else (1 - trust) * found.score
        note = "Its memory of everyone's updates stands in for the absent; its path is not predicted."
        found = Plan(trust * _inverse(fleet) + fresh, note=note)
    elif corrected:
        # Where c_k = ∇F_k(w) everybody's step is c = Σ α_k ∇F_k(w), whoever is there and however many steps it takes.
        if found.score is None or found.ca_fed is not None:
            return Plan(note="Its corrections depend on whom it leaves out: neither limit nor path is predicted.")
        score = np.where(found.score > 0, _inverse(fleet), 0)
        return Plan(score, note="Its corrections stand in for the absent; its path is not predicted.")
    if found.score is None:
        return found
    steps = _steps(method.solver.work, sizes)
    if steps is None:
        if getattr(method.solver.work, "fixed", False):
            return Plan(note="Who takes how many steps depends on the seed: neither limit nor path is predicted.")
        return found._replace(note=f"{found.note} Its local work varies, so only its limit is predicted.".lstrip())
    notes = [found.note]
    if np.ptp(steps) > 0 and not normalised:
        factor = steps / steps.mean()
        found = found._replace(factor=factor if found.factor is None else found.factor * factor)
        notes.append("Clients take different numbers of steps, which count as importance.")
    elif np.ptp(steps) > 0:
        notes.append("Rounds of those who take more steps are longer, which its limit leaves out.")
    if isinstance(memory, LatestUpdates):
        return found._replace(note=" ".join(filter(None, notes)))
    training, note = (None, _LIMIT_ONLY) if normalised else _training(method, float(steps.mean()))
    return found._replace(training=training, note=" ".join(filter(None, (*notes, note))))


_LIMIT_ONLY = "Its steps are not plain SGD with a constant rate, so only its limit is predicted."
_LOOKS_AT_LOSSES = "Whom it leaves out depends on losses, so nothing is predicted."
_SAMPLING = "Sampling adds noise that the path leaves out."
_SETTLED = "Taken as unbiased, which it is once its rates have settled; the path leaves out the noise of its choices."


def _unfollowed(method: Method) -> str:
    """Which part does what theory does not follow; empty if none does."""
    inner = method.solver.solver if isinstance(method.solver, ControlVariate) else method.solver
    if not isinstance(inner, Sgd | Momentum | Proximal):
        return f"Its clients do more than descend ({type(inner).__name__})"
    rule = method.aggregation.aggregation if isinstance(method.aggregation, Normalised) else method.aggregation
    if not isinstance(rule, WeightedSum | LatestUpdates):
        return f"It does not simply add weighted updates ({type(rule).__name__})"
    server: Any = method.server
    while not isinstance(server, Optimiser) and hasattr(server, "server"):
        if isinstance(server, Projected):
            return "Its server projects, and the ball may not hold the limit"
        server = server.server
    decays = isinstance(server, Optimiser) and (
        server.algorithm in ("adamw", "lion") or "weight_decay" in server.options
    )
    return f"Its server does more than descend ({server.algorithm})" if decays else ""


def _inverse(fleet: Fleet) -> np.ndarray:
    return np.where(fleet.availability > _NEVER, fleet.importance / fleet.availability, 0)


def _believed(estimator: Any, fleet: Fleet) -> tuple[np.ndarray, str]:
    """α/π̂ with what the estimator settles at, and what to say about it."""
    if isinstance(estimator, Interval) and estimator.cutoff is not None:
        gap = TwoState(fleet.availability, fleet.correlation).mean_gap(estimator.cutoff)
        return np.where(fleet.availability > _NEVER, fleet.importance * gap, 0), ""
    note = "Its estimates never settle, and are taken as right." if isinstance(estimator, Discounted) else ""
    return _inverse(fleet), note


def _weights(method: Method, fleet: Fleet) -> Plan:
    inverse, note = _believed(method.estimator, fleet)
    found = _policy(method.participation, fleet, inverse)
    uses_estimates = method.participation.needs_estimates
    return found._replace(note=f"{found.note} {note}".strip()) if uses_estimates and note else found


def _policy(policy: Any, fleet: Fleet, inverse: np.ndarray) -> Plan:
    alpha, pi = fleet.importance, fleet.availability
    equal = Plan(np.ones_like(alpha), normalised=True)
    scaled = equal._replace(factor=alpha * len(alpha))
    match policy:
        case Everyone():
            ratio, fixed = Plan(alpha, normalised=True), Plan(alpha)
            return {"ratio": ratio, "fixed": fixed, "equal": equal, "scaled": scaled}[policy.weights]
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
            return equal._replace(optimistic=True, note=_SAMPLING)
        case UniformSample(weights="scaled"):
            return scaled._replace(optimistic=True, note=_SAMPLING)
        case SampleWithReplacement():
            return Plan(alpha, normalised=True, optimistic=True, note=_SAMPLING)
        case Subsample():
            inner = _policy(policy.policy, fleet, inverse)
            return inner._replace(optimistic=True, note=f"{inner.note} {_SAMPLING}".lstrip())
        case RateTracking() | Separated():
            return Plan(_inverse(fleet), optimistic=True, note=_SETTLED)
    kind = type(policy).__name__
    return Plan(note=f"Who counts how much ({kind}) changes from round to round: neither limit nor path is predicted.")


def _training(method: Method, steps: float) -> tuple[Training | None, str]:
    """The steps, or why they are not predicted."""
    solver, server = method.solver, method.server
    if not (isinstance(solver, Sgd) and isinstance(solver.schedule, Constant) and isinstance(server, Optimiser)):
        return None, _LIMIT_ONLY
    if server.algorithm != "sgd" or server.options:
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
    pi = np.maximum(pi, _NEVER)
    if observed is not None:  # counted, so up to rounding beyond what a chain can have
        lam = np.clip(lam, lowest_correlation(pi), 1 - 1e-6)
    return Fleet(alpha, pi, lam, process.classes(), chains, together, observed)


def _observed(rounds: np.ndarray | None) -> np.ndarray:
    assert rounds is not None  # two-state chains have formulas
    return rounds.astype(float)


def _lag_one(here: np.ndarray) -> np.ndarray:
    """Lag-1 correlation of each column; 0 for constants."""
    away = here - here.mean(0)
    variance = (away**2).mean(0)
    return np.divide((away[1:] * away[:-1]).mean(0), variance, out=np.zeros(here.shape[1]), where=variance > 0)
