import numpy as np
import pytest

from fedtide.fleet.diagnosis.diagnose import judged
from fedtide.fleet.diagnosis.findings import Decided, NumberFigure, Undecided
from fedtide.fleet.diagnosis.words import QUESTIONS, finding


def answers(*p: float | None, statistic: float = 1.1) -> list[Decided | Undecided]:
    return [
        Undecided(name, "no date")
        if each is None
        else Decided(name, statistic, (0.0, 1.0), each, NumberFigure(*[np.zeros(1)] * 6, devices=1))
        for name, each in zip(QUESTIONS, p, strict=False)
    ]


def verdicts(*p: float | None, statistic: float = 1.1):
    return [getattr(answer, "holds", None) for answer in judged(answers(*p, statistic=statistic))]


@pytest.mark.parametrize(
    ("p", "holds"),
    [
        ((0.04,), [False]),
        ((0.04, 0.5), [True, True]),
        ((0.5, 0.005, 0.02, 0.04), [True, False, True, True]),  # .02 · 3 is too much
        ((0.04, 0.005, 0.01, 0.02), [False, False, False, False]),
        ((0.04, None, None), [False, None, None]),
    ],
)
def test_holms_rule(p, holds):
    assert verdicts(*p) == holds


def test_far_off_is_rarer_than_simulations_can_show():
    # Two-sided, 199 simulated fleets: p is never below .01, and 7 · .01 is above 5 %.
    assert verdicts(0.01, *[0.5] * 6) == [True] * 7
    assert verdicts(0.01, *[0.5] * 6, statistic=2.1)[0] is False
    assert verdicts(0.2, *[0.5] * 6, statistic=2.1)[0] is True


def test_one_of_many_is_told_and_keeps_its_p():
    found = judged(answers(None, None, None, None, 0.03, 0.4, 0.6))
    told = [finding(answer, 1800) for answer in found[4:]]
    assert told[0].p == 0.03
    assert told[0].holds is True
    rare = " Alone, this would be significant (p = 0.03); among 3 questions it is not, by Holm's correction."
    assert [each.sentence.endswith(rare) for each in told] == [True, False, False]


def test_true_chains_are_refuted_in_one_fleet_of_twenty():
    # 2000 fleets, seven independent p: 5 % ± 4 standard errors of .5 %.
    p = np.random.default_rng(0).random((2000, 7))
    any_refuted = np.mean([False in verdicts(*row) for row in p])
    assert 0.03 < any_refuted < 0.07
