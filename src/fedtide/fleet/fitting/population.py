"""The population of a fleet: the distribution of devices with the largest marginal likelihood."""

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, expit

from fedtide.fleet.fitting.chain import PosteriorGrid, Prior, chunks, grid, never_there, silent, weights
from fedtide.fleet.fitting.counts import Pairs
from fedtide.fleet.model import Distribution

MOST = 3000  # devices on which the distribution is fitted, at most
FIRST = 300  # devices with which the search starts
LEAST = 50  # devices with transitions, for sandwich errors instead of the model's
FEW = 1500  # devices up to which the population's uncertainty matters for the intervals of devices
_WEAK = ((0.0, 2.5), (np.log(6.0), 2.0), (0.0, 3.0), (np.log(0.6), 1.0), (-2.0, 3.0))
"""Centres and standard deviations of weak normal priors on logit of the mean, log(a + b), log median hours, log σ and
logit of the share never available. They keep the fit of one device finite, with less weight than one device."""


_REGION = np.array([[-0.7, -0.5, -1.5, -0.6, -2.0], [0.7, 0.5, 1.5, 0.45, 2.0]])
"""How far a search may go on one set of grids; log median in units of σ. A grid is as fine as its posterior is wide:
with a much smaller σ, the prior would be resolved by a single point."""
_SIGMA = 0.03  # the minimum: no record can distinguish relaxation times that differ by 3 %
_ROUNDS = 40


class FittedPopulation(NamedTuple):
    """The fitted population, and alternatives that represent its uncertainty."""

    prior: Prior
    others: tuple[Prior, ...]  # equally likely; none for fits on many devices
    distribution: Distribution


def population(pairs: Pairs, round_hours: float, seed: int = 0) -> FittedPopulation:
    """Fits π ~ Beta(a, b), log τ ~ N(log m, σ²) and a share ω never available by marginal likelihood.

    Each device's likelihood is integrated over its own grid; the maximum is found with the exact gradient, the
    posterior mean of the prior's score (which EM's steps set to 0), in steps: grids are computed again where the
    distribution has moved, until it converges. Standard errors are the sandwich H⁻¹ J H⁻¹ with J the sum of squared
    scores of devices, which is valid for devices that are not exactly chains.
    """
    seen = np.flatnonzero(pairs.first.sum(0) > 0)
    random = np.random.default_rng([seed, 0xF1EE7])
    if len(seen) > MOST:
        seen = np.sort(random.choice(seen, MOST, replace=False))
    some = pairs.of(seen)
    quiet = silent(some)
    point = np.array([centre for centre, _ in _WEAK])
    point[2] = np.log(max(1.0, 3 * round_hours))
    weak = (point.copy(), np.array([sd for _, sd in _WEAK]))
    if not quiet.any():
        point[4] = -30.0  # no device is: not estimated
    free = 5 if quiet.any() else 4
    if len(seen) > 2 * FIRST:
        few = some.of(np.sort(random.choice(len(seen), FIRST, replace=False)))
        point, _ = _climb(few, point, weak, free, round_hours)
    point, grids = _climb(some, point, weak, free, round_hours)
    covariance = _covariance(grids, point, weak, free)
    # Intervals of devices that treat the population as known are too narrow. These points have the mean and the
    # covariance of the fit (sigma points; Julier and Uhlmann, Proc. IEEE 2004).
    scale, turn = np.linalg.eigh(covariance[:free, :free])
    moves = (turn * np.sqrt(np.maximum(scale, 0) * free)).T
    around = (np.r_[point[:free] + sign * move, point[free:]] for move in moves for sign in (1, -1))
    others = tuple(map(_prior, around)) if len(seen) <= FEW else ()
    return FittedPopulation(_prior(point), others, _distribution(point, covariance, int(quiet.sum()), len(seen)))


def _climb(
    some: Pairs, point: np.ndarray, weak: tuple[np.ndarray, np.ndarray], free: int, round_hours: float
) -> tuple[np.ndarray, list[tuple[PosteriorGrid, Pairs]]]:
    """The maximum, and grids computed there."""
    grids: list[tuple[PosteriorGrid, Pairs]] = []
    devices, fixed = some.first.shape[1], point[free:]

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, scores = _marginal(grids, np.r_[x, fixed], weak)
        return -value, -scores.sum(0)[:free]

    for _ in range(_ROUNDS):
        prior = _prior(point)
        grids = [(grid(part, prior, round_hours, (49, 25)), part) for part in chunks(some)] if devices else []
        low, high = point + _REGION * np.array([1, 1, min(prior.sigma, 1), 1, 1])
        low[3] = max(low[3], np.log(_SIGMA))
        bounds = list(zip(low[:free], high[:free], strict=True))
        options = {"gtol": 1e-3 * max(devices, 1) ** 0.5}
        found: Any = minimize(objective, point[:free], jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        moved = np.abs(found.x - point[:free]).max()
        point = np.r_[found.x, fixed]
        if moved < 0.02:
            break
    return point, grids


def _prior(point: np.ndarray) -> Prior:
    mean, size = expit(point[0]), np.exp(point[1])
    return Prior(
        float(mean * size), float((1 - mean) * size), float(np.exp(point[2])), float(np.exp(point[3])),
        float(expit(point[4])) if point[4] > -29 else 0.0,
    )  # fmt: skip


def _marginal(
    grids: list[tuple[PosteriorGrid, Pairs]], point: np.ndarray, weak: tuple[np.ndarray, np.ndarray]
) -> tuple[float, np.ndarray]:
    """The penalised log marginal likelihood and its scores: [n + 1, 5], one row per device and one for the weak
    prior."""
    prior = _prior(point)
    z = (point - weak[0]) / weak[1]
    z[4] = 0 if prior.never == 0 else z[4]
    value, scores = -0.5 * float((z**2).sum()), [(-z / weak[1])[None]]
    mean, size = expit(point[0]), np.exp(point[1])
    for cells, part in grids:
        weight, marginal = weights(cells, prior)
        of_u, of_v = weight.sum(2), weight.sum(1)
        on = -(of_u * np.logaddexp(0, -cells.u)).sum(1) - digamma(prior.a) + digamma(size)
        off = -(of_u * np.logaddexp(0, cells.u)).sum(1) - digamma(prior.b) + digamma(size)
        deviation = (cells.v - point[2]) / prior.sigma
        first, second = (of_v * deviation).sum(1), (of_v * deviation**2).sum(1)
        never = never_there(part, marginal, prior.never)
        quiet = silent(part)
        sometimes = np.log1p(-prior.never) + marginal
        either = np.logaddexp(np.log(max(prior.never, 1e-300)), sometimes)  # never available, or only not seen so
        value += np.where(quiet & (prior.never > 0), either, sometimes).sum()
        slopes = [
            mean * (1 - mean) * size * (on - off),
            size * (mean * on + (1 - mean) * off),
            first / prior.sigma,
            second - 1,
        ]
        scores.append(np.stack([*((1 - never) * s for s in slopes), never - prior.never], axis=1))
    return float(value), np.concatenate(scores)


def _covariance(
    grids: list[tuple[PosteriorGrid, Pairs]], point: np.ndarray, weak: tuple[np.ndarray, np.ndarray], free: int
) -> np.ndarray:
    """[5, 5] sandwich covariance; zero for fixed parameters."""
    # Central differences of the exact gradient: one order more accurate than second differences of the value.
    h, hessian = 1e-3, np.zeros((free, free))
    for i in range(free):
        move = np.zeros(5)
        move[i] = h
        up, down = (_marginal(grids, point + sign * move, weak)[1].sum(0)[:free] for sign in (1, -1))
        hessian[i] = (up - down) / (2 * h)
    # At least the prior's information in each direction, whatever the curvature at a border is.
    scale = weak[1][:free]
    known, turn = np.linalg.eigh(-(hessian + hessian.T) / 2 * np.outer(scale, scale))
    information = (turn * np.maximum(known, 1)) @ turn.T / np.outer(scale, scale)
    scores = _marginal(grids, point, weak)[1][:, :free]
    # The weak prior's curvature is part of J as of H: it acts as one more observation.
    spread = scores[1:].T @ scores[1:] + np.diag(1 / weak[1][:free] ** 2)
    movers = sum(int((part.counts[:, 1:3].sum(axis=(0, 1)) > 0).sum()) for _, part in grids)
    if not movers:  # no transitions: the record has no information about τ
        information[2, :], information[:, 2] = 0, 0
        information[2, 2] = 1 / weak[1][2] ** 2
    if movers < LEAST:  # too few squared scores for the sandwich: the model's errors
        spread = information
    # White, "Maximum likelihood estimation of misspecified models", Econometrica 1982.
    inverse = np.linalg.inv(information)
    covariance = np.zeros((5, 5))
    covariance[:free, :free] = inverse @ spread @ inverse
    return covariance


def _distribution(point: np.ndarray, covariance: np.ndarray, quiet: int, devices: int) -> Distribution:
    prior = _prior(point)
    mean, size = expit(point[0]), np.exp(point[1])
    slope = mean * (1 - mean) * size
    of_a, of_b = np.array([slope, mean * size, 0, 0, 0]), np.array([-slope, (1 - mean) * size, 0, 0, 0])
    se_a, se_b = (float(np.sqrt(max(g @ covariance @ g, 0))) for g in (of_a, of_b))
    never_se = prior.never * (1 - prior.never) * np.sqrt(max(covariance[4, 4], 0))
    # With no such device, the standard deviation of a share that n draws did not contain.
    return Distribution(
        (prior.a, prior.b),
        (se_a, se_b),
        (prior.hours, prior.sigma),
        (float(prior.hours * np.sqrt(covariance[2, 2])), float(prior.sigma * np.sqrt(covariance[3, 3]))),
        prior.never,
        float(never_se) if quiet else 1 / (devices + 1),
    )
