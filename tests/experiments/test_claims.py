"""Verdicts follow from the numbers by the rules that were written down."""

import numpy as np
import pytest

from fedtide.experiments.claims import judge
from fedtide.experiments.study import Claim, Study


def study(*claims: dict) -> Study:
    return Study(
        paper="p", figure="Fig. 1", title="t", about="a", problem={}, availability={}, run={}, methods=({"name": "x"},),
        scales={}, claims=tuple(Claim(says="s", published="p", **claim) for claim in claims),
    )  # fmt: skip


def method(label: str, late: list[float | None], **more) -> dict:
    return {"label": label, "late": late, "objective": [1.0] * len(late), "diverged": [v is None for v in late], **more}


def case(*methods: dict, label: str = "", value: float | None = None, draw: list[int] | None = None) -> dict:
    draws = list(range(len(methods[0]["late"]))) if draw is None else draw
    return {"label": label, "value": value, "draw": draws, "rounds": [10, 20, 30], "methods": list(methods)}


OURS = method("ours", [0.80, 0.81, 0.82, 0.83, 0.84])


def verdict(claim: dict, *cases: dict) -> str:
    return judge(study(claim), {"cases": list(cases)})[0].verdict


@pytest.mark.parametrize(
    ("shift", "expected"),
    [([0.02, 0.021, 0.019, 0.02, 0.02], "holds"), ([-0.02, -0.021, -0.019, -0.02, -0.02], "does not hold"),
     ([0.02, -0.02, 0.01, -0.01, 0.0], "undecided")],
)  # fmt: skip
def test_a_difference_is_paired(shift, expected):
    # The methods' own spread (4 points) is larger than the difference: only pairs can tell.
    other = method("other", [a - s for a, s in zip(OURS["late"], shift, strict=True)])
    assert verdict({"method": "ours", "against": "other"}, case(OURS, other)) == expected


def test_the_interval_is_students_in_points():
    other = method("other", [0.79, 0.80, 0.80, 0.80, 0.82])
    (judged,) = judge(study({"method": "ours", "against": "other"}), {"cases": [case(OURS, other)]})
    (found,) = judged.comparisons
    differences = np.array([1.0, 1.0, 2.0, 3.0, 2.0])
    half = 2.7764451 * differences.std(ddof=1) / np.sqrt(5)  # 97.5 % quantile of t with 4 degrees of freedom
    assert (found.mean, found.low, found.high) == pytest.approx((1.8, 1.8 - half, 1.8 + half))
    assert judged.replicas == 5


def test_thresholds_and_sides():
    other = method("other", [a - 0.01 for a in OURS["late"]])
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


def test_several_comparisons_are_told_together_and_widened():
    better, worse = (method(name, [a - s for a in OURS["late"]]) for name, s in (("better", 0.01), ("worse", -0.01)))
    assert verdict({"method": "ours", "against": ("better",)}, case(OURS, better, worse)) == "holds"
    assert verdict({"method": "ours", "against": ("better", "worse")}, case(OURS, better, worse)) == "partly"
    other = method("other", [0.79, 0.80, 0.80, 0.80, 0.82])
    alone, both = (
        judge(study({"method": "ours", "against": rivals}), {"cases": [case(OURS, other, better)]})[0].comparisons[0]
        for rivals in (("other",), ("other", "better"))
    )
    assert both.low < alone.low < alone.high < both.high


def test_with_many_draws_seeds_are_averaged_first():
    values = [0.8, 0.9] * 5
    other = method("other", [0.0] * 10)
    (judged,) = judge(
        study({"method": "ours", "against": "other"}),
        {"cases": [case(method("ours", values), other, draw=[d for d in range(5) for _ in range(2)])]},
    )
    assert judged.replicas == 5
    assert judged.comparisons[0].low == pytest.approx(85)  # no spread is left


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
    cases = [case(fast, slow)]
    (judged,) = judge(study({"method": "fast", "against": "slow", "measure": "speedup", "by": 2.9}), {"cases": cases})
    assert judged.comparisons[0].mean == pytest.approx(3)
    assert judged.verdict == "holds"
    (judged,) = judge(study({"method": "slow", "against": "fast", "measure": "speedup"}), {"cases": cases})
    assert judged.comparisons[0].mean == 0  # it never gets there


def test_what_was_not_run_is_not_tested():
    assert judge(study({"method": "ours"}), None)[0].verdict == "not tested"
    assert verdict({"method": "ours", "cases": ("elsewhere",)}, case(OURS)) == "not tested"
    assert verdict({"method": "theirs"}, case(OURS)) == "not tested"


def test_shares_of_invitations():
    record = {"kinds": ["often", "rare"], "methods": {"ours": {"share": [[0.9, 0.95, 1.0], [0.1, 0.2, 0.15]]}}}
    found = {**case(method("ours", [0.5] * 3)), "inclusion": record}
    claim = {"method": "ours", "measure": "included", "group": "rare", "against_group": "often", "holds": "below"}
    assert verdict(claim, found) == "holds"
