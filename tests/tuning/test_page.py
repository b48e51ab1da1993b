"""The page of a tuning holds the whole grid."""

import itertools
import re

import polars as pl
import pytest

from fedtide.experiments import build, loads
from fedtide.tuning.page import heat_map, render, sentence, warnings
from fedtide.tuning.plan import Plan
from fedtide.tuning.space import Axis, Space
from fedtide.tuning.trials import MEASURES, MethodTrials
from fedtide.tuning.trials import outcomes as outcomes_of

RATES, SERVER_RATES, MUS = (0.01, 0.1, 1.0), (1.0, 10.0), (0.1, 0.5)
CONFIG = loads("""\
title = "A grid"
problem = {name = "quadratic", clients = 5}
availability = {name = "always"}
run = {rounds = 100, evaluate_every = 5}
tune = {trials = 12}
methods = [{name = "fedavg"}]
""")
SPACE = Space((Axis("rate", RATES), Axis("server_rate", SERVER_RATES), Axis("mu", MUS)), (), "all 12 combinations")


def outcomes(plan: Plan, trials: pl.DataFrame) -> list[MethodTrials]:
    return outcomes_of(plan.spaces, plan.measure, trials)


def planned(measure: str = "accuracy", space: Space = SPACE) -> Plan:
    experiment = build(CONFIG)
    return Plan(CONFIG, experiment, experiment.problem, MEASURES[measure], [7, 8], 100, {"<b>A": space}, "")


@pytest.fixture
def trials() -> pl.DataFrame:
    """Twelve trials on two seeds: the last diverged under one of them, the one before is the best."""
    rows = []
    for number, values in enumerate(itertools.product(RATES, SERVER_RATES, MUS)):
        score = None if number == 11 else 0.5 + 0.01 * number
        for seed in (7, 8):
            lost = number == 11 and seed == 8
            accuracy = float("nan") if lost else 0.5 + 0.01 * number + (0.001 if seed == 7 else -0.001)
            settings = dict(zip(("rate", "server_rate", "mu"), values, strict=True))
            rows.append({"method": "<b>A", "trial": number, **settings, "seed": seed, "validation_accuracy": accuracy,
                         "diverged": lost, "score": score, "rank": None if score is None else 11 - number})  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None)


def test_it_holds_the_whole_grid(trials):
    page = render(planned(), trials, "# this", 1.0, "fedtide tune a.toml --out b")
    tables = page.split('<table class="heat">')[1:]
    assert len(tables) == len(MUS)  # a map for each value of the third argument
    cells = re.findall(r'<td class="(tried|lost|untried)([ a-z]*)"[^>]*>([^<]*)</td>', page)
    assert sorted(text for _, _, text in cells) == sorted([f"{50 + n:.1f}" for n in range(11)] + ["×"])
    assert [text for _, best, text in cells if best] == ["60.0"]
    rows = page.split('<table class="trials">')[1].split("</table>")[0]
    assert rows.count("<tr") == 1 + 12
    for n in range(11):
        assert f"<td>{50 + n:.1f}%</td>" in rows
    assert "<b>A" not in page.replace("&lt;b&gt;A", "")
    assert "http" not in page.replace("http-equiv", "")
    assert "<script" not in page


def test_words(trials):
    (outcome,) = outcomes(planned(), trials)
    assert outcome.chosen.values == {"rate": 1.0, "server_rate": 10.0, "mu": 0.1}
    assert sentence(outcome, MEASURES["accuracy"]) == (
        "rate = 1, server_rate = 10, mu = 0.1: 60.0% validation accuracy, 1.00 points above the second best of 12 "
        "trials; 1 diverged."
    )
    assert warnings(planned(), [outcome]) == [
        "<b>A: rate = 1 is the largest value tried, server_rate = 10 is the largest value tried, mu = 0.1 is the "
        "smallest value tried: extend the lists."
    ]


def test_few_arguments_have_simple_maps_and_many_their_best(trials):
    measure = MEASURES["accuracy"]
    one = trials.filter((pl.col("server_rate") == 1) & (pl.col("mu") == 0.1))
    (outcome,) = outcomes(planned(), one)
    drawn = heat_map(outcome, measure)
    assert (drawn.down, drawn.across, len(drawn.panels), len(drawn.panels[0].rows)) == ("", "rate", 1, 1)
    (outcome,) = outcomes(planned(), trials.filter(trial=0))
    assert heat_map(outcome, measure) is None
    many = trials.with_columns(extra=pl.col("trial") * 1.0)
    four = planned(space=SPACE._replace(axes=(*SPACE.axes, Axis("extra", ()))))
    twice = many.with_columns(pl.col("trial") + 12, extra=pl.col("extra") + 12, rank=None, score=None)
    drawn = heat_map(outcomes(four, pl.concat([many, twice], how="vertical_relaxed"))[0], measure)
    assert len(drawn.panels) == 1
    assert "the best over mu, extra" in drawn.note
    best = {trial.number for _, trials in drawn.panels[0].rows for trial in trials}
    assert best == {1, 3, 5, 7, 9, 10}


def test_an_objective_is_best_where_lowest(trials):
    lower = trials.with_columns(objective=pl.col("validation_accuracy"), rank=pl.col("trial") + 1)
    (outcome,) = outcomes(planned("objective"), lower)
    assert sentence(outcome, MEASURES["objective"]).endswith("0.01 below the second best of 12 trials; 1 diverged.")
    shades = heat_map(outcome, MEASURES["objective"]).shades
    assert shades[0] > shades[5] > shades[10]
