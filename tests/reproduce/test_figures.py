"""Figures of weights, activity, best values and estimates, from results made by hand."""

import re

import numpy as np
import pytest
from reproduce.stored import a_case, a_method, some_results

from fedtide.report.picture import Picture
from fedtide.reproduce.page.figures import pictures, standalone
from fedtide.reproduce.results import Activity, Estimates, Inclusion, Invited
from fedtide.reproduce.study import Study

METHODS = a_method("A", [0.5] * 3), a_method("B", [0.6] * 3)


def study(*shows: str, methods=("A", "B"), **more) -> Study:
    return Study(
        paper="p", figure="Fig. 1", title="t", about="a", shows=shows, problem={}, availability={}, run={},
        methods=tuple({"name": m.lower(), "label": m} for m in methods), scales={}, **more,
    )  # fmt: skip


def drawn(asked: Study, *cases) -> Picture:
    (picture,) = pictures(asked, some_results(*cases)).values()
    for layout in (picture.wide, picture.narrow):
        assert len(standalone(layout)) < 100_000
        assert re.search(r'aria-label="[^"]+"', layout)
    assert "nan" not in picture.alt + picture.caption
    assert float(re.search(r'viewBox="0 0 (\S+)', picture.narrow)[1]) < 400
    return picture


def texts(drawing: str) -> set[str]:
    return set(re.findall(r"<text[^>]*>([^<]*)</text>", drawing))


@pytest.mark.parametrize("kind", ["weights", "activity", "best", "estimates"])
def test_nothing_is_drawn_without_the_numbers(kind):
    old = Invited(invited=[[1.0]], share=[[1.0] * 3])  # stored before weights were
    record = Inclusion(kinds=["k"], rounds=[1], present=[[1.0]], methods={"A": old})
    assert pictures(study(kind, best="c"), some_results(a_case(*METHODS, inclusion=record, value=1.0))) == {}


# Weights


def weighted(**weights: list) -> Inclusion:
    methods = {
        label: Invited(invited=[[1.0], [1.0]], share=[[1.0] * 3] * 2, weight=values)
        for label, values in weights.items()
    }
    return Inclusion(kinds=["often", "rare"], rounds=[1], present=[[1.0], [1.0]], methods=methods)


def test_weights_of_kinds_are_means_over_runs():
    record = weighted(A=[[1.0, 1.1, 1.2], [0.5, 0.6, 0.7]], B=[[1.0] * 3, [None, 0.2, 0.4]])
    picture = drawn(study("weights"), a_case(*METHODS, inclusion=record))
    assert picture.alt.endswith("A: often 1.10, rare 0.60; B: often 1.00, rare 0.30.")
    for layout in (picture.wide, picture.narrow):
        assert {"A", "B", "often", "rare", "Weight / importance"} <= texts(layout)


def test_weights_have_a_panel_for_each_case():
    cases = [
        a_case(*METHODS, label=f"case {i}", inclusion=weighted(A=[[1.0 + i] * 3, [0.5] * 3])) for i in range(4)
    ]  # fmt: skip
    picture = drawn(study("weights"), *cases)
    assert "case 0: A: often 1.00, rare 0.50; case 1: A: often 2.00" in picture.alt
    assert {f"case {i}" for i in range(4)} <= texts(picture.wide)


# Activity


def test_activity_counts_the_invited_rounds_of_each_kind():
    record = Activity(clients=["often", "often", "rare", "gone"], methods={"A": ["2211", "2221", "1000", "0000"]})
    picture = drawn(study("activity"), a_case(*METHODS, activity=record))
    assert picture.alt.endswith("A: often 62%, rare 0%, gone never available.")  # 5 of 8
    assert "Clients that A invites" in picture.caption
    for layout in (picture.wide, picture.narrow):
        assert {"invited", "available, excluded", "unavailable", "often", "rare", "gone"} <= texts(layout)
        assert layout.count("<image") == 1


def test_three_large_panels_of_activity_are_a_small_file():
    states = np.random.default_rng(0).integers(0, 3, (3, 100, 100))
    cases = [
        a_case(*METHODS, label=f"{i}", activity=Activity(
            clients=[f"kind {c}" for c in range(100)], methods={"A": ["".join(map(str, row)) for row in own.tolist()]}
        ))
        for i, own in enumerate(states)
    ]  # fmt: skip
    picture = drawn(study("activity"), *cases)
    assert re.search(r"0: all clients \d\d%; 1: all clients", picture.alt)  # too many kinds to name
    assert picture.wide.count("<image") == picture.narrow.count("<image") == 3


# Best


def tried(value: object, curve: list[float], noise=(0.0, 0.01, -0.01)):
    curves = np.add.outer(noise, curve)
    return a_method(f"c = {value}", [0.5] * 3, written={"name": "a", "c": value}, curve=curves)


def best_of(*values, **more) -> Picture:
    early, middle, late = (0.6, 0.5, 0.4), (0.5, 0.6, 0.61), (0.4, 0.5, 0.62)
    small, medium, large = values
    unclear = (0.02, -0.03, 0.01)  # noise of its own: it differs from the others by chance
    own = [tried(small, early), tried(medium, middle, unclear), tried(large, late), a_method("D", [0.9] * 3)]
    asked = study("best", methods=[method.label for method in own], best="c", **more)
    return drawn(asked, a_case(*own))


def test_the_best_value_is_named_by_round_with_its_ties():
    picture = best_of(0.1, 1.0, 100.0, axis="κ̄²")
    ends = "0.1 from round 10, 1 from round 20, 100 from round 30; not significantly worse in the last: 1, 100."
    assert picture.alt == f"Step charts of the value of κ̄² with the highest test accuracy. {ends}"
    for layout in (picture.wide, picture.narrow):
        assert {"κ̄²", "0.1", "1", "100", "best value", "not significantly worse"} <= texts(layout)


def test_values_with_zero_are_evenly_spaced_and_words_are_no_values():
    assert {"0", "1", "100", "c"} <= texts(best_of(0, 1, 100).wide)
    named = [tried("low", [0.5] * 3), tried(True, [0.5] * 3), tried(1.0, [0.5] * 3)]
    assert pictures(study("best", best="c"), some_results(a_case(*named))) == {}


# Estimates


def estimated(value: float, error: float):
    errors = np.array([0.9, 1.0, 1.1]) * error
    return a_case(
        *METHODS, label=f"{value:g}", value=value, estimates=Estimates(availability=errors, correlation=2 * errors)
    )


def test_errors_of_estimates_over_the_cases():
    picture = drawn(study("estimates", axis="t′"), estimated(0.0, 0.5), estimated(1000.0, 0.001), estimated(10.0, 0.1))
    assert picture.alt.endswith(
        "by t′. availability π̂: 0.1 at 10, 0.001 at 1000; correlation λ̂: 0.2 at 10, 0.002 at 1000."
    )
    for layout in (picture.wide, picture.narrow):
        assert {"t′", "10", "1000", "0.1", "0.01", "availability π̂", "correlation λ̂"} <= texts(layout)  # logarithmic


def test_a_single_case_of_estimates_is_drawn():
    picture = drawn(study("estimates"), estimated(10.0, 0.1))
    assert picture.alt.endswith("availability π̂: 0.1 at 10; correlation λ̂: 0.2 at 10.")
