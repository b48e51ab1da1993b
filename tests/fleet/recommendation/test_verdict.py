"""Verdicts from how runs ended: who is level, by noise or because it does not matter; and their words."""

import numpy as np
import polars as pl
import pytest

from fedtide.fleet.recommendation.findings import Candidate, Ended, Findings, Otherwise, Shorter, TrainedProblem
from fedtide.fleet.recommendation.limits import Burden, Constraints
from fedtide.fleet.recommendation.page.words import answer, changes
from fedtide.fleet.recommendation.scenarios import Described
from fedtide.fleet.recommendation.verdict import Ends, Standing, Verdict, against, decide
from fedtide.methods import Facts
from fedtide.statistics import Estimated, Metric, student


def ends(rows, deciles: dict[str, float] | None = None, kind: Metric = "accuracy", margin: float = 0.005) -> Ends:
    """Final accuracies (or objectives) by method and setting, seed by seed."""
    table = [
        {"setting": setting, "horizon": 1.0, "method": method, "seed": seed, "diverged": not np.isfinite(value),
         "final": value, "worst_decile": (deciles or {}).get(method, 0.5)}
        for method, settings in rows.items() for setting, values in settings.items()
        for seed, value in enumerate(values)
    ]  # fmt: skip
    return Ends(pl.DataFrame(table), kind, margin)


LOW, MIDDLE, HIGH = [0.5, 0.52, 0.51, 0.5], [0.59, 0.62, 0.605, 0.6], [0.6, 0.61, 0.6, 0.62]
LIGHT, HEAVY = Burden(0, 0, 100), Burden(2, 50, 100)


def both(values):
    return {"recorded": values, "generated": values}


def test_level_methods_give_the_simplest():
    burdens = {"heavy": HEAVY, "light": LIGHT, "far": HEAVY}
    found = decide(ends({"heavy": both(HIGH), "light": both(MIDDLE), "far": both(LOW)}), {}, burdens)
    assert (found.confidence, found.recommended, found.best) == ("level", "light", "heavy")
    assert found.level == ("heavy", "light")


STEADY = np.array([0.9, 0.91, 0.92, 0.93])
NOISE = np.array([0.0, 0.001, -0.001, 0.0])


@pytest.mark.parametrize(
    ("loss", "margin", "close"),
    [(0.004, 0.005, True), (0.006, 0.005, False), (0.006, 0.01, True), (0.002, 0.0, False)],
)
def test_a_difference_that_does_not_matter_gives_the_simplest(loss, margin, close):
    # Told apart by the interval either way; only its size decides.
    runs = ends({"heavy": both(STEADY), "light": both(STEADY - loss + NOISE)}, margin=margin)
    found = decide(runs, {}, {"heavy": HEAVY, "light": LIGHT})
    assert (found.best, found.recommended) == ("heavy", "light" if close else "heavy")
    assert found.recorded is not None
    assert found.recorded.close == (("light",) if close else ())
    row = against(runs, ["heavy", "light"], "light", "recorded")
    assert row is not None
    assert row.changes == (not close)


def test_noise_is_not_equivalence():
    # A loss of 4 points, 95 % interval 0.3 to 7.7: its near end is within half a point, its mean is not.
    noisy = STEADY - 0.04 + 0.02 * np.array([1, 1, -1, -1])
    runs = ends({"heavy": both(STEADY), "light": both(noisy)})
    near = runs.difference("light", "heavy", "recorded").high
    assert near is not None
    assert -0.005 < near < 0
    assert runs.standing(["heavy", "light"], "recorded") == Standing("heavy", ("heavy",))


def test_objectives_are_close_by_their_share():
    for scale in (1e-3, 1e3):
        runs = ends({"heavy": both(scale * STEADY), "light": both(scale * STEADY * 1.004)}, kind="objective")
        assert decide(runs, {}, {"heavy": HEAVY, "light": LIGHT}).recommended == "light"
        runs = ends({"heavy": both(scale * STEADY), "light": both(scale * STEADY * 1.006)}, kind="objective")
        assert decide(runs, {}, {"heavy": HEAVY, "light": LIGHT}).recommended == "heavy"


def test_of_equal_burdens_the_first():
    assert decide(ends({"a": both(MIDDLE), "b": both(HIGH)}), {}, {"a": LIGHT, "b": LIGHT}).recommended == "a"


def test_the_refused_are_left_out_however_good():
    burdens = {"a": HEAVY, "b": LIGHT}
    found = decide(ends({"a": both(HIGH), "b": both(LOW)}), {"a"}, burdens)
    assert (found.confidence, found.recommended) == ("clear", "b")
    assert decide(ends({"a": both(HIGH)}), {"a"}, burdens).confidence == "none"


def test_a_floor_leaves_out_who_is_below_it():
    burdens = {"a": LIGHT, "b": LIGHT}
    runs = ends({"a": both(HIGH), "b": both(LOW)}, {"a": 0.2, "b": 0.4})
    found = decide(runs, {}, burdens, floor=0.3)
    assert (found.recommended, found.below_floor) == ("b", ("a",))
    none = decide(runs, {}, burdens, floor=0.9)
    assert (none.confidence, none.recommended, none.best) == ("floor", None, "b")


def test_record_and_generator_may_disagree():
    runs = ends({"a": {"recorded": HIGH, "generated": LOW}, "b": {"recorded": LOW, "generated": HIGH}})
    found = decide(runs, {}, dict.fromkeys(["a", "b"], LIGHT))
    assert (found.confidence, found.recommended, found.best) == ("disagree", None, "a")
    assert found.generated is not None
    assert found.generated.best == "b"


def test_who_diverged_is_not_recommended():
    runs = ends({"a": both([0.9, 0.9, np.nan, 0.9]), "b": both(LOW)})
    assert decide(runs, {}, dict.fromkeys(["a", "b"], LIGHT)).recommended == "b"


def test_one_seed_tells_nobody_apart():
    found = decide(ends({"a": both([0.1]), "b": both([0.9])}), {}, dict.fromkeys(["a", "b"], LIGHT))
    assert (found.confidence, found.recommended) == ("level", "a")


def test_the_interval_is_students():
    found = student(np.array([1.0, 2.0, 3.0]))
    assert found.high == pytest.approx(2 + 4.302653 / np.sqrt(3), abs=1e-5)


def test_changes_are_told_against_the_reference():
    row = against(ends({"a": both(HIGH), "b": both(LOW)}), ["a", "b"], "b", "recorded")
    assert row is not None
    assert (row.best, row.changes) == ("a", True)
    assert row.difference.mean == pytest.approx(np.mean(HIGH) - np.mean(LOW))


FOUND = Findings(
    kind="accuracy", rounds=9, seeds=4, trials=1, tuning_seeds=[0], evaluate_every=1, history=0,
    fleet=Described("a log", 2, 2, 0, (), (), 9, 1800, 1.0, None, 0.0), problem=TrainedProblem("mine", False, 1, 1),
    constraints=Constraints(), margin=0.005, verdict=Verdict("none", None, None, (), None, None, ()), methods=[],
    horizons=[], scenarios=[], relaxed=[], served_worst=[], edges={}, warnings=[], versions={}, hardware="",
)  # fmt: skip


def findings(runs: Ends, burdens: dict[str, Burden], **others) -> Findings:
    """From how runs ended."""
    found = decide(runs, {}, burdens)
    reference = found.reference
    assert reference is not None
    rows = []
    for method in runs.methods:
        recorded, generated = (
            Ended(runs.value(method, s), Estimated(), None, runs.difference(method, reference, s))
            for s in ("recorded", "generated")
        )
        level = "recommended" if method == reference else "equivalent" if method in found.level else "worse"
        rows.append(Candidate(method, method, "", {}, Facts(""), burdens[method], None, 0, recorded, generated, level))
    return FOUND._replace(margin=runs.margin, verdict=found, methods=rows, **others)


def said(runs: Ends, burdens: dict[str, Burden], **others) -> str:
    """The answer in words."""
    return " ".join(answer(findings(runs, burdens, **others)))


def test_what_does_not_matter_is_said():
    runs = ends({"heavy": both(STEADY), "light": both(STEADY - 0.002 + NOISE), "far": both(STEADY - 0.2)})
    text = said(runs, {"heavy": HEAVY, "light": LIGHT, "far": LIGHT})
    assert text.startswith(
        "Use light, the simplest of 2 comparable methods (fewest extra messages, then least memory). On the recorded "
        "trace, light reaches 91.3% test accuracy after 9 rounds (mean of 4 seeds); heavy has the best mean "
        "(+0.20 points; 95% interval +"
    )
    assert "); light is equivalent to the best (within 0.5 points); far is worse. On generated fleets, light" in text
    assert text.endswith("); light is equivalent to the best (within 0.5 points).")


def test_level_by_noise_and_level_by_size_are_told_apart():
    wide = STEADY + np.array([0.02, -0.03, 0.02, -0.02])
    runs = ends({"heavy": both(STEADY), "light": both(STEADY - 0.002 + NOISE), "noisy": both(wide)})
    text = said(runs, {"heavy": HEAVY, "light": LIGHT, "noisy": HEAVY})
    assert text.startswith(
        "Use light, the simplest of 3 comparable methods (fewest extra messages, then least memory). On the recorded "
    )
    assert "too few" not in text
    for where in ("test accuracy after 9 rounds (mean of 4 seeds)", "On generated fleets, light reaches 91.3%"):
        assert f"{where}; heavy has the best mean (+0.20 points; 95% interval +0.07 to +0.33); light is equ" in text
    last = "light is equivalent to the best (within 0.5 points); noisy is not significantly different from it over"
    assert text.count(last) == 2
    text = said(runs, {"heavy": LIGHT, "light": HEAVY, "noisy": HEAVY})
    assert "; noisy (−0.25 points; 95% interval −4.43 to +3.93) is not significantly different from it" in text


def test_equal_runs_are_level():
    runs = ends({"a": both(STEADY), "b": both(STEADY)})
    assert decide(runs, {}, dict.fromkeys("ab", LIGHT)).recorded == Standing("a", ("a", "b"))
    assert said(runs, dict.fromkeys("ab", LIGHT)).startswith("Use a, the simplest of 2 comparable methods (")


FAR = np.array([0.55, 0.8, 0.9, 0.95])  # a mean of 11.5 points below STEADY, and an interval of −38 to +15


def test_a_wide_interval_is_not_called_level():
    runs = ends({"a": {"recorded": STEADY, "generated": STEADY}, "b": {"recorded": FAR, "generated": STEADY - 0.1}})
    assert decide(runs, {}, dict.fromkeys("ab", LIGHT)).recorded == Standing("a", ("a", "b"), (), ("b",))
    case = against(runs, ["a", "b"], "a", "recorded")
    assert case is not None
    rows = [Shorter(0.5, 4, case)]
    text = said(runs, dict.fromkeys("ab", LIGHT), horizons=rows)
    assert text.startswith("Use a, the only method among the best both on the recorded trace and on generated fleets. ")
    assert "the best mean; b (−11.50 points; 95% interval −37.89 to +14.89) is not significantly different from" in text
    assert "On generated fleets, a reaches 91.5%; the next best method is b (−10.00 points; 95% interval " in text
    assert "4 seeds are too few for a firm answer: run more (--seeds)." in text
    assert "Among 1 other case, the answer is uncertain in 1." in text
    settled = Otherwise("rarer", "it rained", case._replace(inconclusive={}))
    assert (
        "Among 2 other cases, the answer stays the same in 1 and is uncertain in 1."
        in said(runs, dict.fromkeys("ab", LIGHT), horizons=rows, scenarios=[settled])
    )  # fmt: skip
    for never in ("equivalent", "stays the same"):
        assert never not in text
    facts = findings(runs, dict.fromkeys("ab", LIGHT))
    (change,) = changes(facts._replace(horizons=rows))
    assert (change.sentence, change.outcome) == (
        "After 4 rounds, a has the best mean; b (−11.50 points; 95% interval −37.89 to +14.89) is not significantly "
        "different from it over 4 seeds.", "is uncertain",
    )  # fmt: skip
    case = against(runs, ["a", "b"], "b", "recorded")
    assert case is not None
    other = facts.verdict._replace(recommended="b")
    (change,) = changes(facts._replace(verdict=other, horizons=[Shorter(0.5, 4, case)]))
    assert change.sentence.startswith("After 4 rounds, a ends 11.50 points above b (95% interval −")
    assert change.sentence.endswith("), which is not significant over 4 seeds.")
    assert change.outcome == "is uncertain"


def test_who_is_level_on_generated_fleets_is_named():
    rows = {
        "a": {"recorded": STEADY, "generated": STEADY},
        "b": {"recorded": STEADY - 0.1 + NOISE, "generated": STEADY - 0.001 + NOISE},
        "c": {"recorded": STEADY - 0.2 + NOISE, "generated": STEADY - 0.002 + NOISE},
        "d": {"recorded": STEADY - 0.05 + NOISE, "generated": STEADY - 0.1 + NOISE},
    }
    text = said(ends(rows), dict.fromkeys(rows, LIGHT))
    assert text.startswith("Use a. On the recorded trace, a reaches ")
    assert "On generated fleets, a reaches 91.5%, the best mean; b (−0.10 points; 95% interval −" in text
    assert " and c (−0.20 points; " in text
    assert text.endswith(") are equivalent to the best (within 0.5 points).")


def test_who_falls_behind_on_generated_fleets_is_named():
    rows = {
        "a": {"recorded": STEADY, "generated": STEADY - 0.001 + NOISE},
        "b": {"recorded": STEADY + 0.001 + NOISE, "generated": STEADY},
        "c": {"recorded": STEADY - 0.002 + NOISE, "generated": STEADY - 0.1 + NOISE},
    }
    text = said(ends(rows), {"a": LIGHT, "b": HEAVY, "c": LIGHT})
    assert text.endswith("; a is equivalent to the best (within 0.5 points); c is worse.")


def test_an_excluded_method_is_not_the_next_best():
    facts = findings(
        ends({"a": both(STEADY), "b": both(STEADY - 0.1), "c": both(STEADY - 0.2)}), dict.fromkeys("abc", LIGHT)
    )
    rows = [
        row._replace(verdict="excluded", refused="too large") if row.method == "b" else row for row in facts.methods
    ]
    text = " ".join(answer(facts._replace(methods=rows)))
    assert "; the next best method is c (−20.00 points; " in text
    assert "b (" not in text
