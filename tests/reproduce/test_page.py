"""Figures and pages of stored results, without a simulation."""

import re
from typing import get_args
from xml.etree import ElementTree

import numpy as np
import pytest
from reproduce.stored import a_case, a_method, some_results

from fedtide.reproduce.claims import Comparison, Judged, judge
from fedtide.reproduce.page import page as reproduction
from fedtide.reproduce.page import words
from fedtide.reproduce.page.figures import FIGURES, pictures, standalone
from fedtide.reproduce.page.heat import selected_classes
from fedtide.reproduce.page.maps import codes, winners
from fedtide.reproduce.results import MEASURES, Inclusion, Invited, MeasureName, Regions, Tuned, level, read
from fedtide.reproduce.study import Case, Claim, FigureKind, Study

ROUNDS = [10, 20, 30, 40, 50]
METHODS = ("<b>A", "B")
TUNED = Tuned(settings={"rate": 0.1}, score=0.5, edges=["rate"], trials=6)


def method(label, final, *, slow=0.0, classes=False, tuned=True, lost=(), **more):
    """A method whose replicas end at `final`, after a rise whose time constant grows with `slow`."""
    reached = 1 - np.exp(-np.array(ROUNDS) / 10 / (1 + slow))
    curve = np.outer(final, reached / reached[-1])
    measured = {
        "tuned": TUNED if tuned else None,
        "objective_curve": np.linspace(2.0, 1.0, 5),
        "tail_loss": [1.5] * len(final),
        "curve": [[None] * 5 if i in lost else row for i, row in enumerate(curve.tolist())],
        "average": final,
        "best": final,
        "spread": [0.003] * len(final),
        "worst_decile": [None] * len(final),  # no client has test data
    }
    if classes:
        measured["classes"] = [[x, x / 2, x / 3] for x in final]
        measured["classes_curve"] = [[r, r / 2, r / 3] for r in reached.tolist()]
    return a_method(label, [None if i in lost else x for i, x in enumerate(final)], **measured | more)


def case(*methods, draws=3, **more):
    runs = len(methods[0].diverged)
    return a_case(*methods, **{"rounds": ROUNDS, "draw": np.repeat(np.arange(draws), runs // draws).tolist()} | more)


def pair(label="", value=None, **more):
    return case(method("<b>A", [0.6, 0.62, 0.64]), method("B", [0.55, 0.58, 0.6], slow=1), label=label, value=value,
                **more)  # fmt: skip


def study(*shows, methods=METHODS, fixed=(), claims=(), **more) -> Study:
    better = Claim(says="A is better.", published="+4.2 points", method="<b>A", against="B")
    return Study(
        paper="p", figure="Fig. 1", title="A < B", about="One.\n\nTwo.", shows=shows or ("curves",), problem={},
        availability={}, run={}, tune={"trials": 6}, methods=tuple({"name": m.lower(), "label": m} for m in methods),
        fixed=tuple({"name": m.split(",")[0].lower(), "label": m} for m in fixed), scales={},
        claims=(better, *(Claim(says="s", published="p", **claim) for claim in claims)), **more,
    )  # fmt: skip


# Numbers


def test_an_interval_is_students_over_draws_where_there_are_several():
    one = case(method("A", [0.1, 0.2, 0.3, 0.4]), draws=1)
    assert one.replicas(np.arange(4.0)).tolist() == [0, 1, 2, 3]  # one draw: seeds count
    many = case(method("A", [0.1] * 10), draws=5)
    assert many.replicas(np.arange(10.0)).tolist() == [0.5, 2.5, 4.5, 6.5, 8.5]
    half = 4.30265 * np.std([1, 2, 4], ddof=1) / np.sqrt(3)  # 97.5 % quantile of t with 2 degrees of freedom
    assert level(np.array([1.0, 2.0, 4.0])) == pytest.approx((7 / 3, 7 / 3 - half, 7 / 3 + half), rel=1e-5)
    assert level(np.array([1.0])) == (1.0, None, None)
    assert level(np.array([np.nan])) is None


def test_a_diverged_run_counts_as_zero_accuracy_and_a_missing_measure_is_none():
    lost = method("A", [0.6, 0.6, 0.6], lost=(1,))
    assert lost.values("final").tolist() == [0.6, 0.0, 0.6]
    assert lost.values("worst_decile") is None
    assert lost.values("classes") is None
    assert method("A", [0.6], lost=(0,)).values("final").tolist() == [0.0]


def test_results_are_read_as_they_were_written(tmp_path):
    found = some_results(pair(), case(method("B", [0.5, 0.6, 0.7], lost=(0,), classes=True), label="two", value=1.0))
    text = found.write(tmp_path / "results.json").read_text("utf-8")
    assert read(tmp_path / "results.json").write(tmp_path / "again.json").read_text("utf-8") == text
    assert "NaN" not in text
    assert '"inclusion"' not in text


def test_every_measure_and_kind_of_figure_is_known():
    assert tuple(MEASURES) == get_args(MeasureName)
    assert set(FIGURES) == set(get_args(FigureKind))


def test_published_settings_share_the_colour_of_their_method():
    facts = study(methods=("A", "A, known"), claims=({"method": "C"},)).model_copy(
        update={
            "methods": ({"name": "a", "label": "A"}, {"name": "a", "label": "A, known", "known": True}),
            "fixed": (
                {"name": "a", "label": "its rates", "known": True, "rate": 0.1}, {"name": "a", "label": "x", "rate": 1},
                {"name": "c", "label": "C"},
            ),
        }
    )  # fmt: skip
    assert facts.published == {"its rates": "A, known", "x": "A"}
    assert facts.order == ["A", "A, known", "C"]
    cells = tuple({"name": "a", "label": f"α = {a}", "level": a, "mix": 0.0} for a in (0.1, 1))
    # A cell of a grid belongs to the method that it is a setting of, unless a claim is about it.
    gridded = study(methods=("A",), claims=[{"method": "α = 1"}], grid={"α": "level", "γ": "mix"})
    gridded = gridded.model_copy(update={"fixed": cells})
    assert gridded.published == {"α = 0.1": "A"}
    assert gridded.cell("α = 0.1") == [0.1, 0.0]
    assert facts.model_copy(update={"tune": None}).published == {}


# Words


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        ({"measure": "final", "against": "B"}, "+1.50 points (−0.50 to +3.50)"),
        ({"measure": "final", "value": 80.0}, "81.50% (79.50 to 83.50)"),
        ({"measure": "spread", "value": 0.0}, "1.50 points (−0.50 to 3.50)"),
        ({"measure": "included", "against_group": "g"}, "+1.50 points (−0.50 to +3.50)"),
        ({"measure": "objective", "against": "B"}, "+1.5 (−0.5 to +3.5)"),
        ({"measure": "speedup", "against": "B"}, "×1.50 (×0.50 to ×3.50)"),
        ({"measure": "final", "trend": True}, "+1.5 points per unit (−0.5 to +3.5)"),
    ],
)
def test_ours_has_its_unit_and_its_interval(claim, expected):
    low = 0.5 if claim["measure"] == "speedup" else -0.5
    one = Comparison("", "B", 1.5, low, 3.5, "undecided", 3, tie=False)
    judged = Judged(Claim(says="s", published="p", method="A", **claim), "undecided", [one], "")
    assert words.ours(judged) == [expected]
    (text,) = words.ours(judged._replace(comparisons=[one._replace(low=None, high=None)]))
    assert text.endswith("(single run, no interval)")
    assert words.ours(judged._replace(comparisons=[one._replace(mean=None)])) == ["no finite value"]
    assert words.ours(judged._replace(comparisons=[])) == ["–"]


def test_many_comparisons_are_summarised_by_their_range():
    every = [Comparison(f"c{i}", "B", float(i), i - 1.0, i + 1.0, "holds", 3, tie=False) for i in range(6)]
    judged = Judged(Claim(says="s", published="p", method="A", against=("B",)), "holds", every, "")
    assert words.ours(judged) == ["from 0.00 (c0) to +5.00 (c5) points, 6 comparisons"]
    assert words.ours(judged._replace(comparisons=every[1:3])) == [
        "c1: +1.00 points (0.00 to +2.00)", "c2: +2.00 points (+1.00 to +3.00)",
    ]  # fmt: skip


def test_the_answer_counts_verdicts():
    claim = Claim(says="s", published="p", method="A")
    some = [Judged(claim, verdict, [], "") for verdict in ("does not hold", "holds", "holds", "not tested")]
    assert words.answer(some) == "Of 4 claims, 2 hold, 1 does not hold and 1 was not tested."
    assert words.answer(some[:1]) == "The claim does not hold."
    own = [one._replace(claim=one.claim.model_copy(update={"source": "ours"})) for one in some]
    assert words.answer([*some[:1], *own]) == (
        "The claim does not hold. Of 4 claims of our own, 2 hold, 1 does not hold and 1 was not tested."
    )
    smaller = Judged(claim, "smaller than published", [], "")
    assert words.answer([*some, smaller]).startswith(
        "Of 5 claims, 2 hold, 1 holds but is smaller than published, 1 does"
    )
    assert words.verdict(smaller) == "◔ smaller than published"
    assert list(words.counts(some).items()) == [("holds", 2), ("does not hold", 1), ("not tested", 1)]
    assert len(set(words.MARKS.values())) == len(words.MARKS)  # distinct without colour


def test_warnings_name_edges_and_lost_runs():
    found = some_results(pair("one"), case(method("B", [0.5, 0.6, 0.7], lost=(0,)), label="two"))
    assert words.warnings(found) == [
        "<b>A: the chosen rate is at the edge of the grid (one); values beyond it might be better.",
        "B: the chosen rate is at the edge of the grid (one; two); values beyond it might be better.",
        "B, two: 1 of 3 runs diverged; diverged runs count as 0 % accuracy.",
    ]


# Figures


def drawn(facts, found, *names):
    made = pictures(facts, found)
    assert tuple(made) == names
    for picture in made.values():
        for drawing in (picture.wide, picture.narrow):
            text = standalone(drawing)
            root = ElementTree.fromstring(text)  # well-formed
            assert root.get("width")
            assert len(text) < 100_000
            assert 'id="only-dark"' in text
            assert "<b>" not in text
        assert "nan" not in picture.alt + picture.caption
    return made


def test_curves_and_ends():
    published = method("B, published rates", [0.2, 0.2, 0.2], tuned=False)
    found = some_results(case(*pair().methods, published))
    made = drawn(study("curves", "ends", fixed=["B, published rates"]), found, "curves", "ends")
    assert "Below the range of the axis: B, published rates (ends at 20.0%)" in made["curves"].caption
    assert made["curves"].alt.endswith("<b>A 62.0%, B 57.7%.")
    assert "◂ 20.0%" in made["ends"].wide  # far from the tuned methods: written at the edge
    assert "vs &lt;b&gt;A" in made["ends"].wide
    over = study("ends", axis="λ")
    several = drawn(over, some_results(pair("λ = 0", 0.0), pair("λ = 10", 10.0), pair("λ = 900", 900.0)), "ends")
    for text in ("λ", ">0<", ">10<", ">900<"):  # evenly spaced: no value of three decades is lost beside 0
        assert text in several["ends"].wide


def test_without_accuracies_the_objective_is_drawn():
    missing = dict.fromkeys(("curve", "final", "average", "best", "spread"))
    found = some_results(case(*(one.model_copy(update=missing) for one in pair().methods)))
    made = drawn(study("curves", "ends"), found, "curves", "ends")
    assert made["curves"].caption.startswith("Objective over rounds")


def test_a_grid_of_settings_frames_its_best():
    cells = [f"α = {a}, γ = {g}" for a in (0.1, 1) for g in (0, 0.5)]
    methods = [method(c, [x] * 3, classes=True) for c, x in zip(cells, (0.5, 0.7, 0.6, 0.4), strict=True)]
    claims = [{"method": cells[0], "measure": "classes", "classes": (2,)}]
    facts = study("grid", "classes", claims=claims, grid={"α": "level", "γ": "mix"}).model_copy(
        update={"fixed": tuple({"name": "a", "label": f"α = {a}, γ = {g}", "level": a, "mix": g}
                               for a in (0.1, 1) for g in (0, 0.5))}
    )  # fmt: skip
    made = drawn(facts, some_results(case(*methods)), "grid", "classes", "rare-classes")
    assert "All classes: best 70.0% at α = 0.1, γ = 0.5; Class 2: best 23.3% at" in made["grid"].alt
    assert selected_classes(facts, some_results(case(*methods))) == [2]
    by_case = drawn(study("grid"), some_results(pair("two epochs"), pair("one")), "grid")
    assert "two epochs: <b>A; one: <b>A." in by_case["grid"].alt


def test_inclusion_and_regions():
    invited = Invited(invited=[[0.0, 0.1], [0.9, 0.8]], share=[[0.5], [1.0]])
    record = Inclusion(kinds=["rare", "often"], rounds=[1, 25], present=[[0.1, 0.2], [0.9, 0.8]],
                       methods={"B": invited})  # fmt: skip
    plane = Regions(low=[0, 0], high=[1, 1], points=[[0.2, 0.2], [0.8, 0.8]], classes=[0, 1],
                    answers={"<b>A": ["00", "00"], "B": ["00", "11"]})  # fmt: skip
    one = pair("κ = 1", inclusion=record, regions=plane)
    made = drawn(study("inclusion", "regions"), some_results(one), "inclusion", "regions")
    assert "rare 50%, often 100%" in made["inclusion"].alt
    assert "<b>A: never predicts class 1." in made["regions"].caption
    assert made["regions"].wide.count("<image") == 2
    assert pictures(study("inclusion", "regions", "map"), some_results(case(method("B", [0.5] * 3)))) == {}


def test_the_map_names_the_best_of_each_cell_and_horizon():
    rounds = [1, *range(5, 101, 5)]
    early = [0.6 if r <= 30 else 0.5 for r in rounds]
    late = [0.5 if r <= 30 else 0.6 for r in rounds]

    def with_curve(label, mean, noise):
        return method(label, [0.5] * 4, curve=[[m + n for m in mean] for n in noise])

    same, noisy = (0.01, 0.02, 0.03, 0.04), (0.03, -0.05, 0.05, 0.02)
    places = {"easy": {"λ": 0.0, "c": 1.0}, "hard": {"λ": 0.9, "c": 1.0}}
    mapped = study("map", cases=tuple(Case(label=name, coordinates=at) for name, at in places.items()))
    clear = [with_curve("<b>A", early, same), with_curve("B", late, same)]
    blurred = [with_curve("<b>A", early, same), with_curve("B", early, noisy)]
    found = some_results(
        *(case(*own, label=name, draws=4, rounds=rounds) for name, own in zip(places, (clear, blurred), strict=True))
    )
    ((h1, first), _, (h3, last)) = winners(mapped, found)
    assert (h1, h3) == (10, 100)
    assert (first["easy"].first, last["easy"].first) == ("<b>A", "B")
    assert last["easy"].lead.mean == pytest.approx(10.0)
    assert last["easy"].clear
    assert not last["hard"].clear
    made = drawn(mapped, found, "map")
    assert "after 100 rounds B in 1 of 2" in made["map"].caption
    assert "≈" in made["map"].wide


def test_codes_differ():
    labels = ["FedAvg", "AdaFed", "FedAU", "FedAWE", "SCAFFOLD", "FedStale", "F3AST", "FedVARP"]
    assert len(set(codes(labels).values())) == len(labels)
    assert max(map(len, codes(labels).values())) == 2


# The page


def test_the_page_holds_claims_numbers_and_how_it_was_run(tmp_path):
    asked = study("curves", "ends", claims=[{"method": "C", "against": "B"}])
    found = some_results(pair())
    claims = judge(asked, found)
    assert [one.verdict for one in claims] == ["holds", "not tested"]
    page = reproduction.render(asked, found, claims)
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    for wanted in (
        "Fig. 1: A &lt; B", "Of 2 claims, 1 holds and 1 was not tested.", "A is better. +4.2 points +4.33 points",
        "✓ holds", "○ not tested", "Not run at this scale: C.", "fedtide reproduce x", "reduced: fewer clients",
        "6 settings per method", "90 s", "rate = 0.1", "62.0% 57.0 to 67.0", "at the edge of the grid",
    ):  # fmt: skip
        assert wanted in text.replace("\u00a0", " "), wanted
    assert 'href="results.json"' in page
    assert "Worst-served tenth" not in text  # not measured here
    assert "<b>" not in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
    assert "nan" not in text.lower().replace("finance", "")
