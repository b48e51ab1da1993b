"""Clusters of devices that are correlated beyond the shared clock."""

from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from scipy.special import ndtri
from scipy.stats import t

from fedtide.fleet.diagnosis.nulls import Chains, Evidence, chunks, clocked, evidence, read_clock
from fedtide.fleet.model import Cluster
from fedtide.fleet.process.normal import coupling
from fedtide.fleet.process.waves import waves
from fedtide.fleet.slots import Slots

MOST = 1000  # devices among which clusters are searched; the others are then assigned to them
SIMULATED = 40  # fleets of independent devices for the null distribution
LEVEL = 0.025  # probability to find any cluster in a fleet without clusters
_TYPICAL = 0.25  # correlation of members: pairs whose error is larger count for less


class Togetherness(NamedTuple):
    """Clusters, the cluster of each device (−1 for none), and the correlation of all pairs."""

    clusters: tuple[Cluster, ...]
    membership: np.ndarray
    pair_correlation: tuple[float, float, float]  # mean signed correlation, and 95 % of it for independent devices


class _Pairs(NamedTuple):
    correlation: np.ndarray  # [n, n] signed, over the rounds in which both were observed; 0 where these are too few
    sure: np.ndarray  # [n, n] shrinkage in [0, 1]: stronger for few rounds, or long runs


def together(slots: Slots, presence: np.ndarray, seed: int = 0) -> Togetherness:
    """Clusters by average linkage of the devices' signed correlations, the shared clock removed.

    Each device's own habit over the day is removed too: devices that charge at the same hour every night do not have
    a common cause. The tree is cut where it would give a group of three or more in 2.5 % of simulated fleets of
    independent devices with the same clock, runs and missing rounds. `presence` [N] is each device's π.
    """
    devices = slots.state.shape[1]
    nobody = Togetherness((), np.full(devices, -1, np.int32), (0.0, 0.0, 0.0))
    # Devices with enough transitions for a correlation.
    which = np.flatnonzero(evidence(slots, np.arange(devices)).testable)
    if len(which) < 3:
        return nobody
    observed = slots.observed.sum(0)
    some = which if len(which) <= MOST else np.sort(which[np.argsort(-observed[which], kind="stable")[:MOST]])
    found, chains, left, pairs = _look(slots, some)
    generator = np.random.default_rng([seed, 0xC1057E])
    means, heights = _by_chance(found, chains, generator)
    # The mean of many pairs is nearly normal: a prediction interval from few simulations.
    width = float(t.ppf(0.975, len(means) - 1) * np.std(means, ddof=1) * np.sqrt(1 + 1 / len(means)))
    overall = (_mean(pairs), float(np.mean(means)) - width, float(np.mean(means)) + width)
    # Cut below the lowest 2.5 % of heights by chance: the level is that of finding any group.
    groups = fcluster(_tree(pairs), float(np.quantile(heights, LEVEL)) - 1e-9, "distance")
    kept = [np.flatnonzero(groups == g) for g in np.unique(groups)]
    kept = _merged([g for g in kept if len(g) >= 3], pairs)
    if not kept:
        return nobody._replace(pair_correlation=overall)
    membership = _assigned(slots, which, some, kept, left, found.seen[:, 0], devices)
    low, high = (1 - np.quantile(heights, [1 - LEVEL, LEVEL])).tolist()
    clusters = (
        _cluster(slots, f"cluster {c + 1}", np.flatnonzero(membership == c), presence, (low, high))
        for c in range(len(kept))
    )
    return Togetherness(tuple(clusters), membership, overall)


def _look(slots: Slots, which: np.ndarray) -> tuple[Evidence, Chains, np.ndarray, _Pairs]:
    """Record, fitted chains, residuals from the clock, and correlations of these devices."""
    found = evidence(slots, which)
    chains = clocked(found)
    left = _residual(found.here, found, chains.presence)
    chains = chains._replace(correlation=np.maximum(chains.correlation, _persistence(left, found)))
    return found, chains, left, _correlate(left, found.seen[:, 0], chains.correlation)


def _residual(here: np.ndarray, found: Evidence, presence: np.ndarray) -> np.ndarray:
    """float32 [T, n]: residuals of the state from clock, level and the device's own habit; 0 where unknown.

    The habit is two harmonics of the day, by least squares over the device's observed rounds, where a record has three
    days or more; always its mean.
    """
    known = found.seen[:, 0].astype(np.float32)
    left = known * (here[:, 0] - presence).astype(np.float32)
    basis = _waves(found.days, found.clock.seconds).astype(np.float32)
    count = basis.shape[1]
    products = (basis[:, :, None] * basis[:, None, :]).reshape(len(known), -1)
    gram = (known.T @ products).reshape(-1, count, count) + 1e-3 * np.eye(count)
    habit = np.linalg.solve(gram, (left.T @ basis)[:, :, None])[:, :, 0]  # [n, waves]
    return left - known * (basis @ habit.T).astype(np.float32)


def _waves(days: float, seconds: np.ndarray) -> np.ndarray:
    """[rounds, waves] a constant, and two harmonics of the day where there are days enough."""
    return np.column_stack([np.ones(len(seconds)), waves(seconds, 4 if days >= 3 else 0)])


def _persistence(left: np.ndarray, found: Evidence) -> np.ndarray:
    """[n] λ from the autocorrelation at about three hours: runs may be longer than those of a chain with the lag-1
    correlation, which increases correlations by chance."""
    lag = max(1, min(round(3 / found.hours), len(left) // 4))
    seen = found.seen[:, 0]
    both = seen[lag:] & seen[:-lag]
    later = (left[lag:] * left[:-lag]).sum(0) / np.maximum(both.sum(0), 1)
    now = (left**2).sum(0) / np.maximum(seen.sum(0), 1)
    return np.clip(later / np.maximum(now, 1e-9), 0, 0.99) ** (1 / lag)


def _correlate(left: np.ndarray, seen: np.ndarray, runs: np.ndarray) -> _Pairs:
    known = seen.astype(np.float32)
    joint = known.T @ known
    power = (left**2).T @ known  # [n, n] of the first, over rounds that both have
    scale = np.sqrt(power * power.T)
    correlation = np.where(scale > 1e-6, (left.T @ left) / np.maximum(scale, 1e-6), 0)
    # Var r ≈ (1 + λλ') / (1 − λλ') / rounds for independent chains (Bartlett).
    product = np.clip(np.outer(runs, runs), 0, 0.99)
    variance = (1 + product) / (1 - product) / np.maximum(joint, 1)
    enough = joint >= 10
    sure = np.where(enough, _TYPICAL**2 / (_TYPICAL**2 + variance), 0)
    np.fill_diagonal(correlation, 1)
    return _Pairs(np.where(enough, np.clip(correlation, -1, 1), 0), sure)


def _tree(pairs: _Pairs) -> np.ndarray:
    distance = 1 - pairs.sure * pairs.correlation
    np.fill_diagonal(distance, 0)
    return linkage(squareform((distance + distance.T) / 2, checks=False), "average")


def _by_chance(found: Evidence, chains: Chains, generator: np.random.Generator) -> tuple[list[float], ...]:
    """For independent devices: the mean correlation, and the height at which the first group of three forms."""
    means, heights = [], []
    # Under the null of independence, clock and habits are estimated anew in each fleet, as they were in the record.
    for fleets in chunks(chains, len(found.here), SIMULATED, generator):
        clock = read_clock(fleets, found.seen, found.cells).presence  # [cells, fleets, devices]
        for f in range(fleets.shape[1]):
            here, presence = fleets[:, f : f + 1], clock[found.cells, f]
            pairs = _correlate(_residual(here, found, presence), found.seen[:, 0], chains.correlation)
            tree = _tree(pairs)
            means.append(_mean(pairs))
            heights.append(float(tree[np.argmax(tree[:, 3] >= 3), 2]))
    return means, heights


def _mean(pairs: _Pairs, rows: np.ndarray | None = None, columns: np.ndarray | None = None) -> float:
    """Mean correlation of pairs of different devices, of two groups or of all."""
    counted = (pairs.sure > 0) & ~np.eye(len(pairs.sure), dtype=bool)
    correlation = pairs.correlation
    if rows is not None:
        chosen = np.ix_(rows, rows if columns is None else columns)
        counted, correlation = counted[chosen], correlation[chosen]
    return float(correlation[counted].mean()) if counted.any() else 0.0


def _merged(groups: list[np.ndarray], pairs: _Pairs) -> list[np.ndarray]:
    """Merges groups that are as close to each other as they are within: noise has split them."""
    # The cut is chosen against false groups and may split true ones; between unrelated groups the ratio is about 0.
    groups = list(groups)
    while True:
        within = [_mean(pairs, g) for g in groups]
        closest = [
            (_mean(pairs, g, h) / min(within[i], within[j]), i, j)
            for i, g in enumerate(groups)
            for j, h in enumerate(groups[:i])
        ]
        ratio, i, j = max(closest, default=(0, 0, 0))
        if ratio < 0.6:
            return sorted(groups, key=len, reverse=True)
        groups[j] = np.concatenate([groups[j], groups.pop(i)])


def _assigned(
    slots: Slots, which: np.ndarray, some: np.ndarray, groups: list[np.ndarray],
    left: np.ndarray, seen: np.ndarray, devices: int,
) -> np.ndarray:  # fmt: skip
    """[N] the cluster with whose mean residual a device is most correlated, if significant; −1 otherwise."""
    membership = np.full(devices, -1, np.int32)
    for c, g in enumerate(groups):
        membership[some[g]] = c
    means = np.stack([left[:, g].sum(1) / np.maximum(seen[:, g].sum(1), 1) for g in groups], axis=1)  # [T, C]
    rest = which[membership[which] < 0]
    # Bonferroni over all pairs of a device and a cluster: a false member in 1 % of fleets.
    needed = -ndtri(0.01 / max(1, len(rest) * len(groups)))
    for at in range(0, len(rest), MOST):
        part = rest[at : at + MOST]
        found, chains, own, _ = _look(slots, part)
        known = found.seen[:, 0].astype(np.float32)
        power = np.sqrt((own**2).sum(0)[:, None] * (known.T @ means**2))
        r = (own.T @ means) / np.maximum(power, 1e-6)
        lag = np.clip((means[1:] * means[:-1]).sum(0) / np.maximum((means**2).sum(0), 1e-9), 0, 0.99)
        product = np.clip(np.outer(chains.correlation, lag), 0, 0.99)
        z = r * np.sqrt(known.sum(0)[:, None] * (1 - product) / (1 + product))
        # A device that follows the clock in its own way is slightly correlated with many: the effect must be large.
        best = np.where(r > 0.3, z, 0).argmax(1)
        row = np.arange(len(part))
        good = (z[row, best] > needed) & (r[row, best] > 0.3)
        membership[part[good]] = best[good]
    return membership


def _cluster(
    slots: Slots, name: str, members: np.ndarray, presence: np.ndarray, chance: tuple[float, float]
) -> Cluster:
    some = members[:: max(1, len(members) // 300)]
    _, _, left, pairs = _look(slots, some)
    first, second = np.triu_indices(len(some), 1)
    keep = slice(None, None, max(1, len(first) // 2000))
    pi = np.clip(presence[some], 1e-4, 1 - 1e-4)
    correlation = _mean(pairs)
    shared = coupling(correlation, pi[first][keep], pi[second][keep])
    hours = _relaxation(left, slots.round_seconds / 3600)
    return Cluster(name, tuple(members.tolist()), correlation, chance, shared, hours)


def _relaxation(left: np.ndarray, round_hours: float) -> float:
    """Relaxation time of the common part (hours): products of different members' residuals decay as ρ^lag."""
    lags = np.arange(0, min(len(left) // 4, max(2, round(3 / round_hours))) + 1)

    def cross(lag: int) -> float:
        now, later = left[: len(left) - lag], left[lag:]
        same = (now * later).sum()
        return float((now.sum(1) @ later.sum(1) - same) / max(len(now), 1))

    decay = np.array([cross(int(lag)) for lag in lags])
    keep = np.linspace(0.001, 0.9995, 1000)
    # Removing a mean and a habit takes as much from every lag as their estimates vary.
    removed = _waves(len(left) * round_hours / 24, np.zeros(1)).shape[1]
    lost = np.minimum(removed * (1 + keep) / (1 - keep) / len(left), 0.3)
    curves = keep[:, None] ** lags - lost[:, None]
    scale = (curves @ decay) / (curves**2).sum(1)
    best = keep[((scale[:, None] * curves - decay) ** 2).sum(1).argmin()]
    return float(-round_hours / np.log(best))
