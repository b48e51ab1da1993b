"""Every figure and table of the papers is in the table of coverage."""

import pytest

from fedtide.reproduce import study

FIGURES = {
    "ca_fed": [
        *("Fig. 1a", "Fig. 1b", "Fig. 1c", "Fig. 1d", "Fig. 2a", "Fig. 2b", "Fig. 3", "Fig. 4a", "Fig. 4b"),
        *("Fig. 5a", "Fig. 5b", "Fig. 5c", "Fig. 5d", "Table I"),
        *(f"Table II, {data}" for data in ("Synthetic LEAF", "MNIST", "CIFAR-10")),
    ],
    "fed_cvar_avg": ["Fig. 1", "Fig. 2a", "Fig. 2b", "Fig. 2c", "Fig. 3", "Fig. 4", "Table 1"],
    "stochastic_approximation": [
        "Fig. 1",
        *(f"Fig. {n}, {data}" for n in (2, 3) for data in ("F-MNIST", "CIFAR-10", "CIFAR-100", "STL-10")),
    ],
    "slides": [
        *("FedExP", "Average drift at optimum"),
        *("FedVARP, LeNet-5 on CIFAR-10", "FedVARP, ResNet-18 on CIFAR-10"),
        *("Power of choice, number of candidates", "Power of choice, efficient variants"),
        *("Power of choice, fairness", "Selection of low losses"),
        *(f"Cyclic participation, {panel}" for panel in ("(a) GD", "(b) Local SGD", "(c) Shuffled SGD")),
        "FedNova table",
    ],
}
"""Every figure and table in the texts of the papers, and every result that the slides show."""

ELSEWHERE = {"ca_fed": {"README of the code"}}


@pytest.mark.parametrize("paper", FIGURES)
def test_no_figure_is_missing(reproduce, paper):
    named = [row.figure for row in reproduce.covered() if row.paper == paper]
    assert sorted(named) == sorted([*FIGURES[paper], *ELSEWHERE.get(paper, ())])
    assert reproduce.coverage(paper) in reproduce.index_page()


def test_every_row_names_a_study_of_its_paper_or_says_why_there_is_none(reproduce):
    for row in reproduce.covered():
        assert bool(row.study) != bool(row.why), row
        assert bool(row.study) == bool(row.deviates), row
        if row.study:
            one = study.load_study(row.study)[1]
            assert one.paper == row.paper
            assert set(row.cases) <= {case.label for case in one.cases}, row


def test_every_study_of_a_paper_is_in_the_table(reproduce):
    named = {row.study for row in reproduce.covered()}
    for paper in FIGURES:
        assert set(study.by_paper()[paper]) <= named
    assert {row.paper for row in reproduce.covered()} == set(FIGURES) == study.papers().keys() - {"beyond"}


def test_rows_say_at_which_scale_they_ran_and_how_a_smaller_one_differs(reproduce):
    for row in reproduce.covered():
        results = reproduce.stored(row.study) if row.study else None
        ran, deviates = reproduce._run(row)
        assert (f"`{results.scale}`" in ran) if results else (ran == "not run"), row
        if ran.startswith("`reduced`"):
            assert results.note in deviates


def test_with_tuned_rates_ca_fed_is_best_in_no_study_as_its_page_says(reproduce):
    said = "With tuned rates CA-Fed does not have the highest accuracy in any of our runs."
    assert said in " ".join(study.papers()["ca_fed"].about.split())
    methods = ("Unbiased", "More available", "AdaFed", "F3AST", "CA-Fed")
    for name in (*study.by_paper()["ca_fed"], "beyond_ca_fed"):
        results = reproduce.stored(name)
        for case in results.cases if results else ():
            ends = {m.label: m.values("final").mean() for m in case.methods if m.tuned and m.label in methods}
            assert not ends or max(ends, key=ends.get) != "CA-Fed", (name, case.label)
