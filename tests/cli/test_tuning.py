"""`fedtide tune`, end to end on a federation of six quadratics."""

import tomllib
from pathlib import Path

import polars as pl
import pytest

from fedtide.tuning import trials

TUNE = """
[tune]
trials = 4
seeds = 1

[tune.space]
rate = [0.01, 0.1]
server_rate = [0.5, 1.0]
"""


@pytest.fixture
def tunable(config):
    config.write_text(config.read_text("utf-8").replace("[[methods]]", TUNE + "\n[[methods]]", 1), "utf-8")
    return config


def test_tune(fedtide, tunable):
    result = fedtide("tune", "small.toml")
    assert result.exit_code == 0, result.stderr
    folder = Path("tuned/small")
    assert {path.name for path in folder.iterdir()} == {"tuned.toml", "trials.parquet", "tuning.html"}
    *_, page, chosen = result.stdout.splitlines()
    assert (page, chosen) == ("Page: tuned/small/tuning.html", "Configuration: tuned/small/tuned.toml")
    assert "16/16 rounds" in result.stderr
    assert "warning: quadratic has no samples to hold out" in result.stderr
    trials = pl.read_parquet(folder / "trials.parquet")
    assert trials.height == 2 * 4
    written = tomllib.loads((folder / "tuned.toml").read_text("utf-8"))
    for table, label in zip(written["methods"], ("FedAvg", "Unbiased"), strict=True):
        best = trials.filter(pl.col("method") == label, pl.col("rank") == 1).row(0, named=True)
        assert (table["rate"], table["server_rate"]) == (best["rate"], best["server_rate"])
    checked = fedtide("check", folder / "tuned.toml")
    assert checked.exit_code == 0
    assert f"fedavg(rate = {written['methods'][0]['rate']}" in checked.stdout
    assert "fedtide tune small.toml --out tuned/small" in (folder / "tuning.html").read_text("utf-8")


def test_check_says_what_would_be_tried(fedtide, tunable):
    result = fedtide("check", "small.toml")
    assert "4 trials × 1 seed × 4 rounds per method, by training objective" in result.stdout
    assert "FedAvg: all 4 combinations; rate (2), server_rate (2)" in result.stdout


def test_a_folder_that_is_not_empty_is_refused(fedtide, tunable):
    Path("there").mkdir()
    Path("there/thesis.tex").write_text("mine")
    result = fedtide("tune", "small.toml", "--out", "there")
    assert result.exit_code == 2
    assert result.stderr == "error: there: exists and is not empty; choose another --out\n"


def test_bad_input_is_one_line_and_nothing_is_written(fedtide, tunable):
    tunable.write_text(tunable.read_text("utf-8").replace("rate = [0.01, 0.1]", "rate = 0.1"), "utf-8")
    result = fedtide("tune", "small.toml")
    assert result.exit_code == 2
    assert result.stderr == "error: small.toml: tune.space.rate = 0.1: must be a list of one value or more\n"
    assert [path.name for path in Path().iterdir()] == ["small.toml"]


@pytest.mark.parametrize(("fault", "status", "line"), [
    (KeyboardInterrupt(), 130, "stopped"),
    (OSError(28, "No space left on device", "trials.parquet"), 1, "error: trials.parquet: No space left on device"),
])  # fmt: skip
def test_what_is_stopped_leaves_nothing(fedtide, tunable, monkeypatch, fault, status, line):
    def stop(*arguments, **options):
        raise fault

    monkeypatch.setattr(trials, "sweep", stop)
    result = fedtide("tune", "small.toml")
    assert result.exit_code == status
    assert result.stderr.splitlines()[-1] == line
    assert [path.name for path in Path().iterdir()] == ["small.toml"]
