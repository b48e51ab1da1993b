"""A runner, and a small configuration."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedtide.cli import app

SMALL = """\
title = "Small"

[problem]
name = "quadratic"
clients = 6

[availability]
name = "paper_population"

[run]
rounds = 4
seeds = 2
evaluate_every = 2

[[methods]]
name = "fedavg"
rate = 0.05

[[methods]]
name = "unbiased"
rate = 0.05
"""


@pytest.fixture
def fedtide(tmp_path, monkeypatch):
    """Runs `fedtide` with these arguments in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    runner = CliRunner()
    return lambda *arguments: runner.invoke(app, [str(a) for a in arguments], prog_name="fedtide")


@pytest.fixture
def config(tmp_path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL, "utf-8")
    return path


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Path:
    """The folder of a finished run; to be copied, not changed."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "small.toml").write_text(SMALL, "utf-8")
    result = CliRunner().invoke(app, ["run", str(folder / "small.toml"), "--out", str(folder / "a")])
    assert result.exit_code == 0
    return folder / "a"
