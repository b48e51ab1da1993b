"""Posteriors of π and λ of each device given the population, on a grid adapted to the device."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import betaln, expit, logit

from fedtide.fleet.fitting.counts import Pairs

CHUNK = 1024  # devices at a time
POINTS = (49, 33)  # grid points over logit π, which may have long tails, and over log τ
REACH = 6.0  # of the grid, in posterior standard deviations


class Prior(NamedTuple):
    """The population: π ~ Beta(a, b), log τ ~ N(log hours, σ²), and a share that is never available."""

    a: float
    b: float
    hours: float
    sigma: float
    never: float


class PosteriorGrid(NamedTuple):
    """Grid points of each device, and the log likelihood at each."""

    u: np.ndarray  # [n, I] logit π
    v: np.ndarray  # [n, J] log τ
    log_likelihood: np.ndarray  # [n, I, J]


class Posterior(NamedTuple):
    """[N] each: posterior moments and quantiles, including the possibility of being never available."""

    availability: np.ndarray
    availability_se: np.ndarray
    availability_low: np.ndarray
    availability_high: np.ndarray
    correlation: np.ndarray
    correlation_se: np.ndarray
    correlation_low: np.ndarray
    correlation_high: np.ndarray
    on_given_on: np.ndarray
    on_given_on_se: np.ndarray
    on_given_off: np.ndarray
    on_given_off_se: np.ndarray
    never: np.ndarray  # probability of being never available


def log_likelihood(pairs: Pairs, u: np.ndarray, v: np.ndarray, round_hours: float) -> np.ndarray:
    """[n, I, J] at logit π = u [n, I] and log τ = v [n, J].

    The first observed state is stationary, then P(on | off) = (1 − λ^g) π and P(off | on) = (1 − λ^g)(1 − π) over a
    gap of g rounds, λ = exp(−Δ/τ): exact for a chain with rounds missing, whatever their pattern.
    """
    on, off = -np.logaddexp(0, -u), -np.logaddexp(0, u)  # log π, log(1 − π)
    pi = expit(u)[:, :, None]
    came = pairs.counts[:, 1].sum(0) + pairs.first[1]
    left = pairs.counts[:, 2].sum(0) + pairs.first[0]
    value = (came[:, None] * on + left[:, None] * off)[:, :, None] + np.zeros((1, 1, v.shape[1]))
    # A gap of unobserved rounds is one step of the g-step chain: summing over what happened in it gives λ^g.
    for gap, (off_off, off_on, on_off, on_on) in zip(pairs.gaps, pairs.counts, strict=True):
        redrawn = -np.expm1(-gap * round_hours * np.exp(-v))  # 1 − λ^g
        value += ((off_on + on_off)[:, None] * np.log(np.maximum(redrawn, 1e-300)))[:, None]
        redrawn = redrawn[:, None]
        value += off_off[:, None, None] * np.log(np.maximum(1 - redrawn * pi, 1e-300))
        value += on_on[:, None, None] * np.log(np.maximum(1 - redrawn * (1 - pi), 1e-300))
    return value


def log_prior(prior: Prior, u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the densities of logit π [n, I] and of log τ [n, J], for devices that are sometimes available."""
    of_u = -prior.a * np.logaddexp(0, -u) - prior.b * np.logaddexp(0, u) - betaln(prior.a, prior.b)
    z = (v - np.log(prior.hours)) / prior.sigma
    return of_u, -0.5 * z**2 - np.log(prior.sigma) - 0.5 * np.log(2 * np.pi)


def grid(
    pairs: Pairs, prior: Prior, round_hours: float, points: tuple[int, int] = POINTS, others: Sequence[Prior] = ()
) -> PosteriorGrid:
    """A grid around each device's posterior, for anything from two to ten thousand transitions.

    The mode and the curvature there give a first grid; its mean and standard deviation give the final one. Sums over
    it are integrals while a prior's σ is half of this one's or more, and its median not far outside of the grid; with
    `others` it covers the posteriors under all of them.
    """
    centre, spread = _mode(pairs, prior, round_hours)
    if others:
        middle, wide = _mixed(centre[1], spread[1], prior, others)
        centre, spread = (centre[0], middle), (spread[0], wide)
    steps = [np.linspace(-REACH, REACH, count) for count in points]
    found = None
    for _ in range(3 if len(others) > 1 else 2):
        u, v = (c[:, None] + s[:, None] * step for c, s, step in zip(centre, spread, steps, strict=True))
        found = PosteriorGrid(u, v, log_likelihood(pairs, u, v, round_hours))
        if others:
            weight, _, of_v = _believed(found, pairs, others)
        else:
            weight, _ = weights(found, prior)
            of_v = weight.sum(1)
        centre, spread = zip(_moments(u, weight.sum(2)), _moments(v, of_v), strict=True)
    assert found is not None
    return found


def _mixed(
    centre: np.ndarray, spread: np.ndarray, prior: Prior, others: Sequence[Prior]
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of log τ over the fleets, for likelihoods that are nearly normal: [n] each."""
    known = np.maximum(spread**-2 - prior.sigma**-2, 0)  # the precision of the record
    means, variances = [], []
    for other in others:
        variance = 1 / (known + other.sigma**-2)
        means.append(centre + variance / other.sigma**2 * np.log(other.hours / prior.hours))
        variances.append(variance)
    return np.mean(means, axis=0), np.sqrt(np.var(means, axis=0) + np.mean(variances, axis=0))


def weights(found: PosteriorGrid, prior: Prior) -> tuple[np.ndarray, np.ndarray]:
    """Posterior weights [n, I, J] that sum to 1, and the log marginal likelihood [n], for devices that are sometimes
    available."""
    of_u, of_v = log_prior(prior, found.u, found.v)
    joint = found.log_likelihood + of_u[:, :, None] + of_v[:, None, :]
    top = joint.max(axis=(1, 2), keepdims=True)
    weight = np.exp(joint - top)
    total = weight.sum(axis=(1, 2), keepdims=True)
    log_cell = np.log(found.u[:, 1] - found.u[:, 0]) + np.log(found.v[:, 1] - found.v[:, 0])
    return weight / total, (top + np.log(total))[:, 0, 0] + log_cell


def _believed(found: PosteriorGrid, pairs: Pairs, fleets: Sequence[Prior]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean over the fleets: posterior weights [n, I, J] of devices that are sometimes available, P(never available)
    [n], weights of log τ [n, J] of all devices. For a device that is never available, τ has the population's
    distribution."""
    weight, never, of_v = np.zeros(()), np.zeros(()), np.zeros(())
    for fleet in fleets:
        own, marginal = weights(found, fleet)
        gone = never_there(pairs, marginal, fleet.never)
        height = log_prior(fleet, found.u[:, :1], found.v)[1]
        plain = np.exp(height - height.max(1, keepdims=True))
        plain /= plain.sum(1, keepdims=True)
        weight = weight + own / len(fleets)
        never = never + gone / len(fleets)
        of_v = of_v + ((1 - gone)[:, None] * own.sum(1) + gone[:, None] * plain) / len(fleets)
    return weight, never, of_v


def silent(pairs: Pairs) -> np.ndarray:
    """[N] bool: observed, and available in no observed round."""
    on = pairs.first[1] + pairs.counts[:, [1, 3]].sum(axis=(0, 1))
    return (on == 0) & (pairs.first[0] > 0)


def posterior(pairs: Pairs, prior: Prior, round_hours: float, others: Sequence[Prior] = ()) -> Posterior:
    """The posterior of every device; one that was never observed has the population's distribution.

    `others` are equally likely alternatives to the fitted population: the posterior is then the mean over them.
    """
    parts = [_posterior(part, prior, others or (prior,), round_hours) for part in chunks(pairs)]
    return Posterior(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def chunks(pairs: Pairs, size: int = CHUNK) -> Iterator[Pairs]:
    devices = pairs.first.shape[1]
    return (pairs.of(slice(at, at + size)) for at in range(0, max(devices, 1), size))


def _posterior(pairs: Pairs, prior: Prior, fleets: Sequence[Prior], round_hours: float) -> Posterior:
    found = grid(pairs, prior, round_hours, others=fleets)
    weight, never, of_v = _believed(found, pairs, fleets)
    of_u = weight.sum(2)
    pi, lam = expit(found.u), np.exp(-round_hours * np.exp(-found.v))
    mean, mean_lam = (of_u * pi).sum(1), (of_v * lam).sum(1)
    square, square_lam = (of_u * pi**2).sum(1), (of_v * lam**2).sum(1)
    # π(1 − λ) and π + λ(1 − π), with the moments of a mixture whose never-available share is at 0.
    both = (weight * (pi[:, :, None] * lam[:, None, :])).sum(axis=(1, 2))
    come = pi[:, :, None] * (1 - lam[:, None, :])
    stay = lam[:, None, :] + come
    off_mean, off_square = (1 - never) * (mean - both), (1 - never) * (weight * come**2).sum(axis=(1, 2))
    on_mean, on_square = (weight * stay).sum(axis=(1, 2)), (weight * stay**2).sum(axis=(1, 2))
    low, high = (
        np.where(q <= never, 0, expit(_quantile(found.u, of_u, (q - never) / np.maximum(1 - never, 1e-12))))
        for q in (0.025, 0.975)
    )
    lam_low, lam_high = (
        np.exp(-round_hours * np.exp(-_quantile(found.v, of_v, np.full(len(mean), q)))) for q in (0.025, 0.975)
    )
    here = (1 - never) * mean
    return Posterior(
        here, _sd(here, (1 - never) * square), low, high,
        mean_lam, _sd(mean_lam, square_lam), lam_low, lam_high,
        on_mean, _sd(on_mean, on_square), off_mean, _sd(off_mean, off_square), never,
    )  # fmt: skip


def never_there(pairs: Pairs, marginal: np.ndarray, share: float) -> np.ndarray:
    """P(never available | record): 0 if available once, ω / (ω + (1 − ω) · marginal likelihood) otherwise."""
    if share == 0:
        return np.zeros(len(marginal))
    unseen = pairs.first.sum(0) == 0
    likely = expit(logit(share) - np.where(silent(pairs), marginal, 0))
    return np.where(silent(pairs), likely, np.where(unseen, share, 0.0))


def _mode(pairs: Pairs, prior: Prior, round_hours: float) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """The posterior's mode in (logit π, log τ) by damped Newton steps, and its standard deviations by curvature."""
    # Vectorised over a thousand devices, which SciPy's minimisers are not.
    h, devices = 1e-3, pairs.first.shape[1]
    at = np.stack([np.full(devices, logit(prior.a / (prior.a + prior.b))), np.full(devices, np.log(prior.hours))])

    def value(at: np.ndarray, step: float = 0.0) -> np.ndarray:
        """[n] at the point, or [n, 3, 3] at those around it."""
        shift = np.array([-step, 0, step]) if step else np.zeros(1)
        u, v = at[0][:, None] + shift, at[1][:, None] + shift
        of_u, of_v = log_prior(prior, u, v)
        found = log_likelihood(pairs, u, v, round_hours) + of_u[:, :, None] + of_v[:, None]
        return found if step else found[:, 0, 0]

    for _ in range(40):
        f = value(at, h)
        slope = np.stack([f[:, 2, 1] - f[:, 0, 1], f[:, 1, 2] - f[:, 1, 0]]) / (2 * h)
        uu, vv, uv = _curvature(f, h, prior.sigma)
        size = uu * vv - uv**2
        step = np.stack([vv * slope[0] - uv * slope[1], uu * slope[1] - uv * slope[0]]) / size
        step = step * np.minimum(1, 1.5 / np.maximum(np.abs(step).max(0), 1e-12))
        for _ in range(6):  # halved where the value would decrease
            worse = value(at + step) < f[:, 1, 1] - 1e-9
            if not worse.any():
                break
            step = np.where(worse, step / 2, step)
        else:
            step = np.where(value(at + step) < f[:, 1, 1] - 1e-9, 0, step)
        at = at + step
        if np.abs(step).max(initial=0) < 1e-4:
            break
    uu, vv, uv = _curvature(value(at, h), h, prior.sigma)
    size = uu * vv - uv**2
    # Without transitions the curvature in log τ may have the wrong sign; the posterior is about as wide as the prior.
    return tuple(at), (np.sqrt(vv / size), np.minimum(np.sqrt(uu / size), 1.5 * prior.sigma))


def _curvature(f: np.ndarray, h: float, sigma: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Minus the Hessian, made positive definite."""
    uu = np.maximum((2 * f[:, 1, 1] - f[:, 2, 1] - f[:, 0, 1]) / h**2, 1e-2)
    vv = np.maximum((2 * f[:, 1, 1] - f[:, 1, 2] - f[:, 1, 0]) / h**2, 0.5 / sigma**2)
    uv = -(f[:, 2, 2] + f[:, 0, 0] - f[:, 2, 0] - f[:, 0, 2]) / (4 * h**2)
    most = 0.95 * np.sqrt(uu * vv)
    return uu, vv, np.clip(uv, -most, most)


def _moments(points: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = (points * weight).sum(1)
    variance = ((points - mean[:, None]) ** 2 * weight).sum(1)
    # At least half a step of the grid, so that the next grid does not miss a posterior between two points.
    return mean, np.sqrt(np.maximum(variance, (0.5 * (points[:, 1] - points[:, 0])) ** 2))


def _quantile(points: np.ndarray, weight: np.ndarray, q: np.ndarray) -> np.ndarray:
    """[n] quantiles q [n] of weights of cells around equally spaced points, linear within a cell."""
    q = np.clip(q, 0, 1)
    upper = np.cumsum(weight, axis=1)
    cell = np.minimum((upper < q[:, None]).sum(1), points.shape[1] - 1)
    row = np.arange(len(points))
    inside = (q - (upper[row, cell] - weight[row, cell])) / np.maximum(weight[row, cell], 1e-300)
    return points[row, cell] + (np.clip(inside, 0, 1) - 0.5) * (points[:, 1] - points[:, 0])


def _sd(mean: np.ndarray, square: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(square - mean**2, 0))
