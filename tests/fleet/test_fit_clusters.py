import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from fedtide.fleet import Slots
from fedtide.fleet.fitting.clusters import together
from fedtide.fleet.process.normal import both_here, coupling

DAY = 1 + 0.6 * np.sin(np.arange(24) * np.pi / 12)
ROUNDS, DEVICES = 14 * 24, 60  # hours


def fleet(seed: int, sizes: tuple[int, ...] = (), r: float = 0.7) -> tuple[Slots, np.ndarray, np.ndarray]:
    """A strong daily cycle, runs, late starts; the first devices in clusters of these sizes."""
    generator = np.random.default_rng([seed, 5])
    pi = generator.beta(3, 6, DEVICES)
    member = np.repeat(np.arange(-1, len(sizes)), [0, *sizes])
    member = np.r_[member, np.full(DEVICES - len(member), -1)]
    share = np.where(member >= 0, r, 0)
    own, common = generator.standard_normal(DEVICES), generator.standard_normal(len(sizes) + 1)
    state = np.empty((ROUNDS, DEVICES), np.int8)
    for t in range(ROUNDS):
        latent = np.sqrt(share) * common[member] + np.sqrt(1 - share) * own
        state[t] = norm.cdf(latent) < np.minimum(pi * DAY[t % 24], 1)
        own = np.where(generator.random(DEVICES) < 0.6, own, generator.standard_normal(DEVICES))
        common = np.where(generator.random(len(common)) < 0.6, common, generator.standard_normal(len(common)))
    state[np.arange(ROUNDS)[:, None] < generator.integers(0, ROUNDS // 4, DEVICES)] = -1
    return Slots(state, tuple(map(str, range(DEVICES))), 3600, 0, "UTC"), pi, member


def rand_index(a: np.ndarray, b: np.ndarray) -> float:
    """Adjusted for chance."""
    table = np.zeros((a.max() + 2, b.max() + 2))
    np.add.at(table, (a + 1, b + 1), 1)
    both, rows, columns, every = ((x * (x - 1) / 2).sum() for x in (table, table.sum(1), table.sum(0), table.sum()))
    return (both - rows * columns / every) / ((rows + columns) / 2 - rows * columns / every)


def test_planted_clusters_are_found():
    slots, pi, member = fleet(0, (12, 8, 5))
    found = together(slots, pi)
    assert rand_index(member, found.membership) > 0.9
    assert len(found.clusters) == 3
    for c, cluster in enumerate(found.clusters):
        assert cluster.members == tuple(np.flatnonzero(found.membership == c))
        assert cluster.correlation > cluster.null[1] > cluster.null[0]
        # Latent share .7 and 2 hours (−1 / log .6), from two weeks: within a factor that a few dozen spells allow.
        assert 0.45 < cluster.coupling < 0.9
        assert 0.7 < cluster.hours < 4.5
    mean, _, high = found.pair_correlation
    assert mean > high


def test_a_daily_cycle_is_not_a_cluster():
    # The chance to find one is 2.5 % in a fleet: two or more among 4 fleets fail by chance in 1 of 280.
    found = [together(*fleet(10 + seed)[:2], seed) for seed in range(4)]
    assert sum(bool(f.clusters) for f in found) <= 1
    # Outside of a 95 % band: 3 or more of 4 by chance in 1 of 2,000.
    assert sum(not f.pair_correlation[1] <= f.pair_correlation[0] <= f.pair_correlation[2] for f in found) <= 2


def test_too_few_devices_for_a_cluster():
    slots, pi, _ = fleet(0)
    two = Slots(slots.state[:, :2], ("a", "b"), 3600, 0, "UTC")
    assert together(two, pi[:2]).clusters == ()


@pytest.mark.parametrize("r", [0.0, 0.3, 0.9, 0.99])
def test_two_presences(r: float):
    p, q = np.array([0.01, 0.2, 0.5, 0.9]), np.array([0.3, 0.1, 0.5, 0.95])
    cuts = np.stack([norm.ppf(p), norm.ppf(q)], axis=1)
    expected = [multivariate_normal.cdf(cut, cov=[[1, r], [r, 1]]) for cut in cuts]
    np.testing.assert_allclose(both_here(p, q, r), expected, atol=2e-6)


def test_the_edges_of_two_presences():
    np.testing.assert_allclose(both_here([0.0, 1.0, 0.4, 0.3], [0.5, 0.5, 1.0, 0.6], 0.5)[:3], [0, 0.5, 0.4])
    np.testing.assert_allclose(both_here(np.array([0.2, 0.3]), np.array([0.2, 0.6]), 1.0), [0.2, 0.3], atol=1e-4)


def test_coupling_inverts_the_correlation():
    p, q = np.array([0.2, 0.5]), np.array([0.3, 0.4])
    implied = ((both_here(p, q, 0.37) - p * q) / np.sqrt(p * (1 - p) * q * (1 - q))).mean()
    assert coupling(implied, p, q) == pytest.approx(0.37, abs=1e-6)
    assert coupling(-0.1, p, q) == 0
