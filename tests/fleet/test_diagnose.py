"""The findings: their level, their power, their words."""

import json

import numpy as np
import pytest

from fedtide.errors import InvalidInput
from fedtide.fleet import diagnose, resemble
from fedtide.fleet.diagnosis.findings import plain
from fedtide.fleet.diagnosis.nulls import rounds_until_known

NAMES = ("order", "homogeneity", "week", "dwell", "day_later", "together", "together_after_clock")


def _findings(model, **settings):
    return {finding.name: finding for finding in diagnose(model, **{"simulated": 39, **settings}).findings}


def test_tests_hold_their_level_with_missing_stretches(model_by_hand, chains, hide):
    """20 fleets of 60 chains, 400 rounds. Of 1,200 devices 5 % are to reject: ± 0.02 is three standard errors
    (error rate 0.3 %). A finding of a fleet rejects with probability 5 %: more than 5 of 20 has probability 0.03 %."""
    fleets = [_findings(model_by_hand(hide(chains(400, 60, seed), seed)), seed=seed) for seed in range(20)]
    for name in ("order", "homogeneity"):
        assert np.mean([found[name].statistic for found in fleets]) == pytest.approx(0.05, abs=0.02)
    for name in NAMES:
        if name != "week":
            assert sum(not found[name].holds for found in fleets) <= 5, name


def test_a_daily_cycle_is_found_and_explains_what_is_common(model_by_hand, chains, hide):
    found = _findings(model_by_hand(hide(chains(480, 60, 1, amplitude=0.8), 1)))
    for name in ("homogeneity", "day_later", "together"):
        assert found[name].holds is False, name
        assert found[name].statistic > found[name].null[1], name
    assert found["together_after_clock"].holds is True
    assert found["together_after_clock"].statistic < found["together"].statistic / 2


def test_second_order_is_found(model_by_hand):
    """Whoever changed stays at least one more round: P(change) depends on the round before."""
    generator = np.random.default_rng(2)
    here = np.zeros((400, 40), bool)
    for t in range(2, 400):
        change = np.where(here[t - 1] == here[t - 2], 0.3, 0.05)
        here[t] = here[t - 1] ^ (generator.random(40) < change)
    finding = _findings(model_by_hand(here))["order"]
    assert finding.holds is False
    assert finding.statistic > 0.5
    assert "the previous round matters" in finding.sentence


def test_stays_of_constant_length_are_found(model_by_hand):
    """Absences are geometric, every stay is of 6 rounds."""
    generator = np.random.default_rng(3)
    here, left = np.zeros((400, 40), bool), np.zeros(40, int)
    for t in range(400):
        left = np.where(left > 0, left - 1, np.where(generator.random(40) < 0.1, 6, 0))
        here[t] = left > 0
    finding = _findings(model_by_hand(here))["dwell"]
    assert finding.holds is False
    assert finding.figure.rates.leaving.recorded[0] == 0
    assert finding.figure.rates.leaving.recorded[3] > 1.5
    assert finding.figure.stays.recorded[5] == 1  # nobody leaves before


def test_devices_that_follow_one_another_are_found(model_by_hand, chains):
    shared = chains(480, 1, 4)
    here = np.where(np.random.default_rng(4).random((480, 40)) < 0.3, shared, chains(480, 40, 5))
    found = _findings(model_by_hand(here))
    assert found["together"].holds is False
    assert found["together_after_clock"].holds is False
    assert "besides the hour" in found["together_after_clock"].sentence


def test_weekends_are_compared_when_there_are_two_and_a_date(model_by_hand, chains):
    here = chains(48 * 21, 30, 6)
    weekend = (np.arange(48 * 21) // 48 + 3) % 7 >= 5  # day 0 of 1970 was a Thursday
    here[weekend] &= np.random.default_rng(6).random((weekend.sum(), 30)) < 0.5
    dated = _findings(model_by_hand(here, zone="UTC"), simulated=39)["week"]
    assert dated.holds is False
    assert "at weekends" in dated.sentence
    undated = _findings(model_by_hand(here), simulated=39)["week"]
    assert undated.holds is None
    assert "no date" in undated.sentence


def test_equal_seeds_equal_findings_and_figures_are_plain(model_by_hand, chains, hide):
    model = model_by_hand(hide(chains(200, 20, 7), 7))
    told: list[tuple[int, int]] = []
    found = diagnose(model, simulated=39, progress=lambda done, total: told.append((done, total)))
    first = plain(found)
    assert first == plain(diagnose(model, simulated=39))
    assert first != plain(diagnose(model, simulated=39, seed=1))
    assert told[-1] == (78, 78)
    assert tuple(finding.name for finding in found.findings) == NAMES
    json.dumps(first, allow_nan=False)


def test_large_fleets_are_sampled(model_by_hand, chains):
    found = diagnose(model_by_hand(chains(120, 50, 8)), simulated=39, most_devices=12)
    assert found.devices == 12
    assert "12 devices" in found.findings[0].sentence


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (np.zeros((200, 5)), "no device was observed both"),
        (np.ones((200, 5)), "no device was observed both"),
        (np.full((200, 5), -1), "no device was observed both"),
        (np.random.default_rng(0).integers(0, 2, (200, 1)), "only one device"),
        (np.random.default_rng(0).integers(0, 2, (12, 9)), "12 rounds are too few"),
    ],
)
def test_records_that_cannot_say_say_so(model_by_hand, record, reason):
    found = diagnose(model_by_hand(record))
    for finding in found.findings:
        assert finding.holds is None
        assert reason in finding.sentence
    assert found.theory


def test_a_short_record_says_nothing_about_the_day(model_by_hand, chains):
    found = _findings(model_by_hand(chains(60, 30, 9)), simulated=39)
    for name in ("homogeneity", "week", "day_later", "together_after_clock"):
        assert found[name].holds is None, name
    assert found["order"].holds is not None
    assert "1.2 days" in found["homogeneity"].sentence


@pytest.mark.parametrize("seed", range(12))
def test_any_record_gets_answers_that_can_be_written(model_by_hand, seed):
    """Few devices, few or many gaps, any round length: no error, no NaN in words or figures."""
    generator = np.random.default_rng(seed)
    record = (generator.random((int(generator.choice([2, 25, 60, 150])), 6)) < generator.choice([0.05, 0.5, 0.95])) + 0
    record = np.where(generator.random(record.shape) < generator.choice([0, 0.3, 0.9]), -1, record)
    model = model_by_hand(record, int(generator.choice([60, 1800, 7200, 86_400])), zone="Europe/Paris")
    found = diagnose(model, simulated=39)
    json.dumps(plain(found), allow_nan=False)
    assert "nan" not in " ".join(
        [finding.sentence for finding in found.findings] + [each.text for each in found.theory]
    )
    checks, curves = resemble(model, [generator.random(record.shape) < 0.3 for _ in range(3)])
    json.dumps(plain((checks, curves)), allow_nan=False)


def test_too_few_simulated_fleets_are_refused(model_by_hand):
    with pytest.raises(InvalidInput, match="simulated = 5"):
        diagnose(model_by_hand(np.zeros((30, 3))), simulated=5)


def test_the_theory_names_devices_that_are_never_here(model_by_hand, chains):
    record = np.concatenate([chains(200, 18, 10), np.zeros((200, 2), bool)], 1)
    theory = " ".join(each.text for each in diagnose(model_by_hand(record), simulated=39).theory)
    assert "2 of 20 devices were never available." in theory


def test_lambda_is_known_after_as_many_rounds_as_stated():
    """300 chains, each as long as needed for ± 0.1: the estimate is that close for 95 %; ± 4 % is three standard
    errors (error rate 0.3 %)."""
    pi, lam = 0.3, 0.6
    rounds = int(rounds_until_known(np.array(pi), np.array(lam), 0.1))
    generator = np.random.default_rng(11)
    here = generator.random((1, 300)) < pi
    for _ in range(rounds):
        here = np.concatenate([here, generator.random((1, 300)) < pi + lam * (here[-1:] - pi)])
    before, after = here[:-1], here[1:]
    stay = (before & after).sum(0) / before.sum(0)
    arrive = (~before & after).sum(0) / (~before).sum(0)
    assert np.mean(np.abs(stay - arrive - lam) < 0.1) == pytest.approx(0.95, abs=0.04)
