"""A study that was stopped continues from its cells; settings are chosen as the study says."""

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fedtide.errors import FedtideError
from fedtide.experiments.config import with_values
from fedtide.reproduce import choosing, run
from fedtide.reproduce.run import reproduce
from fedtide.reproduce.study import StudyPlan, plan
from fedtide.simulation import cells

STUDY = """
paper = "mine"
figure = "Fig. 1"
title = "Tiny"
about = "A small version of ca_fed_fig1a."
shows = ["curves", "inclusion", "activity", "estimates"]
inclusion = ["CA-Fed"]
problem = {name = "images", data = "digits", clients = 6, samples = 120, test_samples = 30}
availability = {name = "paper_population"}
run = {rounds = 2, seeds = 1, evaluate_every = 1, history = 3}
local = {steps = 1, batch = 4}
methods = [{name = "unbiased", label = "Unbiased"}, {name = "ca_fed", label = "CA-Fed"}]
cases = [{label = "one"}, {label = "two", problem = {importance = "size"}}]
fixed = [{name = "unbiased", label = "Unbiased, published rates", rate = 0.5}]
claims = [{says = "s", published = "p", method = "CA-Fed", against = "Unbiased"}]
scales = {smoke = {}}
"""
TUNE = {"trials": 4, "seeds": 1, "space": {"rate": [0.01, 0.1], "server_rate": [0.3, 1.0]}}


def small(folder: Path, more: str = "draws = 2\ntuning_draws = 2", **tune: Any) -> StudyPlan:
    path = folder / "mine.toml"
    written = TUNE | tune
    lists = ", ".join(f"{name} = {values}" for name, values in written["space"].items())
    table = f"tune = {{trials = {written['trials']}, seeds = {written['seeds']}, space = {{{lists}}}}}"
    path.write_text(f"{more}\n{table}\n{STUDY}", "utf-8")
    return plan(str(path), "smoke")


def numbers(results) -> dict[str, Any]:
    """The results without times."""
    facts = results.model_dump(exclude={"seconds"})
    for case in facts["cases"]:
        del case["seconds"]
    return facts


class Stopped(Exception):
    pass


def stop_after(calls: int):
    left = iter(range(calls))

    def progress(*_: Any) -> None:
        if next(left, None) is None:
            raise Stopped

    return progress


def test_a_stopped_study_continues_and_gives_the_same_results(tmp_path):
    planned, calls = small(tmp_path), []
    whole = reproduce(planned, lambda *call: calls.append(call))
    assert all(method.tuned is not None for method in whole.cases[0].methods[:2])
    assert whole.cases[0].activity is not None
    assert whole.cases[1].estimates is not None
    folder, kept = tmp_path / "cells", []
    for _ in range(3):  # each attempt gets further than the one before
        with pytest.raises(Stopped):
            reproduce(planned, stop_after(len(calls) // 4), cells=folder)
        kept.append(len([*folder.iterdir()]))
    assert 0 < kept[0] < kept[1] < kept[2]
    resumed = []
    again = reproduce(planned, lambda *call: resumed.append(call), cells=folder)
    assert numbers(again) == numbers(whole)
    assert len(resumed) < len(calls) / 2
    # Once all cells are there, nothing is computed, and the time that they took is still reported.
    last = reproduce(planned, stop_after(0), cells=folder)
    assert numbers(last) == numbers(whole)
    assert last.seconds == pytest.approx(again.seconds, abs=0.2)


def test_processes_that_run_the_same_study_share_its_cells(tmp_path, monkeypatch):
    planned, computed = small(tmp_path), []
    try_all = run.try_all

    def counted(*given: Any, **options: Any):
        computed.append(options["seeds"])
        return try_all(*given, **options)

    monkeypatch.setattr(run, "try_all", counted)
    monkeypatch.setattr(cells, "_POLL", 0.01)
    alone = numbers(reproduce(planned))
    count = len(computed)
    with ThreadPoolExecutor(3) as pool:  # locks exclude threads as they exclude processes
        shared = list(pool.map(lambda _: numbers(reproduce(planned, cells=tmp_path / "cells")), range(3)))
    assert shared == [alone] * 3
    assert len(computed) == 2 * count
    assert not [*tmp_path.glob("cells/*.lock")]


@pytest.mark.parametrize("stop", [0, 3, 7])
def test_it_may_be_stopped_anywhere(tmp_path, stop):
    planned = small(tmp_path, "draws = 1", trials=1)
    whole = reproduce(planned)
    with pytest.raises(Stopped):
        reproduce(planned, stop_after(stop), cells=tmp_path / "cells")
    assert numbers(reproduce(planned, cells=tmp_path / "cells")) == numbers(whole)


def test_a_damaged_cell_is_named(tmp_path):
    planned, folder = small(tmp_path, trials=1), tmp_path / "cells"
    reproduce(planned, cells=folder)
    cell = sorted(folder.iterdir())[0]
    cell.write_bytes(cell.read_bytes()[:20])
    with pytest.raises(FedtideError, match=r"damaged .*delete the file to compute it again") as raised:
        reproduce(planned, cells=folder)
    assert str(cell) in str(raised.value)
    assert "\n" not in str(raised.value)
    cell.unlink()
    reproduce(planned, cells=folder)


@pytest.mark.parametrize(
    "other",
    [{"more": "draws = 1"}, {"more": "draws = 2\ntuning_draws = 1"}, {"space": {"rate": [0.01, 0.2]}, "trials": 2}],
)
def test_cells_of_other_settings_are_not_used(tmp_path, other):
    folder, changed = tmp_path / "cells", small(tmp_path, **other)
    without = numbers(reproduce(changed))
    reproduce(small(tmp_path), cells=folder)
    before = set(folder.iterdir())
    assert numbers(reproduce(changed, cells=folder)) == without
    assert before < set(folder.iterdir())


# Tuning


def scored(monkeypatch, score) -> list[tuple]:
    """Replaces trials by a function of (label, values); returns the calls [(label, number of settings)]."""
    calls = []

    class Trials:
        def __init__(self, scores):
            self.score = scores

    def run_trials(one, label, **_):
        trials = one.spaces[label].trials
        calls.append((label, len(trials)))
        return Trials(
            [score(label, dict(zip((a.name for a in one.spaces[label].axes), v, strict=True))) for v in trials]
        )

    monkeypatch.setattr(choosing, "run_trials", run_trials)
    return calls


def chosen(planned: StudyPlan) -> dict[str, Any]:
    return {method.label: method.tuned for method in reproduce(planned).cases[0].methods if method.tuned}


def test_lists_are_extended_for_all_methods_if_a_best_value_is_at_their_end(tmp_path, monkeypatch):
    def score(label: str, values: dict[str, float]) -> float:
        best = 0.001 if label == "CA-Fed" else 0.1  # CA-Fed is best at the smallest rate that it can get
        return -abs(math.log(values["rate"] / best)) - abs(math.log(values["server_rate"] / 0.3))

    calls = scored(monkeypatch, score)
    space = {"rate": [0.01, 0.1, 1.0], "server_rate": [0.1, 0.3, 1.0]}
    found = chosen(small(tmp_path, "extensions = 1", space=space, trials=9))
    assert found["CA-Fed"].settings == {"rate": 0.001, "server_rate": 0.3}
    assert found["CA-Fed"].edges == ["rate"]  # at the edge of the extended list
    assert found["Unbiased"].settings == {"rate": 0.1, "server_rate": 0.3}
    assert found["Unbiased"].edges == []
    assert {tuned.trials for tuned in found.values()} == {12}
    assert calls[:4] == [("Unbiased", 9), ("CA-Fed", 9), ("Unbiased", 3), ("CA-Fed", 3)]  # only new settings are tried


@pytest.mark.parametrize(
    ("extensions", "rate", "edges", "trials"),
    [(0, 0.01, ["rate"], 6), (2, 0.0001, ["rate"], 12), (9, 0.0001, [], 15)],  # the last one stops early
)
def test_lists_are_extended_up_to_so_many_times(tmp_path, monkeypatch, extensions, rate, edges, trials):
    scored(monkeypatch, lambda _, v: -abs(math.log(v["rate"] / 0.0002)) - abs(math.log(v["server_rate"] / 0.3)))
    space = {"rate": [0.01, 0.1], "server_rate": [0.1, 0.3, 1.0]}
    for tuned in chosen(small(tmp_path, f"extensions = {extensions}", space=space, trials=6)).values():
        assert (tuned.settings["rate"], tuned.edges, tuned.trials) == (rate, edges, trials)


def test_an_incomplete_grid_is_not_extended(tmp_path, monkeypatch):
    scored(monkeypatch, lambda _, v: -v["rate"])
    found = chosen(small(tmp_path, "extensions = 3", trials=3))
    assert {tuned.trials for tuned in found.values()} == {3}


def test_all_tuned_methods_have_the_shared_settings(tmp_path, monkeypatch):
    calls = scored(monkeypatch, lambda label, v: v["rate"] + v["server_rate"] if label == "Unbiased" else -v["rate"])
    planned = small(tmp_path, 'shared = "Unbiased"')
    found = reproduce(planned).cases[0].methods
    assert {label for label, _ in calls} == {"Unbiased"}  # the other one is not tuned
    assert [method.tuned.settings for method in found[:2]] == [{"rate": 0.1, "server_rate": 1.0}] * 2
    assert found[2].tuned is None
    alone = chosen(small(tmp_path, ""))
    assert alone["CA-Fed"].settings["rate"] == 0.01


def test_a_case_may_share_settings_that_others_do_not(tmp_path, monkeypatch):
    scored(monkeypatch, lambda label, v: v["rate"] if label == "Unbiased" else -v["rate"])
    small(tmp_path, "")
    path = tmp_path / "mine.toml"
    text = path.read_text("utf-8").replace('{label = "one"}', '{label = "one", shared = "Unbiased"}')
    path.write_text(text, "utf-8")
    found = [case.methods[1].tuned for case in reproduce(plan(str(path), "smoke")).cases]
    assert [tuned.settings["rate"] for tuned in found] == [0.1, 0.01]
    path.write_text(text.replace('shared = "Unbiased"', 'shared = "None"'), "utf-8")
    with pytest.raises(FedtideError, match=r"mine\.toml: shared: no method is labelled 'None'"):
        plan(str(path), "smoke")


def test_settings_are_shared_among_methods_with_the_same_arguments_only(tmp_path, monkeypatch):
    scored(monkeypatch, lambda _, v: v["rate"])
    small(tmp_path, 'shared = "Unbiased"')
    path = tmp_path / "mine.toml"
    own = 'label = "CA-Fed", tune = {kappa_squared = [0.1, 1.0]}}]'
    path.write_text(path.read_text("utf-8").replace('label = "CA-Fed"}]', own), "utf-8")
    with pytest.raises(FedtideError, match="shared: CA-Fed does not have the arguments of Unbiased"):
        reproduce(plan(str(path), "smoke"))


def test_scores_are_means_over_tuning_draws(tmp_path, monkeypatch):
    # The better rate on the first draw loses on average; a setting that diverges on one draw is not chosen.
    first, second, diverged = [0.9, 0.5], [0.1, 0.6], [math.nan, 0.6]
    draws = iter([first, first, second, second, first, first, diverged, diverged])  # two methods on each draw
    monkeypatch.setattr(choosing, "run_trials", lambda *_, **__: type("Trials", (), {"score": next(draws)}))
    space = {"rate": [0.01, 0.1], "server_rate": [1.0]}
    for case in reproduce(small(tmp_path, "tuning_draws = 2", space=space, trials=2)).cases:
        tuned = case.methods[0].tuned
        assert tuned is not None
        assert (tuned.settings["rate"], tuned.score) == (0.1, 0.55)


def test_estimates_need_observed_rounds(tmp_path):
    planned = small(tmp_path, "draws = 1", trials=1)
    unobserved = planned.panels[0]._replace(config=with_values(planned.panels[0].config, "run", history=0))
    found = reproduce(planned._replace(panels=[unobserved, planned.panels[1]]))
    assert [case.estimates is None for case in found.cases] == [True, False]
