"""The packaged studies can be planned at every scale, their claims name known methods and cases, and they run."""

import math
import re
from typing import get_args

import numpy as np
import pytest

from fedtide.errors import FedtideError
from fedtide.experiments import build
from fedtide.problems import Classification
from fedtide.reproduce.claims import judge
from fedtide.reproduce.run import reproduce
from fedtide.reproduce.study import ScaleName, Study, by_paper, label_of, load_study, names, papers, plan
from fedtide.tuning.space import space

SCALES = get_args(ScaleName)
GENERATED = ("ca_fed_fig1a", "ca_fed_readme", "cvar_toy_thirty", "beyond_phones")  # data that need no files


def labels(study: Study) -> list[str]:
    return [label_of(method) for method in (*study.methods, *study.fixed)]


def rivals(claim) -> list[str]:
    return [] if claim.against is None else [claim.against] if isinstance(claim.against, str) else list(claim.against)


def test_every_listed_figure_is_there():
    found = {paper: list(studies) for paper, studies in by_paper().items()}
    assert list(found) == list(papers())
    figures = ("1a", "1b", "1c", "1d", "2", "3", "4", "5")
    assert set(found["ca_fed"]) == {*(f"ca_fed_fig{figure}" for figure in figures), "ca_fed_readme"}
    toys = {f"cvar_toy_{users}" for users in ("three", "four", "thirty")}
    assert set(found["fed_cvar_avg"]) == toys | {"cvar_mnist_fig3", "cvar_mnist_fig4", "cvar_fashion_table1"}
    assert set(found["stochastic_approximation"]) == {"sa_fmnist", "sa_cifar"}
    shown = ("fedexp", "fedvarp", "power_of_choice", "cyclic", "fednova")
    assert set(found["slides"]) == {f"slides_{name}" for name in shown}
    assert set(found["beyond"]) == {"beyond_ca_fed", "beyond_phones", "beyond_traces", "beyond_map"}


@pytest.mark.parametrize("name", names())
def test_it_plans_at_every_scale_and_says_how_each_differs(name):
    study = load_study(name)[1]
    assert set(study.scales) == set(SCALES)
    assert all(changes.note for changes in study.scales.values())
    assert study.claims
    every = labels(study)
    assert len(set(every)) == len(every)
    for scale in SCALES:
        for panel in plan(name, scale).panels:
            written = [method.label or method.name for method in panel.config.methods]
            assert written == [label for label in every if label not in study.scales[scale].without]
            assert isinstance(panel.config.run.seeds, int)


@pytest.mark.parametrize("name", names())
def test_claims_are_about_groups_classes_and_trends_that_exist(name):
    """Beyond what `plan` refuses: what is known only once the clients, the classes and the cases are."""
    study = load_study(name)[1]
    cases = {case.label: case for case in study.cases}
    whole = plan(name, "paper").panels[0].config
    availability = build(plan(name, "smoke").panels[0].config).availability
    clusters = availability.clusters
    kinds = set(availability.classes() if clusters is None else (f"cluster {c}" for c in clusters))
    for claim in study.claims:
        if claim.trend:
            places = [cases[label].value for label in claim.cases or cases]
            assert len(set(places)) == len(places) >= 2
        assert {*claim.groups, claim.against_group} <= {*kinds, None}
    classes = {c for claim in study.claims for c in claim.classes}
    if whole.problem.arguments.get("partition", {}).get("name") == "rare_pattern":
        assert classes <= set(whole.problem.arguments["partition"]["pattern"])


@pytest.mark.parametrize("name", GENERATED)
def test_studies_on_generated_data_build_at_reduced_with_equal_budgets(name):
    panel = plan(name, "reduced").panels[-1]
    sizes = build(panel.config).problem.sizes
    spaces = [space(panel.config, i, sizes) for i in range(panel.tuned)]
    assert {len(own.trials) for own in spaces} == {panel.config.tune.trials}
    # Exactly the listed settings are tried.
    assert all(math.prod(len(axis.values) for axis in own.axes) == len(own.trials) for own in spaces)


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ('shows = ["map"]', "cases: a map needs two coordinates for every case"),
        ('grid = {"α" = "level"}', "grid: must name two axes, each with an argument"),
        ('inclusion = ["C"]', "inclusion: no method is labelled 'C'"),
        ('shows = ["best"]', 'best: missing; shows = ["best"] needs the name of an argument'),
        ('shared = "C"', "shared: no method is labelled 'C'"),
        ("problem.seed = 1", "problem.seed: must not be set"),
        ('claims = [{says = "A wins.", published = "–", method = "fedavg", measure = "late"}]',
         'claims[0].measure: "late": renamed; use "final"'),
    ],
)  # fmt: skip
def test_a_study_that_could_not_be_drawn_is_refused(tmp_path, more, line):
    path = tmp_path / "mine.toml"
    tables = (
        'availability = {name = "always"}\nrun = {rounds = 1}\nmethods = [{name = "fedavg"}]\nscales = {smoke = {}}'
    )
    texts = 'paper = "mine"\nfigure = "Table 1"\ntitle = "Mine"\nabout = "A question."\nproblem.name = "digits"'
    path.write_text(f"{texts}\n{tables}\n{more}\n", "utf-8")
    with pytest.raises(FedtideError, match=re.escape(f"mine.toml: {line}")):
        plan(str(path), "smoke")


# Compiling all studies takes minutes: by default one of each kind runs, the others with -m slow.
QUICK = ("ca_fed_fig1a", "sa_fmnist", "slides_fednova", "beyond_phones")


def never_available(claim, results) -> bool:
    """Whether the claim is about kinds of clients that are available in no round of any run."""
    cases = [case for case in results.cases if case.label in (claim.cases or {case.label for case in results.cases})]
    shares = [case.inclusion.methods[claim.method].share[case.inclusion.kinds.index(kind)]
              for case in cases for kind in claim.groups]  # fmt: skip
    return bool(shares) and bool(np.isnan(shares).all())


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in names()]
)
def test_it_runs_at_smoke_and_every_claim_gets_a_verdict(name, monkeypatch):
    # The optima of clients take minutes at larger scales, so no study may need them.
    monkeypatch.delattr(Classification, "client_optima")
    planned = plan(name, "smoke")
    results = reproduce(planned)
    runs = planned.draws * results.cases[0].seeds
    for panel, case in zip(planned.panels, results.cases, strict=True):
        assert case.label == panel.label
        assert [m.label for m in case.methods] == [m.label or m.name for m in panel.config.methods]
        for i, method in enumerate(case.methods):
            assert np.shape(method.curve) == (runs, len(case.rounds))
            assert not any(method.diverged)
            tunes = planned.study.tune is not None and panel.config.tune.trials > 1
            assert (method.tuned is not None) == (i < panel.tuned and tunes)
    judged = judge(planned.study, results)
    assert [one.claim for one in judged] == list(planned.study.claims)
    left_out = set(planned.study.scales["smoke"].without)
    ran = {case.label for case in results.cases}
    for one in judged:
        claim = one.claim
        missing = {claim.method, *rivals(claim)} & left_out or not ran & set(claim.cases or ran)
        later = claim.round is not None and claim.round not in results.cases[0].rounds
        slope = claim.trend and len(ran & set(claim.cases or ran)) < 2
        assert (one.verdict == "not tested") == bool(missing or later or slope or never_available(claim, results)), one
    assert any(one.verdict != "not tested" for one in judged)
