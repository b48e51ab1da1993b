"""Verdicts follow from the numbers by the documented rules."""

import numpy as np
import pytest
from reproduce.stored import a_case as case
from reproduce.stored import a_method as method
from reproduce.stored import some_results

from fedtide.errors import FedtideError
from fedtide.reproduce.claims import Judged, in_words, judge
from fedtide.reproduce.results import CaseResult, Estimates, Inclusion, Invited
from fedtide.reproduce.study import AtScale, Claim, Study


def study(*claims: dict) -> Study:
    return Study(
        paper="p", figure="Fig. 1", title="t", about="a", problem={}, availability={}, run={}, methods=({"name": "x"},),
        scales={}, claims=tuple(Claim(says="s", published="p", **claim) for claim in claims),
    )  # fmt: skip


FINAL = [0.80, 0.81, 0.82, 0.83, 0.84]
OURS = method("ours", FINAL)


def verdict(claim: dict, *cases: CaseResult) -> str:
    return judged(claim, *cases).verdict


def judged(claim: dict, *cases: CaseResult) -> Judged:
    return judge(study(claim), some_results(*cases))[0]


@pytest.mark.parametrize(
    ("shift", "expected"),
    [([0.02, 0.021, 0.019, 0.02, 0.02], "holds"), ([-0.02, -0.021, -0.019, -0.02, -0.02], "does not hold"),
     ([0.02, -0.02, 0.01, -0.01, 0.0], "undecided")],
)  # fmt: skip
def test_a_difference_is_paired(shift, expected):
    # The methods' own spread (4 points) is larger than the difference: only pairs show it.
    other = method("other", [a - s for a, s in zip(FINAL, shift, strict=True)])
    assert verdict({"method": "ours", "against": "other"}, case(OURS, other)) == expected


def test_the_interval_is_students_in_points():
    other = method("other", [0.79, 0.80, 0.80, 0.80, 0.82])
    decided = judged({"method": "ours", "against": "other"}, case(OURS, other))
    (comparison,) = decided.comparisons
    differences = np.array([1.0, 1.0, 2.0, 3.0, 2.0])
    half = 2.7764451 * differences.std(ddof=1) / np.sqrt(5)  # 97.5 % quantile of t with 4 degrees of freedom
    assert (comparison.mean, comparison.low, comparison.high) == pytest.approx((1.8, 1.8 - half, 1.8 + half))
    assert decided.replicas == 5


def test_thresholds_and_sides():
    other = method("other", [a - 0.01 for a in FINAL])
    for claim, expected in [
        ({"by": 0.9}, "holds"),
        ({"by": 1.1}, "does not hold"),
        ({"holds": "below", "by": 1.1}, "holds"),
        ({"holds": "within", "by": 1.1}, "holds"),
        ({"holds": "within", "by": 0.5}, "does not hold"),
    ]:
        assert verdict({"method": "ours", "against": "other", **claim}, case(OURS, other)) == expected


def test_a_number_instead_of_a_rival():
    assert verdict({"method": "ours", "value": 79.0}, case(OURS)) == "holds"
    assert verdict({"method": "ours", "value": 90.0}, case(OURS)) == "does not hold"


def test_several_comparisons_have_a_joint_level():
    better, worse = (method(name, [a - s for a in FINAL]) for name, s in (("better", 0.01), ("worse", -0.01)))
    assert verdict({"method": "ours", "against": ("better",)}, case(OURS, better, worse)) == "holds"
    assert verdict({"method": "ours", "against": ("better", "worse")}, case(OURS, better, worse)) == "does not hold"
    unclear = method("unclear", [a + s for a, s in zip(FINAL, (0.02, -0.02, 0.01, -0.01, 0.0), strict=True)])
    assert verdict({"method": "ours", "against": ("better", "unclear")}, case(OURS, better, unclear)) == "partly"
    other = method("other", [0.79, 0.80, 0.80, 0.80, 0.82])
    alone, both = (
        judged({"method": "ours", "against": rivals}, case(OURS, other, better)).comparisons[0]
        for rivals in (("other",), ("other", "better"))
    )
    assert both.low < alone.low < alone.high < both.high


def test_seeds_of_one_draw_are_averaged_first():
    values = [0.8, 0.9] * 3
    other = method("other", [0.0] * 6)
    two_each = case(method("ours", values), other, draw=[d for d in range(3) for _ in range(2)])
    decided = judged({"method": "ours", "against": "other"}, two_each)
    assert decided.replicas == 3
    assert decided.comparisons[0].low == pytest.approx(85)  # no spread is left
    one_draw = case(method("ours", values), other, draw=[0] * 6)
    assert "one data draw" in judged({"method": "ours", "against": "other"}, one_draw).why


def test_a_run_that_diverged_counts_as_wrong():
    other = method("other", [0.1] * 5)
    assert verdict({"method": "ours", "against": "other"}, case(method("ours", [None] * 5), other)) == "does not hold"


def test_trends_look_at_the_slope_over_cases():
    cases = [
        case(method("ours", [0.5 + 0.1 * x + 0.01 * i for i in range(5)]), label=str(x), value=x)
        for x in (0.0, 1.0, 2.0)
    ]
    assert verdict({"method": "ours", "trend": True}, *cases) == "holds"
    assert verdict({"method": "ours", "trend": True, "holds": "below"}, *cases) == "does not hold"


def test_speed_is_rounds_to_the_rivals_end():
    fast = method("fast", [0.9] * 3, curve=[[0.8, 0.9, 0.9]] * 3)
    slow = method("slow", [0.8] * 3, curve=[[0.1, 0.5, 0.8]] * 3)
    decided = judged({"method": "fast", "against": "slow", "measure": "speedup", "by": 2.9}, case(fast, slow))
    assert decided.comparisons[0].mean == pytest.approx(3)
    assert decided.verdict == "holds"
    decided = judged({"method": "slow", "against": "fast", "measure": "speedup"}, case(fast, slow))
    assert decided.comparisons[0].mean == 0  # it never reaches that accuracy


def test_a_run_that_diverged_is_not_steady():
    # It has no standard deviation and no objective; where less is better it still loses.
    steady = method("steady", [0.8] * 5, spread=[0.010, 0.011, 0.012, 0.011, 0.010])
    lost = method("lost", [0.8, 0.8, 0.8, 0.8, None], spread=[0.001, 0.001, 0.001, 0.001, None],
                  objective=[0.1, 0.1, 0.1, 0.1, None])  # fmt: skip
    for measure in ("spread", "objective"):
        claim = {"method": "lost", "against": "steady", "measure": measure, "holds": "below"}
        assert verdict(claim, case(lost, steady)) == "does not hold"
        # That the rival diverged in one run is not evidence for the other method.
        claim = {"method": "steady", "against": "lost", "measure": measure, "holds": "below"}
        assert verdict(claim, case(lost, steady)) == "undecided"


def test_no_difference_at_all_decides_nothing():
    same = method("same", FINAL)
    for holds in ("above", "below"):
        decided = judged({"method": "ours", "against": "same", "holds": holds}, case(OURS, same))
        assert decided.verdict == "undecided"
        assert "Every difference equals the threshold." in decided.why
    assert verdict({"method": "ours", "against": "same", "holds": "within", "by": 0.1}, case(OURS, same)) == "holds"


def test_an_undecided_claim_says_how_many_draws_would_decide_it():
    def why(shift: list[float], **claim) -> str:
        other = method("other", [a - s for a, s in zip(FINAL, shift, strict=True)])
        decided = judged({"method": "ours", "against": "other", **claim}, case(OURS, other))
        assert decided.verdict == "undecided"
        return decided.why

    shift = [0.02, -0.01, 0.015, 0.0, 0.005]  # mean 0.6 points, standard deviation 1.19 points
    reach = [2.1199, 2.1098]  # 97.5 % quantiles of t with 16 and 17 degrees of freedom
    deviation = np.std(shift, ddof=1)
    assert reach[1] * deviation / np.sqrt(18) < np.mean(shift) < reach[0] * deviation / np.sqrt(17)
    assert why(shift) == "About 18 draws would decide it."
    assert why(shift, holds="below") == "About 18 draws would decide it."
    assert why([s - 0.00599 for s in shift]) == "More than 1,000 draws would be needed to decide it."
    # If some differences equal the threshold, only another comparison can decide the claim.
    same, other = method("same", FINAL), method("other", [a - s for a, s in zip(FINAL, shift, strict=True)])
    for holds, expected in (("above", ""), ("below", " About 23 draws would decide it.")):
        claim = {"method": "ours", "against": ("same", "other"), "holds": holds}
        assert judged(claim, case(OURS, same, other)).why == f"Of 2 comparisons, 2 are undecided.{expected}"


def test_two_replicas_decide_nothing():
    few, other = method("few", [0.9, 0.9]), method("other", [0.1, 0.1001])
    assert verdict({"method": "few", "against": "other"}, case(few, other)) == "undecided"


def test_classes_are_compared_one_by_one():
    ours = method("ours", [0.8] * 4, classes=[[0.9, 0.2, None]] * 4)
    other = method("other", [0.8] * 4, classes=[[0.1, 0.7 + 0.01 * i, None] for i in range(4)])
    claim = {"method": "ours", "against": "other", "measure": "classes"}
    assert verdict({**claim, "classes": (0,)}, case(ours, other)) == "holds"
    assert verdict({**claim, "classes": (0, 1)}, case(ours, other)) == "does not hold"
    assert verdict({**claim, "classes": (2,)}, case(ours, other)) == "not tested"  # no test samples of it
    with pytest.raises(FedtideError, match="class 3: must be less than 3"):
        verdict({**claim, "classes": (3,)}, case(ours, other))


def test_cases_that_were_not_run_are_named():
    other = method("other", [a - 0.01 for a in FINAL])
    claim = {"method": "ours", "against": "other", "cases": ("one", "two")}
    decided = judged(claim, case(OURS, other, label="one"))
    assert decided.verdict == "partly"
    assert "two" in decided.why


def test_what_was_not_run_is_not_tested():
    assert judge(study({"method": "ours"}), None)[0].verdict == "not tested"
    assert verdict({"method": "ours", "cases": ("two",)}, case(OURS)) == "not tested"
    assert verdict({"method": "theirs"}, case(OURS)) == "not tested"


def test_shares_of_invitations():
    share = Invited(invited=[[0.9], [0.1]], share=[[0.9, 0.95, 1.0], [0.1, 0.2, 0.15]])
    record = Inclusion(kinds=["often", "rare"], rounds=[1], methods={"ours": share}, present=[[1.0], [0.5]])
    recorded = case(method("ours", [0.5] * 3), inclusion=record)
    claim = {"method": "ours", "measure": "included", "group": "rare", "against_group": "often", "holds": "below"}
    assert verdict(claim, recorded) == "holds"


def test_accuracy_after_one_round():
    ours = method("ours", [0.5, 0.5, None], curve=[[0.1, 0.6, 0.5], [0.1, 0.7, 0.5], [None] * 3])
    other = method("other", [0.9] * 3, curve=[[0.1, 0.3, 0.9], [0.1, 0.4, 0.9], [0.1, -0.3, 0.4]])
    claim = {"method": "ours", "against": "other", "measure": "round", "round": 20}
    decided = judged(claim, case(ours, other))  # stored rounds: 10, 20, 30
    assert decided.comparisons[0].mean == pytest.approx(30)  # a run that diverged counts as 0 %
    assert decided.verdict == "holds"
    assert verdict({**claim, "round": 30}, case(ours, other)) == "does not hold"
    unknown = judged({**claim, "round": 25}, case(ours, other))
    assert unknown.verdict == "not tested"
    assert "Round 25 is not among the stored points" in unknown.why
    assert "after round 20," in in_words(study(claim).claims[0])


def test_a_claim_may_hold_with_a_smaller_difference_than_published():
    other = method("other", [0.79, 0.80, 0.80, 0.80, 0.82])  # 1.8 points less, ± 1.04
    above = {"method": "ours", "against": "other"}
    below = {"method": "other", "against": "ours", "holds": "below"}
    for claim, size, expected in [
        (above, 3.0, "smaller than published"),
        (above, 2.5, "holds"),  # in the interval
        (above, 0.5, "holds"),  # larger than published
        (below, -3.0, "smaller than published"),
        (below, -2.5, "holds"),
        ({**above, "by": 1.0}, 3.0, "undecided"),
        ({**above, "by": 5.0}, 9.0, "does not hold"),
        ({**above, "cases": ("one", "two")}, 3.0, "partly"),
    ]:
        assert verdict({**claim, "size": size}, case(OURS, other, label="one")) == expected, (claim, size)
    large = method("large", [a - 0.05 for a in FINAL])  # only one of two differences is smaller
    assert verdict({**above, "against": ("other", "large"), "size": 4.0}, case(OURS, other, large)) == "holds"
    words = in_words(study({**below, "size": -3.0}).claims[0])
    assert words.endswith("It is smaller than published if the interval is closer to 0 than −3.")


def test_claims_of_the_paper_are_not_tested_on_a_stand_in():
    other = method("other", [a - 0.01 for a in FINAL])
    claim = {"method": "ours", "against": "other"}
    asked = study(claim, {**claim, "source": "code"}, {**claim, "source": "ours"})
    scales = {"reduced": AtScale(stand_in="Digits replace the published data.")}
    found = judge(asked.model_copy(update={"scales": scales}), some_results(case(OURS, other)))
    assert [one.verdict for one in found] == ["not tested", "not tested", "holds"]
    assert found[0].why == "Digits replace the published data."
    assert found[0].comparisons[0].mean == pytest.approx(1)
    elsewhere = judge(asked.model_copy(update={"scales": scales}), some_results(case(OURS, other), scale="paper"))
    assert elsewhere[0].verdict == "holds"


def test_errors_of_estimates():
    errors = Estimates(availability=[0.1, 0.11, 0.12], correlation=[0.2, 0.22, 0.24])
    known = case(method("ours", [0.5] * 3), estimates=errors)
    for measure, mean in [("availability_error", 0.11), ("correlation_error", 0.22), ("excess_error", 0.11)]:
        decided = judged({"method": "ours", "measure": measure}, known)
        assert (decided.verdict, decided.comparisons[0].mean) == ("holds", pytest.approx(mean))
    unobserved = case(method("ours", [0.5] * 3))
    assert verdict({"method": "ours", "measure": "excess_error"}, unobserved) == "not tested"
