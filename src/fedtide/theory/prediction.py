"""The prediction for a federation and its methods: the content of the page of `fedtide theory`."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fedtide.declared import Training, Weighting
from fedtide.kinds import kinds_checked
from fedtide.theory.bias import Bias, bias, expected_weights, sampled_importance, total_variation
from fedtide.theory.bounds.base import Bound
from fedtide.theory.bounds.ca_fed import theorem2
from fedtide.theory.chains import Presence, presence
from fedtide.theory.constants import Constants, quadratic_constants, softmax_constants
from fedtide.theory.exclusions import SettledExclusions, settled_exclusions
from fedtide.theory.families import Family, QuadraticFamily, SoftmaxFamily
from fedtide.theory.trajectory import Path, predicted_path

_POINTS = 120  # recorded rounds of a path
# h q_k ‖∇²F_k‖/(1−λ_k) of a client that moves the model most of the way to its own optimum while it is available
_FAR = 1.0
_STEP_EXPONENT = 0.6  # of η_t = η_1 t^−0.6, which Theorem 2 allows


class Clients(NamedTuple):
    """The clients and their availability."""

    importance: np.ndarray  # [N] α
    availability: np.ndarray  # [N] π, positive
    correlation: np.ndarray  # [N] λ
    kinds: list[str]  # [N] a name for each client's kind
    chains: bool = True  # whether each client (or cluster) is a two-state chain
    together: np.ndarray | None = None  # [N] cluster of each client, if those of a cluster are available together
    observed: np.ndarray | None = None  # bool[T, N] sampled rounds, where clients are not independent


class MethodPrediction(NamedTuple):
    """The prediction for one method; None where there is none."""

    importance: np.ndarray | None = None  # [N] p
    misplaced: float | None = None  # TV(α, p)
    bias: Bias | None = None
    path: Path | None = None
    exclusions: SettledExclusions | None = None
    bound: Bound | None = None
    diverges: bool = False  # the step is too large for the mean path to converge
    rough: bool = False  # one client moves the model far while available: the first-order prediction is optimistic
    optimistic: bool = False  # some noise is not modelled: the path is too low
    note: str = ""

    @property
    def finite_path(self) -> Path | None:
        """The path, unless it diverges."""
        return None if self.diverges else self.path


class Prediction(NamedTuple):
    """The prediction for a federation."""

    clients: Clients
    presence: Presence
    rounds: int
    methods: dict[str, MethodPrediction]  # by label
    constants: Constants | None = None  # of a problem with computable optima
    optimum: float | None = None  # F*
    start: float | None = None  # F(w_0) − F*

    @property
    def paths(self) -> dict[str, Path]:
        """The finite paths by label."""
        return {label: f.finite_path for label, f in self.methods.items() if f.finite_path is not None}


@kinds_checked
def predict_methods(
    clients: Clients,
    weightings: Mapping[str, Weighting],
    rounds: int,
    family: Family | None = None,
    start: np.ndarray | None = None,
    *,
    variance: bool = True,
    progress: Callable[[str, int], None] = lambda label, done: None,
) -> Prediction:
    """Presence, bias, paths, exclusions and bounds; without a family only what follows from weights.

    Assumes that the server knows π and λ (π̂ = π). `variance = False` leaves out the variance around the mean path, the
    cost of which grows with the cube of the number of parameters.
    """
    runs = presence(clients.availability, clients.correlation)
    if family is None:
        predictions = {label: _weights_only(clients, weighting) for label, weighting in weightings.items()}
        for label in weightings:
            progress(label, rounds)
        return Prediction(clients, runs, rounds, predictions)
    w = np.zeros(family.dimension) if start is None else np.asarray(start, float)
    best = family.minimise(clients.importance)
    lowest = float(clients.importance @ family.values(best))
    radius = 2 * max(float(np.linalg.norm(w)), float(np.linalg.norm(best)), 1e-6)
    setting = _Setting(clients, family, w, best, rounds, radius, variance)
    predictions = {}
    for label, weighting in weightings.items():
        predictions[label] = setting.predict(weighting, partial(progress, label))
        progress(label, rounds)  # also where there is no path
    first = float(clients.importance @ family.values(w)) - lowest
    return Prediction(clients, runs, rounds, predictions, _constants(family, radius, best), lowest, first)


def recorded_rounds(rounds: int, most: int = _POINTS) -> np.ndarray:
    """Rounds to record: dense at the beginning, where the error changes fastest."""
    spaced = np.concatenate([np.linspace(0, rounds, most // 2), np.geomspace(1, rounds, most // 2)])
    return np.unique(spaced.round().astype(int))


class _Setting(NamedTuple):
    clients: Clients
    family: Family
    start: np.ndarray
    best: np.ndarray  # w*
    rounds: int
    radius: float
    variance: bool

    def predict(self, weighting: Weighting, progress: Callable[[int], None]) -> MethodPrediction:
        family, training, (alpha, pi, lam, *_) = self.family, weighting.training, self.clients
        excluded = None
        if weighting.ca_fed is not None:
            kappa_squared, threshold, strict, oracle = weighting.ca_fed
            minima = family.client_minima if oracle else 0.0
            excluded = settled_exclusions(family, alpha, pi, lam, kappa_squared, threshold, strict, minima)
            score = alpha / pi if weighting.score is None else weighting.score
            weighting = weighting._replace(score=np.where(excluded.kept, score, 0))
        if weighting.score is None:
            return MethodPrediction(note=weighting.note)
        weight = _weight(self.clients, weighting)
        p = weight / weight.sum()
        limit = bias(family, alpha, p, self.best)
        predicted = MethodPrediction(p, limit.total_variation, limit, exclusions=excluded, note=weighting.note)
        if training is None or training.step <= 0:
            return predicted
        moves = _moves(family, training)
        fast = 0.0
        if self.variance:
            fast = training.step * float(np.linalg.eigvalsh(moves.hessian(limit.optimum, weight)).max())
        walk = (family, alpha, weight / pi, pi, lam, self.start, training.step, self.rounds)
        path = predicted_path(
            *walk,
            dynamics=moves,
            samples=training.samples,
            optimum=self.best,
            limit=limit.optimum if moves is family else None,
            variance=self.variance and self.clients.chains and fast < 2,
            together=self.clients.together,
            shared=_weight(self.clients, weighting._replace(factor=None)) / pi if weighting.normalised else None,
            record=recorded_rounds(self.rounds),
            progress=progress,
        )
        pull = training.step * weight / pi * _curvatures(family, limit.optimum) / (1 - lam)
        return predicted._replace(
            path=path,
            diverges=fast >= 2 or not bool(np.isfinite(path.error).all()),
            rough=bool(pull.max() > _FAR),
            bound=self._bound(weighting.score, training, limit) if self._fixed(weighting) else None,
            optimistic=weighting.optimistic,
        )

    def _fixed(self, weighting: Weighting) -> bool:
        """Whether weights are fixed and clients independent, as Theorem 2 assumes."""
        independent = self.clients.chains and self.clients.together is None
        return independent and not (weighting.normalised or weighting.factor is not None or weighting.optimistic)

    def _bound(self, q: np.ndarray, training: Training, limit: Bias) -> Bound | None:
        """Theorem 2, repaired, at the largest steps that it allows."""
        E = training.local_steps
        radius = max(self.radius, float(np.linalg.norm(limit.optimum)))  # W must hold w_B*
        constants = _constants(self.family, radius, limit.optimum, training)
        if constants is None or int(E) != E:
            return None
        first = 1 / (2 * constants.smoothness * (1 + 2 * E * q.sum()))
        constants = _constants(self.family, radius, limit.optimum, training, first)
        assert constants is not None
        steps = first * np.arange(1, self.rounds + 1) ** -_STEP_EXPONENT
        clients = self.clients
        return theorem2(q, clients.availability, clients.correlation, constants, steps, int(E), limit.biased_gap)


def _weights_only(clients: Clients, weighting: Weighting) -> MethodPrediction:
    if weighting.score is None or weighting.ca_fed is not None:
        return MethodPrediction(note=weighting.note)
    weight = _weight(clients, weighting)
    p = weight / weight.sum()
    return MethodPrediction(p, total_variation(clients.importance, p), note=weighting.note)


def _weight(clients: Clients, weighting: Weighting) -> np.ndarray:
    """E[a_k]: exactly for independent clients, from sampled rounds for others."""
    assert weighting.score is not None
    if weighting.normalised and clients.observed is not None:
        weight = sampled_importance(weighting.score, clients.observed).weight
    else:
        weight = expected_weights(weighting.score, clients.availability, weighting.normalised).weight
    return weight if weighting.factor is None else weight * weighting.factor


def _moves(family: Family, training: Training) -> Family:
    """The family of the updates: exact for quadratics, to first order in the rate for others."""
    E = training.local_steps
    if isinstance(family, QuadraticFamily) and int(E) == E:
        largest = np.linalg.eigvalsh(family.hessians).max()
        if training.rate * largest < 2:
            return family.after_local_steps(training.rate, int(E))
    return family


def _curvatures(family: Family, w: np.ndarray, iterations: int = 15) -> np.ndarray:
    """‖∇²F_k(w)‖ of each client [N], by power iteration."""
    v = np.random.default_rng(0).normal(size=(family.clients, family.dimension))
    norms = np.ones(family.clients)
    for _ in range(iterations):
        v = family.products(w, v / np.linalg.norm(v, axis=1, keepdims=True))
        norms = np.linalg.norm(v, axis=1)
    return norms


def _constants(
    family: Family, radius: float, biased: np.ndarray, training: Training | None = None, rate: float = 0.0
) -> Constants | None:
    """`rate` is the largest rate of local steps: G bounds gradients at local iterates, which may leave W."""
    batch: Any = None
    steps = 1 if training is None else math.ceil(training.local_steps)
    if training is not None and np.isfinite(training.samples):
        batch = max(1, round(training.samples / training.local_steps))
    if isinstance(family, QuadraticFamily):
        noise = np.trace(family.covariances, axis1=1, axis2=2) / (batch or np.inf)
        return quadratic_constants(family, radius, biased, noise, rate, steps)
    return softmax_constants(family, radius, batch, rate, steps) if isinstance(family, SoftmaxFamily) else None
