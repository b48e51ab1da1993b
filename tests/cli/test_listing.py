"""`fedtide list`: the runs below a folder, whatever their state."""

import json
import shutil
from pathlib import Path

import pytest

import fedtide as package
from fedtide.availability import Bernoulli
from fedtide.methods import fedavg, unbiased
from fedtide.problems import random_quadratic


@pytest.fixture
def runs(finished, tmp_path):
    """A finished run, one that was stopped in its second method, and a damaged one."""
    shutil.copytree(finished, tmp_path / "runs" / "whole")

    def stop(label, done, total):
        if label == "Unbiased" and done == 50:
            raise KeyboardInterrupt

    parts = random_quadratic(clients=3), Bernoulli(0.5, clients=3), [fedavg(rate=0.01), unbiased(rate=0.01)]
    options = {"rounds": 100, "out": tmp_path / "runs" / "deep" / "stopped", "progress": stop}
    with pytest.raises(KeyboardInterrupt):
        package.simulate(*parts, **options, about={"title": "Stopped\nhalfway [bold]"})
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "run.json").write_text('{"finished"')
    return tmp_path / "runs"


def test_runs_are_listed_with_their_state(fedtide, runs):
    result = fedtide("list")
    assert result.exit_code == 0
    heading, *lines, last = result.stdout.splitlines()
    assert heading.split() == ["Run", "in", "runs", "State", "Rounds", "Seeds", "Methods", "Title"]
    broken, stopped, whole = ("  ".join(line.split("  ")).split() for line in lines)
    assert broken == ["broken", "damaged"]
    assert stopped[:5] == ["deep/stopped", "75%", "done", "100", "1"]
    assert " ".join(stopped[5:]) == "FedAvg, Unbiased Stopped halfway [bold]"
    assert whole == ["whole", "finished", "4", "2", "FedAvg,", "Unbiased", "Small"]
    assert last == "Not finished: fedtide resume runs/deep/stopped"


def test_an_elsewhere_that_is_empty_or_none(fedtide):
    Path("none").mkdir()
    assert fedtide("list", "none").stdout == "none: no runs\n"
    result = fedtide("list")
    assert (result.exit_code, result.stderr) == (2, "error: runs: not a folder\n")


@pytest.mark.parametrize("key", ["methods", "rounds", "seeds"])
def test_a_description_of_another_shape_is_damaged(fedtide, runs, key):
    path = runs / "whole" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {key: None}), "utf-8")
    result = fedtide("list", "runs/whole")
    assert result.exit_code == 0
    assert "damaged" in result.stdout
