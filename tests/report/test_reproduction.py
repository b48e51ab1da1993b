"""Figures and pages of stored results: plain data in, no simulation."""

import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from fedtide.experiments.claims import in_words, judge
from fedtide.experiments.study import Claim, Study
from fedtide.report import reproduction
from fedtide.report import reproduction_numbers as numbers
from fedtide.report import reproduction_words as told
from fedtide.report.reproduction_figures import pictures, standalone
from fedtide.report.reproduction_heat import telling_classes
from fedtide.report.reproduction_maps import codes, winners

ROUNDS = [10, 20, 30, 40, 50]
METHODS = ("<b>A", "B")


def method(label, late, *, slow=0.0, classes=False, tuned=True, lost=()):
    """A method whose replicas end at `late`; the slower, the longer it takes."""
    reached = 1 - np.exp(-np.array(ROUNDS) / 10 / (1 + slow))
    curve = np.outer(late, reached / reached[-1])
    found = {
        "label": label,
        "written": {"name": label.lower()},
        "tuned": {"settings": {"rate": 0.1}, "score": 0.5, "edges": ["rate"], "trials": 6} if tuned else None,
        "diverged": [i in lost for i in range(len(late))],
        "objective_curve": np.linspace(2.0, 1.0, 5).tolist(),
        "objective": [1.0] * len(late),
        "tail_loss": [1.5] * len(late),
        "curve": [[None] * 5 if i in lost else row for i, row in enumerate(curve.tolist())],
        "late": [None if i in lost else x for i, x in enumerate(late)],
        **{name: list(late) for name in ("average", "best")},
        "spread": [0.003] * len(late),
        "worst_decile": [None] * len(late),  # no client has test data
    }
    if classes:
        found["classes"] = [[x, x / 2, x / 3] for x in late]
        found["classes_curve"] = [[r, r / 2, r / 3] for r in reached.tolist()]
    return found


def case(*methods, label="", value=None, draws=3):
    runs = len(methods[0]["late"])
    problem = {"name": "digits", "data": None, "clients": 8, "samples": 320, "parameters": 650}
    return {"label": label, "value": value, "problem": problem, "availability": {}, "local": {"steps": 5}, "seeds": 1,
            "draw": np.repeat(np.arange(draws), runs // draws).tolist(), "rounds": ROUNDS, "methods": list(methods),
            "seconds": 1.0}  # fmt: skip


def pair(label="", value=None, **more):
    return case(method("<b>A", [0.6, 0.62, 0.64], **more), method("B", [0.55, 0.58, 0.6], slow=1, **more),
                label=label, value=value)  # fmt: skip


def results(*cases):
    return {"name": "x", "scale": "reduced", "note": "fewer clients", "draws": 3, "cases": list(cases), "seconds": 90.0,
            "hardware": "1 × cpu", "versions": {"fedtide": "0"}, "command": "fedtide reproduce x"}  # fmt: skip


def given(*shows, methods=METHODS, fixed=(), claims=()) -> Study:
    better = Claim(says="A is better.", published="+4.2 points", method="<b>A", against="B")
    return Study(
        paper="p", figure="Fig. 1", title="A < B", about="One.\n\nTwo.", shows=shows or ("curves",), problem={},
        availability={}, run={}, tune={"trials": 6}, methods=tuple({"name": m.lower(), "label": m} for m in methods),
        fixed=tuple({"name": m.split(",")[0].lower(), "label": m} for m in fixed), scales={},
        claims=(better, *(Claim(says="s", published="p", **claim) for claim in claims)),
    )  # fmt: skip


def study(*shows, **more):
    return reproduction.facts(given(*shows, **more))


# Numbers


def test_an_interval_is_students_over_draws_where_there_are_several():
    one = case(method("A", [0.1, 0.2, 0.3, 0.4]), draws=1)
    assert numbers.replicas(one, np.arange(4.0)).tolist() == [0, 1, 2, 3]  # one draw: seeds count
    many = case(method("A", [0.1] * 10), draws=5)
    assert numbers.replicas(many, np.arange(10.0)).tolist() == [0.5, 2.5, 4.5, 6.5, 8.5]
    found = numbers.level(np.array([1.0, 2.0, 4.0]))
    half = 4.30265 * np.std([1, 2, 4], ddof=1) / np.sqrt(3)  # 97.5 % quantile of t with 2 degrees of freedom
    assert found == pytest.approx((7 / 3, 7 / 3 - half, 7 / 3 + half), rel=1e-5)
    assert numbers.level(np.array([1.0])) == (1.0, None, None)


def test_a_run_that_diverged_counts_as_nothing_right_and_a_measure_that_is_missing_as_missing():
    lost = method("A", [0.6, 0.6, 0.6], lost=(1,))
    assert numbers.values(lost, "late").tolist() == [0.6, 0.0, 0.6]
    assert numbers.values(lost, "worst_decile") is None
    assert numbers.values(lost, "classes") is None
    assert numbers.values(method("A", [0.6], lost=(0,)), "late").tolist() == [0.0]


def test_published_settings_share_the_colour_of_their_method():
    facts = study(methods=("A", "A, known"), fixed=("A, known, published rates", "A, published rates", "C"), claims=(
        {"method": "α = 1, γ = 0"},))  # fmt: skip
    assert numbers.partners(facts) == {"A, known, published rates": "A, known", "A, published rates": "A"}
    assert numbers.order(facts) == ["A", "A, known", "C"]
    cells = facts | {"fixed": [{"name": "a", "label": f"α = {a}, γ = 0"} for a in (0.1, 1)]}
    # A cell of a grid belongs to the method that it is a setting of, unless a claim is about it.
    assert numbers.partners(cells) == {"α = 0.1, γ = 0": "A"}
    assert numbers.partners(facts | {"tune": None}) == {}


def test_cases_stand_on_an_axis_by_their_values():
    cases = [pair(f"{w}, d = {d}", d) for w in ("IID", "skewed") for d in (9, 1)]
    assert numbers.on_axis(cases)
    assert numbers.axis(cases) == "d"
    assert {k: [c["value"] for c in v] for k, v in numbers.grouped(cases).items()} == {"IID": [1, 9], "skewed": [1, 9]}
    assert not numbers.on_axis([pair("a"), pair("b")])


# Words


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        ({"measure": "late", "against": "B"}, "+1.50 points (−0.50 to +3.50)"),
        ({"measure": "late", "value": 80.0}, "81.50% (79.50 to 83.50)"),
        ({"measure": "spread", "value": 0.0}, "1.50 points (−0.50 to 3.50)"),
        ({"measure": "included", "against_group": "g"}, "+1.50 points (−0.50 to +3.50)"),
        ({"measure": "objective", "against": "B"}, "+1.5 (−0.5 to +3.5)"),
        ({"measure": "speedup", "against": "B"}, "×1.50 (×0.50 to ×3.50)"),
        ({"measure": "late", "trend": True}, "+1.5 points per unit (−0.5 to +3.5)"),
    ],
)
def test_ours_has_its_unit_and_its_interval(claim, expected):
    low = 0.5 if claim["measure"] == "speedup" else -0.5
    comparison = {"case": "", "against": "B", "mean": 1.5, "low": low, "high": 3.5, "outcome": "undecided"}
    row = {"against": None, "against_group": None, "trend": False, "value": 0.0, "comparisons": [comparison], **claim}
    assert told.ours(row) == expected
    row["comparisons"] = [comparison | {"low": None, "high": None}]
    assert told.ours(row).endswith("(one run: no interval)")
    assert told.ours(row | {"comparisons": []}) == "–"


def test_many_comparisons_are_told_by_their_ends():
    found = [{"case": f"c{i}", "against": "B", "mean": float(i), "low": i - 1.0, "high": i + 1.0, "outcome": "holds"}
             for i in range(6)]  # fmt: skip
    row = {"measure": "late", "against": ["B"], "against_group": None, "trend": False, "value": 0.0}
    assert told.ours(row | {"comparisons": found}) == "from 0.00 (c0) to +5.00 (c5) points, 6 comparisons"
    assert told.ours(row | {"comparisons": found[1:3]}) == (
        "c1: +1.00 points (0.00 to +2.00); c2: +2.00 points (+1.00 to +3.00)"
    )


def test_the_answer_counts_verdicts():
    some = [{"verdict": v} for v in ("does not hold", "holds", "holds", "not tested")]
    assert told.answer(some) == "Of 4 claims, 2 hold, 1 does not hold and 1 was not tested."
    assert told.answer(some[:1]) == "The claim does not hold."
    assert list(told.counts(some).items()) == [("holds", 2), ("does not hold", 1), ("not tested", 1)]
    assert len(set(told.MARKS.values())) == len(told.MARKS)  # told apart without colour


def test_warnings_name_edges_and_lost_runs():
    found = results(pair("one"), case(method("B", [0.5, 0.6, 0.7], lost=(0,)), label="two"))
    assert told.warnings(found) == [
        "<b>A: the chosen rate is at the edge of its grid (one); more might be better.",
        "B: the chosen rate is at the edge of its grid (one, two); more might be better.",
        "B, two: 1 of 3 runs diverged; its accuracy counts as 0 there.",
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
    found = results(case(*pair()["methods"], published))
    made = drawn(study("curves", "ends", fixed=["B, published rates"]), found, "curves", "ends")
    assert "Below what is shown: B, published rates (ends at 20.0%)" in made["curves"].caption
    assert made["curves"].alt.endswith("<b>A 62.0%, B 57.7%.")
    assert "◂ 20.0%" in made["ends"].wide  # far from the tuned ones: told at the edge
    assert "vs &lt;b&gt;A" in made["ends"].wide
    several = drawn(study("ends"), results(pair("λ = 0", 0.0), pair("λ = 10", 10.0), pair("λ = 900", 900.0)), "ends")
    for text in ("λ", ">0<", ">10<", ">900<"):  # evenly spaced: no value of three decades is lost beside 0
        assert text in several["ends"].wide


def test_without_accuracies_the_objective_is_drawn():
    found = results(pair())
    for one in found["cases"][0]["methods"]:
        for name in ("curve", "late", "average", "best", "spread"):
            del one[name]
    made = drawn(study("curves", "ends"), found, "curves", "ends")
    assert made["curves"].caption.startswith("Objective over rounds")


def test_a_grid_of_settings_frames_its_best():
    cells = [f"α = {a}, γ = {g}" for a in (0.1, 1) for g in (0, 0.5)]
    methods = [method(c, [x] * 3, classes=True) for c, x in zip(cells, (0.5, 0.7, 0.6, 0.4), strict=True)]
    claims = [{"method": cells[0], "measure": "classes", "classes": (2,)}]
    facts = study("grid", "classes", methods=cells, claims=claims)
    made = drawn(facts, results(case(*methods)), "grid", "classes", "rare-classes")
    assert "All classes: best 70.0% at α = 0.1, γ = 0.5; Class 2: best 23.3% at" in made["grid"].alt
    assert telling_classes(facts, results(case(*methods))) == [2]
    by_case = drawn(study("grid"), results(pair("two epochs"), pair("one")), "grid")
    assert "two epochs: <b>A; one: <b>A." in by_case["grid"].alt


def test_inclusion_and_regions():
    one = pair("κ = 1")
    one["inclusion"] = {"kinds": ["rare", "often"], "rounds": [1, 25], "present": [[0.1, 0.2], [0.9, 0.8]],
                        "methods": {"B": {"invited": [[0.0, 0.1], [0.9, 0.8]], "share": [[0.5], [1.0]]}}}  # fmt: skip
    one["regions"] = {"low": [0, 0], "high": [1, 1], "points": [[0.2, 0.2], [0.8, 0.8]], "classes": [0, 1],
                      "answers": {"<b>A": ["00", "00"], "B": ["00", "11"]}}  # fmt: skip
    made = drawn(study("inclusion", "regions"), results(one), "inclusion", "regions")
    assert "rare 50%, often 100%" in made["inclusion"].alt
    assert "<b>A: never answers class 1." in made["regions"].caption
    assert made["regions"].wide.count("<image") == 2
    assert pictures(study("inclusion", "regions", "map"), results(case(method("B", [0.5] * 3)))) == {}


def test_the_map_names_the_best_of_each_cell_and_horizon():
    rounds = [1, *range(5, 101, 5)]
    early = [0.6 if r <= 30 else 0.5 for r in rounds]
    late = [0.5 if r <= 30 else 0.6 for r in rounds]

    def with_curve(label, mean, noise):
        own = method(label, [0.5] * 4)
        own["curve"] = [[m + n for m in mean] for n in noise]
        return own

    same, noisy = (0.01, 0.02, 0.03, 0.04), (0.03, -0.05, 0.05, 0.02)
    clear = case(with_curve("<b>A", early, same), with_curve("B", late, same), label="λ = 0, c = 1", draws=4)
    blurred = case(with_curve("<b>A", early, same), with_curve("B", early, noisy), label="λ = 0.9, c = 1", draws=4)
    for one in (clear, blurred):
        one["rounds"] = rounds
    found = results(clear, blurred)
    ((h1, first), _, (h3, last)) = winners(study("map"), found)
    assert (h1, h3) == (10, 100)
    assert (first[clear["label"]].first, last[clear["label"]].first) == ("<b>A", "B")
    assert last[clear["label"]].lead.mean == pytest.approx(10.0)
    assert last[clear["label"]].clear
    assert not last[blurred["label"]].clear
    made = drawn(study("map"), found, "map")
    assert "after 100 rounds B in 1 of 2" in made["map"].caption
    assert "≈" in made["map"].wide


def test_codes_differ():
    labels = ["FedAvg", "AdaFed", "FedAU", "FedAWE", "SCAFFOLD", "FedStale", "F3AST", "FedVARP"]
    assert len(set(codes(labels).values())) == len(labels)
    assert max(map(len, codes(labels).values())) == 2


# The page


def test_the_page_holds_claims_numbers_and_how_it_was_run(tmp_path):
    asked = given("curves", "ends", claims=[{"method": "C", "against": "B"}])
    facts, found = reproduction.facts(asked), json.loads(json.dumps(results(pair())))
    claims = reproduction.rows(judge(asked, found), in_words)
    assert [row["verdict"] for row in claims] == ["holds", "not tested"]
    page = reproduction.write(tmp_path / "page.html", facts, found, claims).read_text("utf-8")
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    for wanted in (
        "Fig. 1: A &lt; B", "Of 2 claims, 1 holds and 1 was not tested.", "A is better. +4.2 points +4.33 points",
        "✓ holds", "○ not tested", "C was not run at this scale.", "fedtide reproduce x", "reduced: fewer clients",
        "6 settings for every method", "90 s", "rate = 0.1", "62.0% 57.0 to 67.0", "at the edge of its grid",
    ):  # fmt: skip
        assert wanted in text.replace("\u00a0", " "), wanted
    assert 'href="results.json"' in page
    assert "Worst tenth" not in text  # not measured here
    assert "<b>" not in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
    assert "nan" not in text.lower().replace("finance", "")
