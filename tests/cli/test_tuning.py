"""`fedtide tune`, end to end on a federation of six quadratics."""

import importlib
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedtide import files
from fedtide.cli import progress
from fedtide.tuning import trials

SWEEP = importlib.import_module("fedtide.simulation.sweep")  # the package has the function under this name
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
    (KeyboardInterrupt(), 130, "stopped; resume with: fedtide tune small.toml --out tuned/small"),
    (OSError(28, "No space left on device", "trials.parquet"), 1, "error: trials.parquet: No space left on device"),
])  # fmt: skip
def test_what_is_stopped_before_the_first_trial_leaves_an_empty_folder(
    fedtide, tunable, monkeypatch, fault, status, line
):
    def stop(*arguments, **options):
        raise fault

    monkeypatch.setattr(trials, "sweep", stop)
    result = fedtide("tune", "small.toml")
    assert result.exit_code == status
    assert result.stderr.splitlines()[-1] == line
    assert [*Path("tuned/small").iterdir()] == []


# A tuning that was stopped continues


def same(one: str, other: str) -> bool:
    """Whether two folders hold the same results, apart from times and the names of the folders."""

    def page(folder):
        text = Path(folder, "tuning.html").read_text("utf-8").replace(f"--out {folder}", "")
        return re.sub(r"<dt>Time</dt><dd>[\d.]+ s</dd>", "", text)

    assert {path.name for path in Path(one).iterdir()} == {"tuned.toml", "trials.parquet", "tuning.html"}
    assert {path.name for path in Path(one).iterdir()} == {path.name for path in Path(other).iterdir()}
    texts = [Path(folder, "tuned.toml").read_text("utf-8") for folder in (one, other)]
    tables = [pl.read_parquet(Path(folder, "trials.parquet")) for folder in (one, other)]
    return texts[0] == texts[1] and tables[0].equals(tables[1]) and page(one) == page(other)


@pytest.fixture
def ran(monkeypatch) -> list[float]:
    """η η_s of every trial that has run."""
    rates, run = [], SWEEP._run

    def watched(setup, settings, chunk):
        yield from run(setup, settings, chunk)
        rates.extend(float(method.solver.rate) * float(method.server.rate) for method in settings)

    monkeypatch.setattr(SWEEP, "_run", watched)
    return rates


def stop_after(count: int, ran: list[float], monkeypatch) -> None:
    """Ctrl-C when so many trials have run."""

    def report(self, label, done, total):
        if len(ran) >= count:
            raise KeyboardInterrupt

    monkeypatch.setattr(progress.LabelledBars, "__call__", report)


def test_a_stopped_tuning_continues_and_runs_no_trial_twice(fedtide, tunable, ran, monkeypatch):
    assert fedtide("tune", "small.toml", "--out", "whole").exit_code == 0
    everything = ran.copy()
    assert len(everything) == 2 * 4
    ran.clear()
    with monkeypatch.context() as patch:
        stop_after(5, ran, patch)
        result = fedtide("tune", "small.toml", "--out", "again")
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == "stopped; resume with: fedtide tune small.toml --out again"
    assert len([*Path("again/trials").iterdir()]) == 5
    result = fedtide("tune", "small.toml", "--out", "again")
    assert result.exit_code == 0
    assert result.stderr.splitlines()[0] == "continuing: 5 of 8 trials are finished in again/trials"
    assert "16/16 rounds" in result.stderr
    assert ran == everything
    assert same("again", "whole")


def test_trials_of_another_configuration_are_not_used(fedtide, tunable, ran, monkeypatch):
    with monkeypatch.context() as patch:
        stop_after(3, ran, patch)
        fedtide("tune", "small.toml")
    ran.clear()
    tunable.write_text(tunable.read_text("utf-8").replace("clients = 6", "clients = 7"), "utf-8")
    result = fedtide("tune", "small.toml")
    assert result.stderr.splitlines()[0] == "continuing: 0 of 8 trials are finished in tuned/small/trials"
    assert len(ran) == 8
    fedtide("tune", "small.toml", "--out", "whole")
    assert same("tuned/small", "whole")


def test_a_damaged_trial_is_named(fedtide, tunable, ran, monkeypatch):
    with monkeypatch.context() as patch:
        stop_after(3, ran, patch)
        fedtide("tune", "small.toml")
    trial = sorted(Path("tuned/small/trials").iterdir())[0]
    trial.write_bytes(trial.read_bytes()[:20])
    result = fedtide("tune", "small.toml")
    assert result.exit_code == 2
    error = result.stderr.splitlines()[-1]
    assert error.startswith(f"error: {trial}: damaged (")
    assert error.endswith("); delete the file to compute it again")
    trial.unlink()
    assert fedtide("tune", "small.toml").exit_code == 0


def test_other_files_beside_the_trials_are_not_touched(fedtide, tunable, ran, monkeypatch):
    with monkeypatch.context() as patch:
        stop_after(3, ran, patch)
        fedtide("tune", "small.toml")
    for mine in (Path("tuned/small/thesis.tex"), Path("tuned/small/trials/thesis.tex")):
        mine.write_text("mine")
        result = fedtide("tune", "small.toml")
        assert result.exit_code == 2
        assert result.stderr == "error: tuned/small: exists and is not empty; choose another --out\n"
        mine.unlink()
    assert fedtide("tune", "small.toml").exit_code == 0


def test_a_finished_tuning_is_not_repeated(fedtide, tunable):
    fedtide("tune", "small.toml")
    result = fedtide("tune", "small.toml")
    assert result.exit_code == 2
    assert result.stderr == "error: tuned/small: exists and is not empty; choose another --out\n"


def test_two_processes_do_not_share_a_folder(fedtide, tunable):
    with files.alone(Path("tuned/small"), "mine"):
        result = fedtide("tune", "small.toml")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: tuned/small: another tuning is using it (PID ")


def test_a_killed_tuning_continues_to_the_same_results(fedtide, tunable, as_shipped):
    """SIGKILL at random moments, twice; the same command then continues from the trials."""
    tunable.write_text(tunable.read_text("utf-8").replace("[tune]", "[tune]\nrounds = 4000"), "utf-8")
    assert fedtide("tune", "small.toml", "--out", "whole").exit_code == 0
    words = [sys.executable, "-m", "fedtide", "tune", "small.toml", "--out", "killed"]
    folder, moments, kept = Path("killed/trials"), np.random.default_rng(0), 0
    for _ in range(2):
        wanted = kept + int(moments.integers(1, 3))
        running = subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        while len([*folder.glob("*.safetensors")]) < wanted:
            assert running.poll() is None
            time.sleep(0.005)
        time.sleep(float(moments.uniform(0, 0.1)))
        running.kill()
        running.wait()
        kept = len([*folder.glob("*.safetensors")])
    result = fedtide("tune", "small.toml", "--out", "killed")
    assert result.exit_code == 0
    assert result.stderr.splitlines()[0] == f"continuing: {kept} of 8 trials are finished in killed/trials"
    assert same("killed", "whole")
