"""Lengths of stays and absences beyond their mean, and devices as different as the fleet's."""

import numpy as np
import pytest

from fedtide.fleet import Lengths, Slots
from fedtide.fleet.lengths import lengths
from fedtide.fleet.model import Profile
from fedtide.fleet.runs import again, law
from fedtide.fleet.spread import spread_out, stretched
from fedtide.fleet.together import pair_correlation

FLAT = Profile(np.zeros(24), np.zeros(24), np.zeros(24), None)


def slots_of(state) -> Slots:
    state = np.asarray(state, np.int8)
    return Slots(state, tuple(map(str, range(state.shape[1]))), 1800, 0, None)


@pytest.mark.parametrize("lengths", [None, Lengths(0.7, 0.5, 6.0, 4), Lengths(0.0, 1.0, 1.0, 64)])
def test_a_law_has_exactly_the_wanted_mean(lengths):
    mean = np.r_[1.0, 1.001, np.geomspace(1.2, 3000, 50)]
    found = law(mean, lengths, 0.5)
    np.testing.assert_allclose(found.brief * found.short + (1 - found.brief) * found.long, mean, rtol=1e-12)
    assert ((found.brief >= 0) & (found.brief < 1) & (found.short >= 1)).all()
    assert (found.stages <= found.long + 1e-6).all()  # a stage takes a round or more
    assert found.stages.min() >= 1


def test_changes_without_a_clock_are_those_of_a_chain():
    pi, lam = np.array([0.1, 0.5, 0.9]), np.array([0.3, 0.8, 0.99])
    found = again(pi, np.ones(3), np.zeros(48)).changes(pi, lam)
    np.testing.assert_allclose(found, pi * (1 - pi) * (1 - lam), rtol=1e-12)


def test_true_chains_stay_chains(chains, hide):
    """Each fails with probability 1/60; two of six do with probability 0.4 %."""
    found = []
    for seed in range(6):
        drawn = np.random.default_rng([seed, 0])
        pi, lam = drawn.uniform(0.1, 0.5, 40), drawn.uniform(0.4, 0.85, 40)  # as `chains` draws them
        record = hide(chains(300, 40, seed), seed)
        found.append(lengths(slots_of(record), FLAT, pi, -0.5 / np.log(lam), seed))
    assert sum(each is not None for each in found) <= 1


def test_too_few_runs_are_taken_for_a_chains(chains):
    assert lengths(slots_of(chains(60, 5, 0)), FLAT, np.full(5, 0.3), np.full(5, 1.5)) is None
    assert lengths(slots_of(np.zeros((60, 5))), FLAT, np.zeros(5), np.full(5, 1.5)) is None


def test_stretched_estimates_vary_as_the_truth():
    """Normal truths of variance 1, seen with errors of variance 1: posterior means vary by half."""
    generator = np.random.default_rng(0)
    truth = generator.standard_normal(20_000)
    means = (truth + generator.standard_normal(20_000)) / 2
    wide = stretched(means, np.full(20_000, np.sqrt(0.5)), np.ones(20_000, bool))
    # A variance of 20,000 normal values has a standard error of 1 %: 5.5 of them.
    assert abs(wide.var() - 1) < 0.055
    assert wide.mean() == pytest.approx(means.mean())
    np.testing.assert_array_equal(stretched(means[:1], np.ones(1), np.ones(1, bool)), means[:1])


def test_spread_devices_come_and_go_as_often_as_recorded():
    generator = np.random.default_rng(1)
    pi, lam, pairs = generator.uniform(0.1, 0.6, 50), generator.uniform(0.5, 0.9, 50), np.full(50, 200)
    ever = np.arange(50) > 0
    changes = round(1.05 * 2 * (pairs * pi * (1 - pi) * (1 - lam)).sum())
    wide, hours = spread_out(pi, np.full(50, 0.05), lam, np.full(50, 0.05), ever, pairs, changes, 0.5)
    assert 2 * (pairs * wide * (1 - wide) * (1 - np.exp(-0.5 / hours))).sum() == pytest.approx(changes, rel=1e-6)
    assert wide[0] == pi[0]
    assert wide[1:].std() > pi[1:].std()


def test_correlation_of_pairs_with_whatever_moves_them():
    one = np.tile([1, 1, 0, 0, 0, 1], 16)
    assert pair_correlation(slots_of(np.stack([one, one], 1))) == pytest.approx(1, rel=1e-5)
    assert pair_correlation(slots_of(np.stack([one, 1 - one], 1))) == pytest.approx(-1, rel=1e-5)
    hidden = np.stack([one, one, 1 - one], 1)
    hidden[:, 2] = -1
    assert pair_correlation(slots_of(hidden)) == pytest.approx(1, rel=1e-5)
    assert pair_correlation(slots_of(np.ones((60, 3)))) == 0
