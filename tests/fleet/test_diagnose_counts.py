"""What is counted, on records small enough to count by hand."""

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from fedtide.fleet.diagnosis import rates
from fedtide.fleet.diagnosis.contrasts import above, apart, likelihood_ratio, pooled, rejections, tally, transitions
from fedtide.fleet.diagnosis.nulls import Chains, chunks, evidence, read_clock, simulate, steady
from fedtide.fleet.diagnosis.recurrence import autocorrelation
from fedtide.fleet.diagnosis.together import independent, number_available, variance_ratio
from fedtide.fleet.slots import Slots


def _found(record, round_seconds=1800, zone=None):
    record = np.asarray(record, np.int8)
    record = record[:, None] if record.ndim == 1 else record
    return evidence(Slots(record, (), round_seconds, 0, zone), np.arange(record.shape[1]))


def test_a_tally_counts_each_column_and_leaves_out_what_is_not_counted():
    code = np.array([[[0, 1], [2, 1]], [[0, 0], [2, 2]]], np.uint8)  # two rounds, two fleets, two devices
    counted = np.array([[[True, True]], [[True, False]]])
    found = tally(code, counted, 3)
    assert found.tolist() == [[[2, 0], [0, 0]], [[0, 1], [0, 1]], [[0, 0], [2, 0]]]


def test_triples_that_touch_a_gap_do_not_count():
    found = _found([1, 1, 0, -1, 0, 1, 1, 1])
    first, second, third = found.here[:-2], found.here[1:-1], found.here[2:]
    counted = found.seen[:-2] & found.seen[1:-1] & found.seen[2:]
    counts = transitions(first == second, second, second != third, counted, 2)[..., 0, 0]
    # 1 1 0 | 0 1 1 | 1 1 1: just changed → here, stays; unchanged → here, leaves once, stays once.
    assert counts.tolist() == [[[0, 0], [1, 0]], [[0, 0], [1, 1]]]


def test_the_likelihood_ratio_is_that_of_contingency_tables():
    counts = np.random.default_rng(0).integers(1, 30, (3, 2, 2, 1, 4))
    expected = [
        sum(chi2_contingency(counts[:, state, :, 0, k], lambda_="log-likelihood").statistic for state in (0, 1))
        for k in range(4)
    ]
    np.testing.assert_allclose(likelihood_ratio(counts)[0], expected, atol=1e-8)


def test_a_ratio_without_differences_is_zero():
    counts = np.ones((2, 2, 2, 1, 1), int) * np.array([3, 6])[:, None, None, None, None]
    assert likelihood_ratio(counts).item() == pytest.approx(0, abs=1e-9)
    assert pooled(counts)[0] == pytest.approx(np.ones((1, 2, 2)))
    assert pooled(counts)[1] == pytest.approx([0])


def test_pooling_compares_each_device_with_itself():
    # One device always changes and is only in group 0; the other never does and is only in group 1.
    counts = np.zeros((2, 2, 2, 1, 2), int)
    counts[0, 0, 1, 0, 0] = counts[1, 0, 0, 0, 1] = 10
    ratio = pooled(counts)[0][0, :, 0]
    assert ratio[0] == 1
    assert np.isnan(ratio[1])  # nothing expected, nothing found


def test_blocks_of_the_day_are_those_of_the_round_arrived_in():
    record = np.zeros(96, np.int8)
    record[12] = 1  # arrives at 6 h, leaves at 6:30
    measured = rates.measure_day(_found(record).here, _found(record))
    arrive, leave = measured.rates[0, :, 0], measured.rates[0, :, 1]
    assert arrive[1] == pytest.approx(1 / (23 / 94))  # of 94 pairs that begin away, 23 end between 6 and 12 h
    assert arrive[[0, 2, 3]] == pytest.approx(0)
    assert leave[1] == 1


@pytest.mark.parametrize("hours", [12, 47])
def test_a_record_under_two_days_says_nothing_about_the_day(hours):
    found = _found(np.zeros(2 * hours, np.int8))
    assert found.day_unreadable("homogeneity") == ("homogeneity", "short record", (hours / 24,))


def test_ages_are_known_only_after_a_change():
    found = _found([1, 1, 0, 0, 0, -1, 0, 0, 1, 1])
    assert rates.ages(found.here, found.seen)[:, 0, 0].tolist() == [0, 0, 1, 2, 3, 0, 0, 0, 1, 2]


def test_runs_count_ends_seen_and_leave_out_unknown_beginnings():
    found = _found([1, 0, 0, 1, 0, 0, 0, -1, 0, 1, 1])
    table = rates.runs(found.here, found.seen, rates.ages(found.here, found.seen), 5)[0]
    # Absences: one of 2 rounds, one of 3 or more that is lost from sight. Stays: one of 1 round, one that goes on.
    assert table[0, 1].tolist() == [2, 0]
    assert table[0, 2].tolist() == [1, 1]
    assert table[0, 3].tolist() == [0, 0]
    assert table[1, 1].tolist() == [1, 1]
    assert table.sum() == 6


def test_survival_is_kaplan_and_meiers():
    table = np.zeros((6, 2), int)
    table[1:4] = [[80, 20], [30, 30], [20, 10]]  # 100 begin, 80 go on of which 20 are lost, …
    assert rates.survival(table) == pytest.approx([1, 0.8, 0.4, 0.4 * 2 / 3, np.nan, np.nan], nan_ok=True)


def test_autocorrelation_is_that_of_the_sums():
    generator = np.random.default_rng(1)
    record = generator.integers(-1, 2, (50, 3)).astype(np.int8)
    found = _found(record)
    seen = found.seen[:, 0]
    mean = np.array([record[seen[:, k], k].mean() for k in range(3)])
    z = np.where(seen, (record - mean) / np.sqrt(mean * (1 - mean)), 0)
    expected = [(z[: 50 - lag] * z[lag:]).sum() / (seen[: 50 - lag] & seen[lag:]).sum() for lag in range(8)]
    np.testing.assert_allclose(autocorrelation(found.here, found.seen, 7)[0], expected, atol=1e-5)
    assert expected[0] == pytest.approx(1)


def test_the_variance_of_the_number_available_by_hand():
    record = np.tile([[1, 0], [0, 1]], (1, 3))  # six devices at π = ½; three are here in each round: no variance
    record = np.concatenate([record, 1 - record])
    found = _found(record)
    number = number_available(found.here, found.seen)
    expected, variance = independent(found.here, found.seen)
    assert expected[:, 0].tolist() == [3] * 4
    assert variance[:, 0].tolist() == [1.5] * 4
    assert variance_ratio(number, expected, variance, np.full(4, 6)) == 0
    assert variance_ratio(number + 3, expected, variance, np.full(4, 6)) == pytest.approx(6)
    assert variance_ratio(number + 3, expected, variance, np.full(4, 4)) == 0  # too few were observed to count


def test_the_clock_meets_both_margins(chains, hide):
    found = _found(hide(chains(480, 30, 3, amplitude=0.8), 3))
    presence = read_clock(found.here, found.seen, found.cells).presence[found.cells, 0]
    here, seen = found.here[:, 0], found.seen[:, 0]
    np.testing.assert_allclose((presence * seen).sum(0), here.sum(0), rtol=0.02)
    for cell in range(24):
        rows = found.cells == cell
        assert (presence * seen)[rows].sum() == pytest.approx(here[rows].sum(), rel=0.02)


def test_simulated_chains_have_their_availability_and_correlation():
    chain = Chains(np.array([[0.3, 0.6]]), np.array([0.8, -0.3]))
    here = simulate(chain, 400, 200, np.random.default_rng(0)).astype(float)
    # 80,000 entries, effective sample sizes 8,900 and 150,000: ± 0.02 is more than four standard errors.
    assert here.mean((0, 1)) == pytest.approx([0.3, 0.6], abs=0.02)
    left = here - [0.3, 0.6]
    assert (left[1:] * left[:-1]).mean((0, 1)) / [0.21, 0.24] == pytest.approx([0.8, -0.3], abs=0.02)


def test_chains_are_fitted_to_pairs_that_were_observed():
    chain = steady(_found([0, 0, 1, 1, 1, 0, -1, 1, 1, 0, 0]))
    arrive, leave = 1 / 3, 2 / 5
    assert chain.correlation == pytest.approx([1 - arrive - leave])
    assert chain.presence[0] == pytest.approx([arrive / (arrive + leave)])


def test_fleets_come_in_chunks_of_bounded_size(monkeypatch):
    monkeypatch.setattr("fedtide.fleet.diagnosis.nulls.ENTRIES", 1000)
    chain = Chains(np.full((1, 5), 0.5), np.zeros(5))
    assert [len(part[0]) for part in chunks(chain, 50, 10, np.random.default_rng(0))] == [4, 4, 2]


def test_p_values_count_the_record_in():
    null = np.arange(19.0)
    assert above(100, null) == 1 / 20
    assert above(-1, null) == 1
    assert apart(100, null) == pytest.approx(0.1)
    assert apart(9, null) == 1
    found = rejections(np.array([[100.0, -1.0]]), np.stack([null, null], 1))
    assert found.p.tolist() == [1 / 20, 1]
    assert found.share == 0.5
    assert found.null.sum() == 0.5  # the largest simulated value of the second device


def test_order_needs_memory_of_two_rounds():
    found = _found(np.tile([1, 1, 0, 0], 30))  # knows its next state from the last two, not from the last
    measured = rates.measure_order(found.here, found)
    assert measured.ratio.item() == pytest.approx(2 * 118 * np.log(2), rel=0.01)
