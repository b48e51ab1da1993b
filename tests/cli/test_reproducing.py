"""The commands `experiments` and `reproduce`; one study runs, at its smallest."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedtide.cli import app
from fedtide.reproduce import study
from fedtide.reproduce.claims import in_words

NAME = "slides_fedvarp"
MINE = """
paper = "mine"
figure = "Table 1"
title = "Mine"
about = "A question."
problem = {name = "images", data = "mnist", clients = 6}
availability = {name = "always"}
run = {rounds = 1}
methods = [{name = "fedavg", label = "FedAvg"}, {name = "unbiased", label = "Unbiased"}]
scales = {smoke = {problem = {clients = 4}}}

[[claims]]
says = "The one is better than the other."
published = "no"
method = "Unbiased"
against = "FedAvg"
"""

TINY = """
paper = "mine"
figure = "Table 1"
title = "Tiny"
about = "Two cases, tuned."
draws = 2
problem = {name = "quadratic", clients = 6}
availability = {name = "bernoulli", availability = 0.5, clients = 6}
run = {rounds = 4, evaluate_every = 2}
tune = {trials = 2, seeds = 1, space = {rate = [0.01, 0.03]}}
methods = [{name = "fedavg", label = "FedAvg"}, {name = "unbiased", label = "Unbiased"}]
cases = [{label = "even"}, {label = "longer", run = {rounds = 6}}]
scales = {smoke = {}}
"""


@pytest.fixture(autouse=True)
def alone(tmp_path_factory, monkeypatch):
    """No data but what is embedded."""
    home = str(tmp_path_factory.mktemp("home"))
    monkeypatch.delenv("FEDTIDE_DATA", raising=False)
    for variable in ("HOME", "USERPROFILE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(variable, home)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """(the folder, what the command said) of a study that was run."""
    out = tmp_path_factory.mktemp("reproduced")
    arguments = ["reproduce", NAME, "--scale", "smoke", "--out", str(out)]
    result = CliRunner(env={"COLUMNS": "300"}).invoke(app, arguments, prog_name="fedtide")
    assert result.exit_code == 0, result.output
    return out, result


def words(text: str) -> str:
    return " ".join(text.split())


def faulty(result) -> str:
    """The line that says what is wrong; nothing else may be said, except how far it came."""
    assert result.exit_code == 2
    assert result.stdout == ""
    *before, line = result.stderr.splitlines()
    assert not any("error" in other or "Traceback" in other for other in before)
    return line


def test_the_list_has_every_study_under_its_paper(fedtide):
    result = fedtide("experiments")
    assert result.exit_code == 0
    listed = [line.split()[0] for line in result.stdout.splitlines() if line.startswith("  ") and line[2] != " "]
    assert listed == [name for found in study.by_paper().values() for name in found]
    for paper in study.papers().values():
        assert words(paper.title) in words(result.stdout)
    fig1a = next(line for line in result.stdout.splitlines() if line.startswith("  ca_fed_fig1a"))
    assert "Fig. 1a" in fig1a
    assert "Test accuracy over rounds" in fig1a


def test_a_study_is_explained_with_its_scales_and_what_decides_each_claim(fedtide):
    result = fedtide("experiments", "ca_fed_fig2")
    assert result.exit_code == 0
    said, one = words(result.stdout), study.load_study("ca_fed_fig2")[1]
    assert words(one.about) in said
    for claim in one.claims:
        for text in (claim.says, f"published: {claim.published}", in_words(claim)):
            assert words(text) in said
    for changes in one.scales.values():
        first, *_ = changes.note.split(",")
        assert first in said
    assert said.endswith("Run it: fedtide reproduce ca_fed_fig2")


def test_a_run_leaves_numbers_and_a_page_and_prints_verdicts(done):
    out, result = done
    assert {path.name for path in (out / NAME).iterdir()} == {"results.json", "page.html"}
    results = json.loads((out / NAME / "results.json").read_text("utf-8"))
    assert (results["name"], results["scale"]) == (NAME, "smoke")
    assert results["command"] == f"fedtide reproduce {NAME} --scale smoke"
    assert [case["problem"]["data"] for case in results["cases"]] == ["digits"]
    claims = study.load_study(NAME)[1].claims
    page = (out / NAME / "page.html").read_text("utf-8")
    for claim in claims:
        assert claim.says in page
    heading, *rows, last = result.stdout.splitlines()
    assert heading.split() == ["verdict", "claim", "published", "measured"]
    verdicts = ("holds", "partly", "undecided", "does not hold", "not tested")
    assert len([row for row in rows if row.startswith(verdicts)]) == len(claims)
    assert last == f"Page: {out / NAME / 'page.html'}"


def test_results_are_not_overwritten(fedtide, done):
    out, _ = done
    before = (out / NAME / "results.json").read_bytes()
    # The second one has results: nothing of the first is run, either.
    result = fedtide("reproduce", "ca_fed_fig1a", NAME, "--scale", "smoke", "--out", out)
    folder = out / NAME
    assert faulty(result) == f"error: {folder}: has results; choose another folder with --out, or remove it"
    assert (out / NAME / "results.json").read_bytes() == before
    assert not (out / "ca_fed_fig1a").exists()


def test_a_study_that_is_named_twice_is_refused(fedtide):
    assert faulty(fedtide("reproduce", NAME, NAME, "--scale", "smoke")) == "error: a study is given twice"


@pytest.mark.parametrize("command", ["experiments", "reproduce"])
def test_an_unknown_study_is_one_line(fedtide, command):
    result = fedtide(command, "nope")
    assert faulty(result).startswith("error: 'nope' is unknown; known: beyond_ca_fed, ")
    assert result.stderr.count("\n") == 1


def test_a_scale_that_does_not_exist_is_refused(fedtide, tmp_path):
    result = fedtide("reproduce", NAME, "--scale", "huge")
    assert result.exit_code == 2
    assert "'huge' is not one of 'smoke', 'reduced', 'paper'" in words(result.stderr.replace("│", " "))
    (tmp_path / "mine.toml").write_text(MINE, "utf-8")
    said = faulty(fedtide("reproduce", "mine.toml", "--scale", "paper"))
    assert said == "error: mine.toml: there is no scale 'paper'; known: smoke"


def test_missing_data_are_named_with_their_files_and_where_they_were_looked_for(fedtide, tmp_path):
    said = faulty(fedtide("reproduce", "ca_fed_fig1b", "--data-dir", tmp_path / "images"))
    assert said.startswith(
        "error: ca_fed_fig1b.toml: problem: mnist10k: mnist10k.npz, or the files of mnist: not found;"
    )
    assert str(tmp_path / "images") in said
    assert "fedtide data fetch mnist" in said
    assert not (tmp_path / "reproductions").exists()


@pytest.mark.parametrize(
    ("right", "wrong", "line"),
    [
        ("about =", "abuot =", "abuot: unknown; did you mean 'about'? known: "),
        ("against =", "agianst =", "claims[0].agianst: unknown; did you mean 'against'? known: "),
        ("clients = 4", "clients = 4}, rnu = {rounds = 2", "scales.smoke.rnu: unknown; did you mean 'run'? known: "),
        ('against = "FedAvg"', 'against = "FedAgv"', "claims[0].against: nothing is labelled 'FedAgv'; did you mean "),
        ('[[claims]]', '[[claims]]\nmeasure = "latest"', 'claims[0].measure = \'latest\': must be "final", '),
    ],
)  # fmt: skip
def test_a_mistake_in_one_s_own_study_is_named_with_its_path(fedtide, tmp_path, right, wrong, line):
    assert right in MINE
    (tmp_path / "mine.toml").write_text(MINE.replace(right, wrong), "utf-8")
    result = fedtide("reproduce", "mine.toml", "--scale", "smoke")
    assert faulty(result).startswith(f"error: mine.toml: {line}")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


def test_a_method_that_is_changed_must_be_there(fedtide, tmp_path):
    text = MINE.replace("smoke = {", "smoke = {methods = {FedAgv = {rate = 0.2}}, ")
    (tmp_path / "mine.toml").write_text(text, "utf-8")
    said = faulty(fedtide("reproduce", "mine.toml", "--scale", "smoke"))
    assert said.startswith("error: mine.toml: no method is labelled 'FedAgv'; did you mean 'FedAvg'? known: ")


def test_a_killed_study_continues_to_the_same_numbers(fedtide, tmp_path, monkeypatch):
    """SIGKILL once the first cell is kept; the same command then reads it and computes the rest."""
    (tmp_path / "mine.toml").write_text(TINY, "utf-8")
    monkeypatch.chdir(tmp_path)
    words = ("reproduce", "mine.toml", "--scale", "smoke")
    whole = fedtide(*words, "--out", "whole")
    assert whole.exit_code == 0, whole.stderr
    running = subprocess.Popen([sys.executable, "-m", "fedtide", *words, "--out", "killed"], stderr=subprocess.DEVNULL)
    cells = tmp_path / "killed" / "mine" / "cells"
    while not list(cells.glob("*.safetensors")):
        assert running.poll() is None
        time.sleep(0.02)
    running.kill()
    running.wait()
    kept = len(list(cells.glob("*.safetensors")))
    result = fedtide(*words, "--out", "killed")
    assert result.exit_code == 0, result.stderr
    assert result.stderr.startswith(f"mine: continuing from {Path('killed', 'mine', 'cells')}\n")
    assert kept >= 1
    assert not cells.exists()

    def numbers(out):
        text = (tmp_path / out / "mine" / "results.json").read_text("utf-8")
        return re.sub(r'"seconds": [\d.]+', "", text)

    assert numbers("killed") == numbers("whole")
