"""The prediction for an experiment, from what its parts declare about themselves."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from fedtide.availability import Process
from fedtide.declared import NEVER, Belief, Training, Weighting, inverse_availability
from fedtide.errors import FedtideError
from fedtide.experiments.build import Experiment
from fedtide.methods import Method
from fedtide.problems import Classification, Quadratic, softmax_regression
from fedtide.theory.chains import TwoState, lowest_correlation
from fedtide.theory.families import Family, QuadraticFamily, SoftmaxFamily
from fedtide.theory.prediction import Clients, Prediction, predict_methods

_NUMBERS_SAMPLED = 4_000_000  # at most so many clients × rounds of a process that has no formula
_MOST_PARAMETERS = 1500  # beyond that the variance is left out: its cost grows with the cube of their number
_DEPENDS_ON_LOSSES = "Its exclusions depend on losses, so nothing is predicted."


def predict(
    experiment: Experiment, rounds: int, progress: Callable[[str, int], None] = lambda label, done: None
) -> Prediction:
    """The prediction for an experiment: presence, bias, paths, the exclusions of CA-Fed, bounds."""
    if "clock" in experiment.options:
        raise FedtideError("clock: nothing is predicted for a run with a clock; remove this table")
    clients = _clients(experiment.availability, np.asarray(experiment.problem.importance, float))
    sizes = np.asarray(experiment.problem.sizes)
    weightings = {label: weighting(method, clients, sizes) for label, method in experiment.methods.items()}
    known = known_problem(experiment.problem)
    if known is None:
        weightings = {
            label: p if p.ca_fed is None else p._replace(note=_DEPENDS_ON_LOSSES) for label, p in weightings.items()
        }
        return predict_methods(clients, weightings, rounds, progress=progress)
    variance = known.family.dimension <= _MOST_PARAMETERS
    return predict_methods(clients, weightings, rounds, *known, variance=variance, progress=progress)


class KnownProblem(NamedTuple):
    """A problem with computable optima."""

    family: Family
    start: np.ndarray  # [d] the initial model in the family's coordinates


def known_problem(problem: Any) -> KnownProblem | None:
    """A quadratic or ridge softmax regression; None for any other problem."""
    if isinstance(problem, Quadratic):
        noise = np.asarray(problem.noise, float)
        covariances = np.einsum("kmi,kmj->kij", noise, noise) / noise.shape[1]
        family = QuadraticFamily(np.asarray(problem.hessians), np.asarray(problem.centres), covariances)
        return KnownProblem(family, np.asarray(problem.start, float))
    if not isinstance(problem, Classification) or not problem.ridge > 0:
        return None
    params = problem.init(jax.random.key(0))
    if not isinstance(params, dict) or set(params) != {"bias", "weight"} or np.ndim(params["weight"]) != 2:
        return None
    shape, (weight, bias) = np.shape(problem.x)[1:], (np.asarray(params[name]) for name in ("weight", "bias"))
    if problem.model not in (softmax_regression(math.prod(shape), len(bias)), softmax_regression(shape, len(bias))):
        return None
    x, y, sizes = np.asarray(problem.x, float), np.asarray(problem.y), np.asarray(problem.sizes)
    family = SoftmaxFamily(x, y, sizes, float(problem.ridge), len(bias))
    return KnownProblem(family, np.hstack([weight, bias[:, None]]).astype(float).ravel())


def weighting(method: Method, clients: Clients, sizes: np.ndarray) -> Weighting:
    """The weights and steps of a method, as far as theory models them."""
    rule, solver, server = method.aggregation.in_theory(), method.solver.in_theory(), method.server.in_theory()
    unfollowed = solver.unfollowed or rule.unfollowed or server.unfollowed
    if unfollowed:
        return Weighting(note=f"{unfollowed}: neither limit nor path is predicted.")
    result = _weights(method, clients)
    truth = inverse_availability(clients.importance, clients.availability)
    if rule.trust is not None:
        # While the model moves slowly, client k counts by β α_k from memory and by 1 − β of its mean weight afresh.
        if rule.trust < 1 and (result.score is None or result.normalised or result.ca_fed is not None):
            return Weighting(
                note="Its memory has weight β < 1 and its weights vary: neither limit nor path is predicted."
            )
        fresh = 0 if result.score is None or rule.trust == 1 else (1 - rule.trust) * result.score
        note = "Its memory of all updates replaces those of unavailable clients; its path is not predicted."
        result = Weighting(rule.trust * truth + fresh, note=note)
    elif solver.corrected:
        # Where c_k = ∇F_k(w), every step of every client is c = Σ α_k ∇F_k(w), for any set of available clients and
        # any number of steps.
        if result.score is None or result.ca_fed is not None:
            return Weighting(note="Its corrections depend on its exclusions: neither limit nor path is predicted.")
        score = np.where(result.score > 0, truth, 0)
        return Weighting(
            score, note="Its corrections replace the updates of unavailable clients; its path is not predicted."
        )
    if result.score is None:
        return result
    work = method.solver.work.in_theory(sizes)
    if work.steps is None and work.seeded:
        return Weighting(note="The numbers of local steps depend on the seed: neither limit nor path is predicted.")
    rates = np.ones(len(sizes)) if solver.factors is None else solver.factors
    effort = rates if work.steps is None else work.steps * rates
    notes, differ = [result.note], np.ptp(effort) > 1e-9 * effort.max()  # not by rounding
    if differ and not rule.normalised:
        factor = effort / effort.mean()
        result = result._replace(factor=factor if result.factor is None else result.factor * factor)
        notes.append("Clients that take more or longer steps have a larger effective importance.")
    elif differ:
        notes.append("The limit ignores that rounds of clients with more or longer local steps take longer steps.")
    training = None
    if work.steps is None:
        notes.append("Its local work varies, so only its limit is predicted.")
    elif rule.trust is None:
        if rule.normalised or solver.rate is None or server.rate is None:
            notes.append("Its steps are not plain SGD with a constant rate, so only its limit is predicted.")
        else:
            steps = float(work.steps.mean())
            samples = math.inf if math.isinf(work.batch) else steps * work.batch
            training = Training(solver.rate, server.rate, steps, samples)
    return result._replace(training=training, note=" ".join(filter(None, notes)))


def _weights(method: Method, clients: Clients) -> Weighting:
    """The weights of the policy at the limit of the estimator."""
    alpha, pi = clients.importance, clients.availability
    belief: Belief = getattr(method.estimator, "in_theory", Belief)()
    inverse = inverse_availability(alpha, pi)
    if belief.cutoff is not None:
        gap = TwoState(pi, clients.correlation).mean_gap(belief.cutoff)
        inverse = np.where(pi > NEVER, alpha * gap, 0)
    result = method.participation.in_theory(alpha, pi, inverse)
    if belief.settles or not method.participation.needs_estimates:
        return result
    return result._replace(note=f"{result.note} Its estimates do not converge; they are assumed to be exact.".strip())


def _clients(process: Process, alpha: np.ndarray) -> Clients:
    """π and λ of the process where defined; otherwise, and for joint behaviour, from sampled rounds."""
    pi, lam, observed = process.availability, process.correlation, None
    if process.clusters is not None or not process.two_state:
        observed = process.sample(0, int(np.clip(_NUMBERS_SAMPLED // process.clients, 200, 20_000)))
        rounds = observed.astype(float)
        pi = rounds.mean(0) if pi is None else pi
        lam = _lag_one(rounds) if lam is None else lam
    pi, lam = np.maximum(np.asarray(pi, float), NEVER), np.asarray(lam, float)
    if observed is not None:  # estimates may exceed the admissible range of a chain
        lam = np.clip(lam, lowest_correlation(pi), 1 - 1e-6)
    return Clients(alpha, pi, lam, process.classes(), process.two_state, process.clusters, observed)


def _lag_one(rounds: np.ndarray) -> np.ndarray:
    """Lag-1 correlation of each column; 0 for constants."""
    deviation = rounds - rounds.mean(0)
    variance = (deviation**2).mean(0)
    products = (deviation[1:] * deviation[:-1]).mean(0)
    return np.divide(products, variance, out=np.zeros_like(variance), where=variance > 0)
