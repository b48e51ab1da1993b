"""Commands that run: end to end on a federation of six quadratics."""

import errno
import json
import os
import re
import shutil
import tomllib
from pathlib import Path

import polars as pl
import pytest
from safetensors import SafetensorError

from fedtide import experiments
from fedtide.files import alone, atomic
from fedtide.methods import CATALOGUE
from fedtide.simulation import checkpoint
from fedtide.simulation.bars import RoundsProgress

FILES = {"run.json", "rounds.parquet", "clients.parquet", "population.parquet", "models.safetensors", "report.html"}


def tables(folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    return pl.read_parquet(folder / "rounds.parquet"), pl.read_parquet(folder / "clients.parquet")


def test_run(fedtide, config):
    result = fedtide("run", config)
    assert result.exit_code == 0
    folder = Path("runs/small")
    assert {path.name for path in folder.iterdir()} == FILES
    *table, said, where = result.stdout.splitlines()
    assert any("Unbiased" in line for line in table)
    best = r"(FedAvg|Unbiased) has the lowest objective: \S+ after 4 rounds, averaged over 2 seeds\. It is "
    assert re.match(best, said)
    assert where == "Report: runs/small/report.html"
    assert "memory: about" in result.stderr
    assert "4/4 rounds" in result.stderr
    about = json.loads((folder / "run.json").read_text("utf-8"))
    assert about["title"] == "Small"
    assert about["command"] == f"fedtide run {config} --out runs/small"
    assert about["config"] == config.read_text("utf-8")
    rounds, clients = tables(folder)
    assert rounds.height == 2 * 2 * (4 + 1)
    assert clients.height == 2 * 2 * 4 * 6


def test_a_run_without_its_clients_has_a_report(fedtide, config):
    """As a run that is too large to record them by default."""
    text = config.read_text("utf-8")
    config.write_text(text.replace("rounds = 4", "rounds = 4\nrecord_clients = false", 1), "utf-8")
    first = fedtide("run", config)
    assert first.exit_code == 0, first.stderr
    page = Path("runs/small/report.html")
    before = page.read_text("utf-8")
    page.unlink()
    again = fedtide("report", "runs/small", "--baseline", "Unbiased")
    assert again.exit_code == 0, again.stderr
    assert "vs Unbiased" in again.stdout
    for text in (before, page.read_text("utf-8")):
        assert text.count("This run has no records by client") == 1
    rounds, clients = tables(Path("runs/small"))
    assert rounds.height == 2 * 2 * (4 + 1)
    assert clients.height == 0
    assert "test_accuracy" in clients.columns


@pytest.mark.parametrize(
    ("known", "more"), [(True, ", resume with: fedtide resume there, or replace it with --overwrite"), (False, "")]
)
def test_a_folder_that_is_not_empty_is_refused(fedtide, config, known, more):
    Path("there").mkdir()
    (Path("there") / ("run.json" if known else "thesis.tex")).write_text("mine")
    result = fedtide("run", config, "--out", "there")
    assert result.exit_code == 2
    assert result.stderr == f"error: there: exists and is not empty; choose another --out{more}\n"
    assert [path.read_text() for path in Path("there").iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("rate = 0.05", "rat = 0.05",
         "methods[0].rat: unknown; did you mean 'rate'? known: aggregation, clients, estimator, label, local, name, "
         "participation, rate, schedule, server, server_rate, solver, tune, weights"),
        ("rounds = 4", "rounds = -4", "run.rounds = -4: must be a whole number from 1 to 10,000,000"),
        ('"paper_population"', '"paper_population"\nclients = 7',
         "availability: 7 clients, but the problem has 6: both must have the same number"),
        ('"paper_population"', '"markov"\navailability = 0.9\ncorrelation = -0.5',
         "availability: correlation[0] = -0.5: must be in [-0.1111, 1) for availability 0.9"),
        ('"unbiased"', '"unbiassed"',
         f"methods[1].name: 'unbiassed' is unknown; did you mean 'unbiased'? known: {', '.join(sorted(CATALOGUE))}"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["run", "check"])
def test_a_bad_configuration_is_one_line_and_nothing_is_written(fedtide, config, command, old, new, line):
    config.write_text(config.read_text("utf-8").replace(old, new, 1), "utf-8")
    result = fedtide(command, "small.toml")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == f"error: small.toml: {line}\n"
    assert [path.name for path in Path().iterdir()] == ["small.toml"]


def stop(*arguments):
    raise KeyboardInterrupt


def fill_disk(*arguments):
    with atomic("broken/checkpoints/001/state.safetensors"):
        raise SafetensorError(f"Error while serializing: I/O error: No space left (os error {errno.ENOSPC})")


@pytest.mark.parametrize(
    ("fault", "status", "line"),
    [
        (stop, 130, "stopped; resume with: fedtide resume broken"),
        (fill_disk, 1, "error: broken/checkpoints/001/state.safetensors: No space left on device; "
                       "the last checkpoint is intact: free some space, then run: fedtide resume broken"),
    ],
)  # fmt: skip
def test_a_broken_run_says_how_to_go_on_and_loses_nothing(fedtide, config, monkeypatch, fault, status, line):
    saved = checkpoint.save
    calls = []

    def save_once(*arguments):
        calls.append(1)
        return saved(*arguments) if len(calls) == 1 else fault()

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save", save_once)  # the first method's state is saved, the second's is not
        result = fedtide("run", config, "--out", "broken")
    assert result.exit_code == status
    assert result.stderr.splitlines()[-1] == line
    assert fedtide("report", "broken").stderr == (
        "error: broken: this run has not finished; continue it with: fedtide resume broken\n"
    )
    assert fedtide("resume", "broken").exit_code == 0
    assert fedtide("run", config, "--out", "whole").exit_code == 0
    for one, other in zip(tables(Path("broken")), tables(Path("whole")), strict=True):
        assert one.equals(other)
    command = json.loads(Path("broken/run.json").read_text("utf-8"))["command"]
    assert command == f"fedtide run {config} --out broken"


def test_resume_of_a_finished_run_writes_its_report_again(fedtide, finished):
    """And removes what a kill in its last moments has left."""
    shutil.copytree(finished, "a")
    Path("a/report.html").unlink()
    for leftover in ("checkpoints/001", ".run.json.x.partial"):
        (Path("a") / leftover).mkdir(parents=True)
    result = fedtide("resume", "a")
    assert result.exit_code == 0
    assert result.stderr == "a: this run has finished; its report is rewritten\n"
    assert {path.name for path in Path("a").iterdir()} == FILES


def test_a_folder_in_which_another_process_runs_is_left_alone(fedtide, config, finished):
    shutil.copytree(finished, "a")
    about = json.loads(Path("a/run.json").read_text("utf-8"))
    for command, done in ((("resume", "a"), True), (("resume", "a"), False), (("run", config, "--out", "b"), False)):
        Path("a/run.json").write_text(json.dumps(about | {"finished": done}), "utf-8")
        folder = Path(command[-1])
        with alone(folder, ""):
            before = {path: path.read_bytes() for path in folder.iterdir()}
            result = fedtide(*command)
            assert {path: path.read_bytes() for path in folder.iterdir()} == before
        assert result.exit_code == 2
        line = rf"error: {folder}: another run is using it \(PID {os.getpid()} on .+ since .+\)"
        assert re.fullmatch(line, result.stderr.splitlines()[-1])
        assert fedtide("report", "a").exit_code == (0 if done else 2)  # who reads needs no lock


def test_a_run_that_was_killed_before_it_began(fedtide, config):
    (Path("a") / ".run.json.x.partial").mkdir(parents=True)
    (Path("a") / "fedtide.lock").touch()
    result = fedtide("resume", "a")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: a: no run has begun in it; start one with fedtide run CONFIG.toml --out a, "
        "or in Python without resume\n"
    )
    assert fedtide("run", config, "--out", "a").exit_code == 0
    assert {path.name for path in Path("a").iterdir()} == FILES


def test_report_against_another_baseline(fedtide, finished):
    shutil.copytree(finished, "a")
    result = fedtide("report", "a", "--baseline", "Unbiased")
    assert result.exit_code == 0
    assert "vs Unbiased" in result.stdout
    assert fedtide("report", "a", "--baseline", "unbiased").exit_code == 2


@pytest.mark.parametrize("command", ["report", "resume"])
def test_folders_that_are_not_runs(fedtide, command):
    assert fedtide(command, "none").stderr == "error: none: not the folder of a run (it has no run.json)\n"
    Path("a").mkdir()
    (Path("a") / "run.json").write_text('{"finished"')
    result = fedtide(command, "a")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: a/run.json: damaged (")


def test_a_run_started_in_python_is_resumed_in_python(fedtide):
    Path("a").mkdir()
    (Path("a") / "run.json").write_text('{"finished": false, "config": null, "seeds": [0], "rounds": 1, "methods": []}')
    result = fedtide("resume", "a")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: a: not started from a configuration; resume it in Python with simulate(…, resume=True)\n"
    )


@pytest.mark.parametrize("key", ["config", "folder"])
def test_a_description_that_is_no_text_is_refused(fedtide, key):
    about = {"finished": False, "config": "", "folder": ".", "seeds": [0], "rounds": 1, "methods": []}
    Path("a").mkdir()
    Path("a/run.json").write_text(json.dumps(about | {key: 5}))
    result = fedtide("resume", "a")
    assert result.exit_code == 2
    assert result.stderr == f"error: a/run.json: {key} = 5: must be text\n"


def test_check_says_what_would_run(fedtide, config):
    result = fedtide("check", "small.toml")
    assert result.exit_code == 0
    for part in (
        "quadratic: 6 clients",
        "10 parameters",
        "2 of them: π = 0.9, persistent",
        "FedAvg: fedavg(rate = 0.05)",
        "4 rounds × 2 seeds × 2 methods = 16",
        "memory",
    ):
        assert part in result.stdout
    assert [path.name for path in Path().iterdir()] == ["small.toml"]


def test_a_method_that_diverges_is_a_warning(fedtide, config):
    config.write_text(config.read_text("utf-8").replace("rate = 0.05", "rate = 1e30", 1), "utf-8")
    result = fedtide("run", config, "--out", "a")
    assert result.exit_code == 0
    assert "warning: FedAvg, seed 0: diverged by round 2" in result.stderr
    assert "RuntimeWarning" not in result.stderr
    assert "2 of 2 seeds of FedAvg diverged and are excluded." in result.stdout


def test_demo_runs_the_packaged_configuration_with_other_rounds(fedtide, config, monkeypatch):
    small = experiments.adjusted(experiments.load(config), rounds=8, seeds=5)
    monkeypatch.setattr(experiments, "demo", lambda: small)
    result = fedtide("demo", "--rounds", 4, "--seeds", 2, "--out", "d")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "Report: d/report.html"
    about = json.loads(Path("d/run.json").read_text("utf-8"))
    assert about["command"] == "fedtide demo --rounds 4 --seeds 2 --out d"
    assert tomllib.loads(about["config"])["run"] == {"rounds": 4, "seeds": 2, "evaluate_every": 2}
    assert about["seeds"] == [0, 1]


def test_demo_refuses_what_cannot_be_run(fedtide):
    result = fedtide("demo", "--rounds", 0)
    assert result.exit_code == 2
    assert result.stderr == "error: demo.toml: run.rounds = 0: must be a whole number from 1 to 10,000,000\n"
    assert list(Path().iterdir()) == []


def test_progress_of_a_resumed_run_does_not_count_what_was_done_before():
    bars = RoundsProgress(["A", "B"], 100)
    for label, done in (("A", 100), ("B", 40), ("B", 60)):
        bars(label, done, 100)
    a, b, both = bars._progress.tasks
    assert [task.completed for task in (a, b, both)] == [100, 60, 160]
    assert a.finished
    assert [task.fields["first"] for task in (a, b, both)] == [100, 40, 140]


def test_overwriting_replaces_a_run(fedtide, config, finished):
    shutil.copytree(finished, "a")
    (Path("a") / "checkpoints").mkdir()  # as after a kill
    config.write_text(config.read_text("utf-8").replace("rounds = 4", "rounds = 6", 1), "utf-8")
    assert fedtide("run", config, "--out", "a", "--overwrite").exit_code == 0
    assert {path.name for path in Path("a").iterdir()} == FILES
    about = json.loads(Path("a/run.json").read_text("utf-8"))
    assert about["rounds"] == 6
    assert about["command"] == f"fedtide run {config} --out a --overwrite"
    assert fedtide("run", config, "--out", "new", "--overwrite").exit_code == 0  # nothing to replace


@pytest.mark.parametrize("stranger", ["thesis.tex", "run.json"])
def test_only_runs_are_overwritten(fedtide, config, finished, stranger):
    shutil.copytree(finished, "a")
    if stranger == "run.json":
        (Path("a") / "run.json").unlink()
    else:
        (Path("a") / stranger).write_text("mine")
    before = {path.name: path.read_bytes() for path in Path("a").iterdir()}
    result = fedtide("run", config, "--out", "a", "--overwrite")
    assert result.exit_code == 2
    reason = "it has no run.json" if stranger == "run.json" else "it contains thesis.tex"
    line = f"error: a: not overwritten: {reason}, and is not only the folder of a run"
    assert result.stderr.splitlines()[-1] == line
    assert {path.name: path.read_bytes() for path in Path("a").iterdir()} == before


@pytest.mark.parametrize("wrong", ["rounds = -4", "evaluate_every = 0"])
def test_a_run_that_is_refused_overwrites_nothing(fedtide, config, finished, wrong):
    shutil.copytree(finished, "a")
    before = {path.name: path.read_bytes() for path in Path("a").iterdir()}
    key = wrong.split(" ")[0]
    config.write_text(re.sub(rf"^{key} = .*$", wrong, config.read_text("utf-8"), count=1, flags=re.M), "utf-8")
    assert fedtide("run", config, "--out", "a", "--overwrite").exit_code == 2
    assert {path.name: path.read_bytes() for path in Path("a").iterdir()} == before


def test_a_run_that_does_not_fit_overwrites_nothing(fedtide, config, finished, monkeypatch):
    from fedtide.simulation import memory

    shutil.copytree(finished, "a")
    monkeypatch.setattr(memory, "device_memory", lambda: 100)
    result = fedtide("run", config, "--out", "a", "--overwrite")
    assert result.exit_code == 2
    assert "but the device has only 100 bytes" in result.stderr
    assert {path.name for path in Path("a").iterdir()} == FILES


def test_a_tuned_configuration_has_a_name_of_its_own(fedtide, config):
    """Otherwise the tuned configurations of two experiments would share a folder."""
    tuned = Path("tuned/phones/tuned.toml")
    tuned.parent.mkdir(parents=True)
    config.rename(tuned)
    assert fedtide("run", tuned).exit_code == 0
    assert {path.name for path in Path("runs/phones-tuned").iterdir()} == FILES


def test_python_overwrites_as_well(tmp_path):
    from fedtide import FedtideError, Result, availability, methods, problems, simulate

    parts = problems.random_quadratic(clients=3), availability.Bernoulli(0.5, clients=3), methods.fedavg(rate=0.01)
    for rounds in (2, 3):
        simulate(*parts, rounds=rounds, out=tmp_path / "a", overwrite=True)
        assert Result.load(tmp_path / "a").about["rounds"] == rounds
    with pytest.raises(FedtideError, match="overwrite = True: must be False if resume is True"):
        simulate(*parts, rounds=2, out=tmp_path / "a", overwrite=True, resume=True)
