"""All that theory says about one federation and the methods it considers: the content of `fedtide theory`."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fedtide.theory.bias import Bias, bias, sampled_importance, total_variation
from fedtide.theory.bounds import Bound, theorem2
from fedtide.theory.constants import Constants, quadratic_constants, softmax_constants
from fedtide.theory.families import Family, QuadraticFamily, SoftmaxFamily
from fedtide.theory.prediction import (
    Path,
    Presence,
    SettledExclusions,
    expected_weights,
    predicted_path,
    presence,
    settled_exclusions,
)

_POINTS = 120  # rounds looked at on a path
_FAR = 1.0  # h q_k ‖∇²F_k‖/(1−λ_k): during its stay such a client takes the model most of the way to its own optimum
_STEP_EXPONENT = 0.6  # of η_t = η_1 t^−0.6, which Theorem 2 allows


class Fleet(NamedTuple):
    """Who the clients are and how they come and go."""

    importance: np.ndarray  # [N] α
    availability: np.ndarray  # [N] π, positive
    correlation: np.ndarray  # [N] λ
    kinds: list[str]  # [N] a name for each client's kind
    chains: bool = True  # whether each client (or cluster) is a two-state chain
    together: np.ndarray | None = None  # [N] cluster of each client, where clients come and go as one
    observed: np.ndarray | None = None  # bool[T, N] sampled rounds, where clients are not independent


class CaFed(NamedTuple):
    """The settings of CA-Fed that decide whom it leaves out."""

    kappa_squared: float = 1.0
    threshold: float = 0.0
    strict: bool = False
    oracle: bool = False  # F*_k known; otherwise taken as 0


class Training(NamedTuple):
    """Plain local SGD and a plain server step."""

    rate: float  # η
    server_rate: float  # η_s
    local_steps: float  # E, the mean where clients differ
    samples: float  # of a client in a round: E · batch; infinite for full gradients

    @property
    def step(self) -> float:
        """h = η_s η E."""
        return self.rate * self.server_rate * self.local_steps


class Plan(NamedTuple):
    """What a method does with whoever is there, as far as theory follows it."""

    score: np.ndarray | None = None  # [N] weight s_k of whoever is there; None where it is not a fixed number
    normalised: bool = False  # divided by the sum over who is there
    factor: np.ndarray | None = None  # [N] what multiplies it after that: more local steps, say
    ca_fed: CaFed | None = None  # score α/π, less those that CA-Fed leaves out
    training: Training | None = None  # None where steps are not plain SGD
    optimistic: bool = False  # some noise is not followed: the path is too low
    note: str = ""  # what is not predicted, and why


class Forecast(NamedTuple):
    """What theory says about one method. None where it says nothing."""

    importance: np.ndarray | None = None  # [N] p
    misplaced: float | None = None  # TV(α, p)
    bias: Bias | None = None
    path: Path | None = None
    exclusions: SettledExclusions | None = None
    bound: Bound | None = None
    diverges: bool = False  # the step is too large for the mean path to converge
    rough: bool = False  # one client's stay moves the model far, where a first-order prediction is optimistic
    optimistic: bool = False  # some noise is not followed: the path is too low
    note: str = ""


class Outlook(NamedTuple):
    """What theory says about a federation."""

    fleet: Fleet
    presence: Presence
    rounds: int
    forecasts: dict[str, Forecast]  # by label
    constants: Constants | None  # where the problem is known to theory
    optimum: float | None  # F*
    start: float | None  # F(w_0) − F*


def outlook(
    fleet: Fleet,
    plans: Mapping[str, Plan],
    rounds: int,
    family: Family | None = None,
    start: np.ndarray | None = None,
    *,
    cloud: bool = True,
    progress: Callable[[str, int], None] = lambda label, done: None,
) -> Outlook:
    """Puts together presence, bias, paths, exclusions and bounds; without a family only what weights decide.

    Assumes that the server knows π and λ (π̂ = π). `cloud = False` leaves out the spread around the mean path, whose
    cost grows with the cube of the number of parameters.
    """
    seen = presence(fleet.availability, fleet.correlation)
    if family is None:
        forecasts = {label: _weights_only(fleet, plan) for label, plan in plans.items()}
        for label in plans:
            progress(label, rounds)
        return Outlook(fleet, seen, rounds, forecasts, None, None, None)
    w = np.zeros(family.dimension) if start is None else np.asarray(start, float)
    best = family.minimise(fleet.importance)
    lowest = float(fleet.importance @ family.values(best))
    radius = 2 * max(float(np.linalg.norm(w)), float(np.linalg.norm(best)), 1e-6)
    setting = _Setting(fleet, family, w, best, rounds, radius, cloud)
    forecasts = {}
    for label, plan in plans.items():
        forecasts[label] = setting.forecast(plan, partial(progress, label))
        progress(label, rounds)  # also where there is no path
    first = float(fleet.importance @ family.values(w)) - lowest
    return Outlook(fleet, seen, rounds, forecasts, _constants(family, radius, best, None), lowest, first)


def recorded_rounds(rounds: int, most: int = _POINTS) -> np.ndarray:
    """Rounds to look at: dense at the beginning, where most happens."""
    spaced = np.concatenate([np.linspace(0, rounds, most // 2), np.geomspace(1, rounds, most // 2)])
    return np.unique(spaced.round().astype(int))


class _Setting(NamedTuple):
    fleet: Fleet
    family: Family
    start: np.ndarray
    best: np.ndarray  # w*
    rounds: int
    radius: float
    cloud: bool

    def forecast(self, plan: Plan, progress: Callable[[int], None]) -> Forecast:
        alpha, pi, lam = self.fleet.importance, self.fleet.availability, self.fleet.correlation
        found = None
        if plan.ca_fed is not None:
            kappa_squared, threshold, strict, oracle = plan.ca_fed
            minima = self.family.client_minima if oracle else 0.0
            found = settled_exclusions(self.family, alpha, pi, lam, kappa_squared, threshold, strict, minima)
            plan = plan._replace(score=np.where(found.kept, alpha / pi if plan.score is None else plan.score, 0))
        if plan.score is None:
            return Forecast(note=plan.note)
        weight = _weight(self.fleet, plan)
        p = weight / weight.sum()
        there = bias(self.family, alpha, p, self.best)
        forecast = Forecast(p, there.total_variation, there, exclusions=found, note=plan.note)
        if plan.training is None or plan.training.step <= 0:
            return forecast
        moves = _moves(self.family, plan.training)
        limit = there.optimum if moves is self.family else None
        fast = 0.0
        if self.cloud:
            fast = plan.training.step * float(np.linalg.eigvalsh(moves.hessian(there.optimum, weight)).max())
        shared = _weight(self.fleet, plan._replace(factor=None)) / pi if plan.normalised else None
        path = predicted_path(
            self.family, alpha, weight / pi, pi, lam, self.start, plan.training.step, self.rounds, dynamics=moves,
            samples=plan.training.samples, optimum=self.best, limit=limit,
            cloud=self.cloud and self.fleet.chains and fast < 2, together=self.fleet.together,
            shared=shared, record=recorded_rounds(self.rounds), progress=progress,
        )  # fmt: skip
        diverges = fast >= 2 or not bool(np.isfinite(path.error).all())
        pull = plan.training.step * weight / pi * _curvatures(self.family, there.optimum) / (1 - lam)
        return forecast._replace(
            path=path,
            diverges=diverges,
            rough=bool(pull.max() > _FAR),
            bound=self._bound(plan, there),
            optimistic=plan.optimistic,
        )

    def _bound(self, plan: Plan, there: Bias) -> Bound | None:
        """Theorem 2, repaired, at the largest steps that it allows; for fixed weights of independent clients only."""
        assert plan.training is not None
        assert plan.score is not None
        independent = self.fleet.chains and self.fleet.together is None
        E = plan.training.local_steps
        radius = max(self.radius, float(np.linalg.norm(there.optimum)))  # W must hold w_B*
        constants = _constants(self.family, radius, there.optimum, plan.training)
        unlike = plan.normalised or plan.factor is not None or plan.optimistic or not independent
        if unlike or constants is None or int(E) != E:
            return None
        first = 1 / (2 * constants.smoothness * (1 + 2 * E * plan.score.sum()))
        constants = _constants(self.family, radius, there.optimum, plan.training, first)
        assert constants is not None
        steps = first * np.arange(1, self.rounds + 1) ** -_STEP_EXPONENT
        pi, lam = self.fleet.availability, self.fleet.correlation
        return theorem2(plan.score, pi, lam, constants, steps, int(E), there.biased_gap)


def _weights_only(fleet: Fleet, plan: Plan) -> Forecast:
    if plan.score is None or plan.ca_fed is not None:
        return Forecast(note=plan.note)
    weight = _weight(fleet, plan)
    p = weight / weight.sum()
    return Forecast(p, total_variation(fleet.importance, p), note=plan.note)


def _weight(fleet: Fleet, plan: Plan) -> np.ndarray:
    """E[a_k]: exactly for independent clients, from sampled rounds for others."""
    assert plan.score is not None
    if plan.normalised and fleet.observed is not None:
        weight = sampled_importance(plan.score, fleet.observed).weight
    else:
        weight = expected_weights(plan.score, fleet.availability, plan.normalised).weight
    return weight if plan.factor is None else weight * plan.factor


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
    family: Family, radius: float, biased: np.ndarray, training: Training | None, rate: float = 0.0
) -> Constants | None:
    """`rate` is the largest that local steps have: G is about local iterates, which leave W."""
    batch: Any = None
    steps = 1 if training is None else math.ceil(training.local_steps)
    if training is not None and np.isfinite(training.samples):
        batch = max(1, round(training.samples / training.local_steps))
    if isinstance(family, QuadraticFamily):
        noise = np.trace(family.covariances, axis1=1, axis2=2) / (batch or np.inf)
        return quadratic_constants(family, radius, biased, noise, rate, steps)
    return softmax_constants(family, radius, batch, rate, steps) if isinstance(family, SoftmaxFamily) else None
