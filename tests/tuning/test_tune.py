"""Tuning: equal trials, on data of its own, from one program."""

import dataclasses
import itertools
import tomllib
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedtide
from fedtide import problems
from fedtide.catalogue import Entry
from fedtide.errors import FedtideError
from fedtide.experiments import build, dumps, loads
from fedtide.experiments.build import located
from fedtide.experiments.config import Tune
from fedtide.simulation import engine
from fedtide.tuning import Tuning, tune
from fedtide.tuning.plan import plan
from fedtide.tuning.space import Axis, _spread, space, with_values
from fedtide.tuning.trials import MEASURES
from fedtide.work import Steps

TUNED = """\
title = "Small"

[problem]
name = "synthetic_leaf"
clients = 8
largest = 60

[availability]
name = "paper_population"

[run]
rounds = 4
seeds = 2
evaluate_every = 2

[local]
steps = 2
batch = 8

[tune]
trials = 6
seeds = 2

[tune.space]
rate = [0.01, 0.1, 1]
server_rate = [0.5, 2]

[[methods]]
name = "f3ast"
rate = 0.05
clients = 3
tune = {smoothing = [0.01, 0.1]}

[[methods]]
name = "fedavg"
label = "some"
clients = 2
tune = {rate = [0.1, 0.3, 1.0], server_rate = [1.0], clients = [2, 4]}
"""
ONE = TUNED.split("[[methods]]")[0]


class Watched(NamedTuple):
    tuning: Tuning
    programs: int  # compiled for it
    heard: list[tuple[str, int, int]]


@pytest.fixture(scope="module")
def watched():
    heard, before = [], engine.run_segment._cache_size()
    tuning = tune(loads(TUNED), progress=lambda *what: heard.append(what))
    return Watched(tuning, engine.run_segment._cache_size() - before, heard)


@pytest.fixture(scope="module")
def tuned(watched):
    return watched.tuning


def test_numbers_share_a_program_and_whole_numbers_cost_one_each(watched):
    assert watched.programs == 1 + 2  # F3AST; FedAvg of 2 clients, of 4


def test_progress_counts_the_rounds_of_all_trials(watched):
    assert {(label, total) for label, _, total in watched.heard} == {("F3AST", 24), ("some", 24)}
    for label in ("F3AST", "some"):
        done = [now for name, now, _ in watched.heard if name == label]
        assert done == sorted(done)
        assert done[-1] == 24


def test_every_method_gets_the_same_number_of_different_trials(tuned):
    for outcome in tuned.outcomes:
        assert len(outcome.trials) == 6
        assert len({tuple(trial.values.items()) for trial in outcome.trials}) == 6
    counts = tuned.trials.group_by("method").len()["len"]
    assert counts.to_list() == [12] * 2  # trials × seeds
    assert tuned.trials["seed"].unique().sort().to_list() == [1_000_000, 1_000_001]


def test_scores_are_those_of_a_sweep_on_the_held_out_samples(tuned):
    experiment = build(loads(TUNED))
    held_out = experiment.problem.hold_out(0.2, 1_000_000)
    settings = [fedtide.methods.fedavg(rate, 1.0, 4, work=Steps(2, 8)) for rate in (0.1, 0.3, 1.0)]
    found = fedtide.sweep(
        held_out, experiment.availability, settings, rounds=4, seeds=[1_000_000, 1_000_001], evaluate_every=2
    )
    of_four = [trial for trial in tuned.outcomes[1].trials if trial.values["clients"] == 4]
    assert [trial.values["rate"] for trial in of_four] == [0.1, 0.3, 1.0]
    for trial, accuracy in zip(of_four, found.test_accuracy, strict=True):
        assert trial.by_seed == [float(a) for a in accuracy[:, -1]]
        assert trial.score == pytest.approx(np.mean(trial.by_seed))


def test_the_best_is_chosen_and_written(tuned):
    written = tomllib.loads(tuned.text)
    assert "tune" not in written
    assert {key: written[key] for key in ("title", "problem", "availability", "run", "local")} == {
        key: tomllib.loads(TUNED)[key] for key in ("title", "problem", "availability", "run", "local")
    }
    for outcome, table in zip(tuned.outcomes, written["methods"], strict=True):
        assert outcome.chosen.score == max(trial.score for trial in outcome.trials)
        assert {name: table[name] for name in outcome.arguments} == outcome.chosen.values
        assert "tune" not in table
    chosen = build(tuned.config).methods
    assert list(chosen) == ["F3AST", "some"]
    assert chosen["F3AST"].solver.rate == tuned.outcomes[0].chosen.values["rate"]
    assert chosen["some"].participation.clients == tuned.outcomes[1].chosen.values["clients"]


def test_trials_that_are_kept_do_not_run_again(tuned, tmp_path):
    """Of both methods, one of which needs a program for each number of clients, in turn."""
    config = loads(TUNED)
    assert tune(config, cells=tmp_path).trials.equals(tuned.trials)
    kept = sorted(tmp_path.iterdir())
    assert len(kept) == 2 * 6
    for path in kept[::3]:
        path.unlink()
    heard = []
    again = tune(config, cells=tmp_path, progress=lambda *what: heard.append(what))
    assert again.trials.equals(tuned.trials)
    assert again.text == tuned.text
    assert min(done for _, done, _ in heard) >= 24 - 4 * 4  # of 12 trials, 4 rounds each, 4 were missing
    assert sorted(tmp_path.iterdir()) == kept
    heard.clear()
    last = tune(config, cells=tmp_path, progress=lambda *what: heard.append(what))
    assert heard == [("F3AST", 24, 24), ("some", 24, 24)]
    assert last.trials.equals(tuned.trials)
    assert last.seconds == pytest.approx(again.seconds, abs=0.05)


def test_test_data_are_never_looked_at(tuned, monkeypatch):
    entry = problems.CATALOGUE["synthetic_leaf"]

    def other_tests(clients: int, largest: int):
        problem = entry.build(clients=clients, largest=largest)
        flipped = (np.asarray(problem.test_y) + 1) % 10
        names = ("x", "y", "sizes", "test_x", "test_sizes", "importance", "ridge", "model")
        return problems.Classification(**{name: getattr(problem, name) for name in names}, test_y=flipped)

    monkeypatch.setitem(problems.CATALOGUE, "synthetic_leaf", dataclasses.replace(entry, build=other_tests))
    again = tune(loads(TUNED))
    assert again.trials.equals(tuned.trials)
    assert again.text == tuned.text


def quadratic(more: str = "", methods: str = '[[methods]]\nname = "fedavg"\n') -> str:
    return (
        '[problem]\nname = "quadratic"\nclients = 6\n[availability]\nname = "paper_population"\n[run]\nrounds = 4\n'
        f"evaluate_every = 2\n[tune]\nseeds = 1\ntrials = 4\n{more}\n{methods}"
    )


def test_a_problem_without_samples_is_judged_by_its_objective_and_says_so():
    found = tune(loads(quadratic("[tune.space]\nrate = [0.001, 0.1]\nserver_rate = [0.1, 1.0]")))
    assert found.plan.measure is MEASURES["objective"]
    assert found.warnings[0] == (
        "quadratic has no samples to hold out: the training objective is used to choose settings."
    )
    (outcome,) = found.outcomes
    assert outcome.chosen.score == min(trial.score for trial in outcome.trials)
    assert "validation_accuracy" not in found.trials.columns


def test_diverged_trials_are_worst_and_edges_are_said():
    found = tune(loads(quadratic("[tune.space]\nrate = [0.01, 0.1, 1e29, 1e30]\nserver_rate = [1.0]")))
    (outcome,) = found.outcomes
    assert [trial.score is None for trial in outcome.trials] == [False, False, True, True]
    assert outcome.chosen.values == {"rate": 0.1, "server_rate": 1.0}
    assert outcome.edges == []
    found = tune(loads(quadratic("[tune.space]\nrate = [0.01, 0.02, 0.05, 0.1]\nserver_rate = [1.0]")))
    assert found.warnings[1] == "FedAvg: rate = 0.1 is the largest value tried: extend the list."


def test_a_method_that_always_diverges_stays_as_written():
    methods = '[[methods]]\nname = "fedavg"\nrate = 0.07\n'
    found = tune(loads(quadratic("[tune.space]\nrate = [1e30, 2e30]\nserver_rate = [1.0, 2.0]", methods)))
    assert found.outcomes[0].chosen is None
    assert tomllib.loads(found.text)["methods"] == [{"name": "fedavg", "rate": 0.07}]
    assert found.warnings[1] == "FedAvg: every trial diverged; its settings are left unchanged."


def test_equal_trials_choose_the_smaller_rate():
    text = quadratic("[tune.space]\nrate = [0.3, 0.1, 0.2, 0.4]\nserver_rate = [0.0]")  # nothing moves
    (outcome,) = tune(loads(text)).outcomes
    assert len({trial.score for trial in outcome.trials}) == 1
    assert outcome.chosen.values == {"rate": 0.1, "server_rate": 0.0}


def test_without_a_tune_section_the_method_s_own_values_are_the_middle():
    text = TUNED.split("[tune]")[0] + '[[methods]]\nname = "fedavg"\nrate = 0.5\n'
    own = space(loads(text), 0, np.full(8, 10))
    assert own.axes == (
        Axis("rate", (0.005, 0.015, 0.05, 0.15, 0.5, 1.5, 5.0)),
        Axis("server_rate", (0.1, 0.3, 1.0, 3.0, 10.0)),
    )
    assert own.trials == tuple(itertools.product(*(axis.values for axis in own.axes)))


def test_lists_for_all_reach_the_parts_that_replace_others():
    methods = '[[methods]]\nname = "fedavg"\nsolver = {name = "proximal", rate = 0.1, mu = 0.01}\n'
    config = loads(ONE + methods)
    own = space(config, 0, np.full(8, 10))
    assert [axis.name for axis in own.axes] == ["solver.rate", "server_rate"]
    table = with_values(config.methods[0], own.axes, (0.5, 2.0))
    assert table.arguments == {"solver": {"name": "proximal", "rate": 0.5, "mu": 0.01}, "server_rate": 2.0}


def test_files_are_found_from_wherever_the_choice_is_written(tmp_path):
    np.save(tmp_path / "who.npy", np.arange(12).reshape(2, 6) % 5 > 0)
    text = quadratic().replace('name = "paper_population"', 'name = "trace"\npath = "who.npy"')
    written = located(loads(text, folder=tmp_path))
    assert written["availability"] == {"name": "trace", "path": str(tmp_path / "who.npy")}
    inner = {"name": "clusters", "membership": [0], "process": {"name": "trace", "path": "who.npy"}}
    text = dumps(tomllib.loads(text) | {"availability": inner})
    assert located(loads(text, folder=tmp_path))["availability"]["process"]["path"] == str(tmp_path / "who.npy")


def test_the_selections_are_those_that_are_measured():
    (known,) = (a for a in Tune.model_fields["select"].annotation.__args__ if a is not type(None))
    assert set(known.__args__) == set(MEASURES)


class WithTestData(problems.Quadratic):
    """A user's problem: it has test data, but cannot hold out any of the others."""

    def evaluate(self, params):
        found = super().evaluate(params)
        return found._replace(tested=np.ones(len(found.tested), bool))


@pytest.mark.parametrize("more", ["", 'select = "accuracy"'])
def test_a_problem_of_one_s_own_is_told_what_to_add(monkeypatch, more):
    def build_tested(clients: int):
        found = problems.random_quadratic(clients)
        return WithTestData(found.hessians, found.centres, found.noise, found.importance, found.start)

    monkeypatch.setitem(problems.CATALOGUE, "mine", Entry("mine", build_tested))
    with pytest.raises(
        FedtideError, match=r"^a.toml: tune.select: .*hold_out\(fraction, seed\).*select = \"objective\"$"
    ):
        plan(loads(quadratic(more).replace('"quadratic"', '"mine"'), "a.toml"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("trials = 6", "trials = 0",
         "tune.trials = 0: must be a number of settings to try, 1 to 1,000,000, the same for every method"),
        ("trials = 6", "trial = 6",
         "tune.trial: unknown; did you mean 'trials'? known: rounds, seeds, select, space, trials, validation"),
        ("seeds = 2\n\n[tune.space]", "seeds = [7, 1]\n\n[tune.space]",
         "tune.seeds: 1 in [run] as well; must be a number of seeds, 1 to 1,000,000, or a list of different seeds in "
         "[0, 2³²), none of them a seed of [run]"),
        ("trials = 6", "trials = 6\nvalidation = 1.0",
         "tune.validation = 1.0: must be the share of every client's training samples used for validation, in (0, 1)"),
        ("trials = 6", 'trials = 6\nselect = "test"',
         "tune.select = 'test': must be \"accuracy\", \"worst_decile\", \"loss\", \"objective\" or \"tail_loss\""),
        ("rate = [0.01, 0.1, 1]", "rate = 0.1", "tune.space.rate = 0.1: must be a list of one value or more"),
        ("rate = [0.01, 0.1, 1]", "rate = []", "tune.space.rate = []: must be a list of one value or more"),
        ("rate = [0.01, 0.1, 1]", "rate = [0.1, 0.1]",
         "tune.space.rate = [0.1, 0.1]: must be a list of different values"),
        ("rate = [0.01, 0.1, 1]", 'rate = [0.1, "high"]', "tune.space.rate[1] = 'high': must be a number"),
        ("rate = [0.01, 0.1, 1]", "rate = [0.1, inf]", "tune.space.rate[1] = inf: must be finite"),
        ("rate = [0.01, 0.1, 1]", "rate = [0.1, -1]", "methods[0]: solver.rate = -1.0: must be 0 or more"),
        ("rate = [0.01, 0.1, 1]", "rat = [0.1]",
         "tune.space.rat: no method of this configuration has it; did you mean 'rate'? known: clients, "
         "correlated, local.batch, local.epochs, local.steps, rate, server_rate, smoothing, weights"),
        ("smoothing = [", "smoothin = [",
         "methods[0].tune.smoothin: unknown; did you mean 'smoothing'? known: clients, correlated, local.batch, "
         "local.epochs, local.steps, rate, server_rate, smoothing"),
        ("tune = {smoothing = [0.01, 0.1]}", "tune = [1]",
         "methods[0].tune = [1]: must be a table with a list of values for each argument that fedtide tune varies"),
        ("tune = {smoothing = [0.01, 0.1]}",
         'solver = {name = "sgd"}\ntune = {rate = [0.1, 1.0]}',
         "methods[0].tune.rate: has no effect, as the part it belongs to was replaced"),
        ("rate = [0.1, 0.3, 1.0], server_rate", "rate = [0.1], server_rate",
         "methods[1]: its lists give 2 combinations, fewer than the 6 trials that every method gets, and have no two "
         "numbers to interpolate between: lengthen a list, or lower tune.trials"),
    ],
)  # fmt: skip
def test_errors_are_one_line_with_the_path(old, new, message):
    assert old in TUNED
    with pytest.raises(FedtideError) as error:
        plan(loads(TUNED.replace(old, new), "a.toml"))
    assert str(error.value) == f"a.toml: {message}"


_lists = st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=6, unique=True).map(lambda v: tuple(sorted(v)))


@given(st.lists(_lists, min_size=1, max_size=3), st.integers(1, 60))
@settings(max_examples=40, deadline=None)
def test_any_space_gives_exactly_so_many_different_trials(lists, count):
    axes = tuple(Axis(f"a{i}", values) for i, values in enumerate(lists))
    try:
        own = _spread(axes, count)
    except FedtideError:
        assert len(lists) == 1  # numbers next to each other
        return
    assert len(own.trials) == len(set(own.trials)) == count
    assert list(own.trials) == sorted(own.trials)
    for i, axis in enumerate(own.axes):
        assert set(axes[i].values) <= set(axis.values)
        assert {trial[i] for trial in own.trials} <= set(axis.values)
        assert min(axis.values) == min(axes[i].values)  # between the ends that were given
        assert max(axis.values) == max(axes[i].values)
    whole = set(itertools.product(*lists))
    assert whole <= set(own.trials) if count >= len(whole) else set(own.trials) <= whole


def test_a_subset_is_spread_over_every_list():
    axes = tuple(Axis(name, (1.0, 2.0, 3.0, 4.0)) for name in "abc")
    own = _spread(axes, 16)  # of 64
    for i in range(3):
        counts = [sum(trial[i] == value for trial in own.trials) for value in axes[i].values]
        assert min(counts) >= 2
        assert max(counts) <= 6
