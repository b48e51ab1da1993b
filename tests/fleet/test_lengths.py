"""Lengths of stays and absences beyond their mean, and devices as different as the fleet's."""

import numpy as np
import pytest

from fedtide.fleet import Fleet, Lengths, Slots
from fedtide.fleet.diagnosis.together import pair_correlation
from fedtide.fleet.fitting.counts import DeviceCounts, Pairs
from fedtide.fleet.fitting.fit import spread_out, stretched
from fedtide.fleet.fitting.lengths import lengths, supported
from fedtide.fleet.model import Profile
from fedtide.fleet.process.run_lengths import again, expected, law
from fedtide.fleet.process.simulable import going_on, whole_runs

FLAT = Profile(np.zeros(24), np.zeros(24), np.zeros(24), None)


def slots_of(state) -> Slots:
    state = np.asarray(state, np.int8)
    return Slots(state, tuple(map(str, range(state.shape[1]))), 1800, 0, None)


CLASSES = Lengths((0.3, 0.6, 1.5, 4.0, 12.0, 40.0), (0.3, 0.2, 0.2, 0.2, 0.1))


@pytest.mark.parametrize("lengths", [CLASSES, Lengths((1.0, 1.2), (1.0,))])
def test_a_law_has_exactly_the_wanted_mean(lengths):
    mean = np.r_[1.0, 1.001, np.geomspace(1.2, 3000, 50)]
    found = law(mean, lengths, 0.5)
    np.testing.assert_allclose((found.share * expected(found.edges, found.scale)).sum(1), mean, rtol=1e-8)
    np.testing.assert_allclose(found.share.sum(1), 1)
    assert found.share.min() >= 0


def test_who_stays_longer_has_more_of_the_long_stays():
    typical, short, long = law(np.array([6.0, 4.0, 9.0]), CLASSES, 0.5).share
    assert (np.diff(long / typical) > 0).all()
    assert (np.diff(short / typical) < 0).all()


def test_runs_drawn_have_the_mean_of_their_law_and_are_met_in_proportion_to_their_length():
    mean = np.array([1.3, 4.0, 30.0])
    one, generator = law(mean, CLASSES, 0.5), np.random.default_rng(0)
    owner = np.repeat(np.arange(3), 40_000)
    whole = whole_runs(one, owner, generator).reshape(3, -1)
    left = going_on(one, owner, generator).reshape(3, -1)
    assert whole.min() == left.min() == 1
    error = whole.std(1) / 200
    assert (np.abs(whole.mean(1) - mean) < 5.5 * error).all()  # standard errors
    # A run of L rounds is met with probability L / ΣL, at any of its rounds: (E L² / E L + 1) / 2 are left on average.
    rest = ((whole.astype(float) ** 2).mean(1) / mean + 1) / 2
    spread = np.sqrt(left.var(1) + (whole.astype(float) ** 2).var(1) / (2 * mean) ** 2) / 200
    assert (np.abs(left.mean(1) - rest) < 5.5 * spread).all()


def test_any_thresholds_with_the_clocks_values_are_the_clock():
    pi, swing, clock = (
        np.array([0.1, 0.5, 0.8]),
        np.array([1.0, 0.9, 0.3]),
        0.6 * np.sin(np.arange(48) / 48 * 2 * np.pi),
    )
    # Its parts written out for thresholds π (1 + swing · clock).
    least, up, down = np.minimum(clock, np.roll(clock, -1)), np.maximum(clock, 0), np.minimum(clock, 0)
    stay, beyond = pi * (1 + swing * np.minimum(least, 0).mean()), pi * swing * np.maximum(least, 0).mean()
    crossing = (down * np.roll(up, -1)).mean() + (up * np.roll(down, -1)).mean()
    between = pi / (1 - pi) * (2 * swing * up.mean() + swing**2 * crossing)
    found = again(pi, pi[:, None] * (1 + swing[:, None] * clock))
    np.testing.assert_allclose(found.never_changing, stay + beyond, rtol=1e-9)
    np.testing.assert_allclose(found.slope, stay / pi + beyond / (1 - pi) - between, rtol=1e-9)


def test_changes_without_a_clock_are_those_of_a_chain():
    pi, lam = np.array([0.1, 0.5, 0.9]), np.array([0.3, 0.8, 0.99])
    found = again(pi, np.repeat(pi[:, None], 48, 1)).changes(pi, lam)
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


def test_spread_devices_are_here_and_change_as_often_as_recorded():
    generator = np.random.default_rng(1)
    pi, lam, observed = generator.uniform(0.05, 0.9, 50), generator.uniform(0.3, 0.9, 50), np.full(50, 201)
    here = np.round(0.97 * pi * observed).astype(int)
    here[0] = 0
    pairs = observed - 1
    moves = np.rint(2 * pairs * pi * (1 - pi) * (1 - lam))
    changes = int(moves.sum())
    transitions = Pairs(np.zeros((2, 50)), np.ones(1), np.stack([pairs - moves, moves, 0 * moves, 0 * moves])[None])
    counts = DeviceCounts(observed, here, moves, transitions)
    wide, hours = spread_out(pi, np.full(50, 0.05), lam, np.full(50, 0.05), counts, 0.5)
    assert (wide * observed)[1:].sum() == pytest.approx(here.sum(), rel=1e-6)
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


def longest(here: np.ndarray) -> np.ndarray:
    """[devices] rounds of the longest run of Trues, whether or not its ends were seen; [rounds, devices]."""
    run = most = np.zeros(here.shape[1], int)
    for row in here:
        run = (run + 1) * row
        most = np.maximum(most, run)
    return most


def test_classes_of_lengths_end_with_the_longest_run_and_those_with_none_near_have_no_support():
    record = np.zeros((2, 200), np.int8)
    record[0, :100] = record[1, [3, 7]] = 1
    record[1, 150:] = -1
    ends, near = supported(record, 1, 200)
    assert ends[0] == 0.5
    assert ends[-1] == 100
    held = near[np.searchsorted(ends, [1.0, 10.0, 30.0, 99.0], side="right") - 1]
    assert held.tolist() == [True, False, False, True]
    assert supported(0 * record, 1, 200)[0][-1] == 1  # nobody was there


def test_a_tilt_brings_back_no_length_that_was_never_seen():
    rare = Lengths((0.3, 0.6, 1.5, 4.0, 12.0, 40.0, 100.0), (0.5, 0.3, 0.1999, 0, 1e-4, 0))
    found = law(np.geomspace(1.0, 500, 40), rare, 0.5)
    assert found.share[:, [3, 5]].max() == 0
    assert (found.share / np.maximum(rare.share, 1e-12)).max() < 20 * (1 + 1e-9)
    assert found.scale.max() > 2
    np.testing.assert_allclose((found.share * expected(found.edges, found.scale)).sum(1), np.geomspace(1, 500, 40))


def test_no_device_stays_much_longer_than_any_was_seen_to():
    """Devices of many means, whose true runs are rarely longer than 16 hours."""
    generator = np.random.default_rng(1)
    pi, hours = generator.beta(1.2, 3, 100).clip(0.01, 0.98), generator.lognormal(0.7, 0.7, 100)
    classes = ((0.25, 0.5, 1, 2, 4, 8, 16), (0.45, 0.1, 0.05, 0.05, 0.15, 0.2))
    record = Fleet(pi, hours, stays=classes, absences=classes).sample(5, 480)
    found = lengths(slots_of(record), FLAT, pi, hours)
    assert found is not None
    again, rare = Fleet(pi, hours, stays=found[0], absences=found[1]), pi < 0.3
    drawn = max(longest(again.sample(seed, 480))[rare].max() for seed in range(8))
    # 60 rounds against 35; with a tilt without limits 81, with classes beyond what was seen, too, all 480.
    assert drawn < 2 * longest(record)[rare].max()
