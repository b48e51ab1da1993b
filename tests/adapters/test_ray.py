"""A run on Ray: the records of a local run, killed or not. One local Ray for all tests of a process."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file
from typer.testing import CliRunner

from fedtide.adapters import ray_tasks
from fedtide.cli import app
from fedtide.files import alone
from fedtide.simulation import engine
from fedtide.simulation.blocks import Sharing, of_all_seeds

CONFIG = """
[problem]
name = "quadratic"
clients = 6
dimension = 3

[availability]
name = "markov"
availability = 0.5
correlation = 0.5

[run]
rounds = 100
seeds = [3, 1, 7, 5]
evaluate_every = 25

[[methods]]
name = "fedavg"
rate = 0.01

[[methods]]
name = "unbiased"
rate = 0.01
"""
TABLES = ("rounds", "clients")
SHIPPED = engine.run_segment  # before fixtures give tests another one: workers have none of them


@pytest.fixture(autouse=True, scope="module")
def shipped():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "run_segment", SHIPPED)
        yield


def fedtide(*arguments: object):
    return CliRunner().invoke(app, [str(a) for a in arguments], prog_name="fedtide", env={"COLUMNS": "100"})


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("ray") / "tiny.toml"
    path.write_text(CONFIG, "utf-8")
    return path


@pytest.fixture(scope="module")
def local(config, shipped) -> Path:
    """The folder of the local run."""
    folder = config.parent / "local"
    assert fedtide("run", config, "--out", folder).exit_code == 0
    return folder


@pytest.fixture(scope="session")
def ray():
    """A local Ray with two workers, for all tests."""
    ray = pytest.importorskip("ray", reason="needs pip install 'fedtide[ray]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_worker_niceness", "0")
        ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        yield ray
        ray.shutdown()


def check_same(folder: Path, local: Path) -> None:
    """Bit for bit: tables, models, and all that is said of the run but where and how long.

    How much memory it takes follows from how many cores share the seeds: one where JAX was in use before.
    """
    for table in TABLES:
        found, wanted = (pl.read_parquet(f / f"{table}.parquet") for f in (folder, local))
        assert found.schema == wanted.schema
        assert found.equals(wanted)
    found, wanted = (load_file(f / "models.safetensors") for f in (folder, local))
    assert list(found) == list(wanted)
    for label, models in wanted.items():
        np.testing.assert_array_equal(found[label].view(np.uint32), models.view(np.uint32))
    found, wanted = (json.loads((f / "run.json").read_text("utf-8")) for f in (folder, local))
    for key in ("title", "command", "hardware", "seconds", "memory"):
        found.pop(key), wanted.pop(key)
    assert found == wanted
    assert {path.name for path in folder.iterdir()} == {path.name for path in local.iterdir()}


def test_the_records_of_a_local_run(ray, config, local):
    folder = config.parent / "spread"
    result = fedtide("run", config, "--out", folder, "--on", "ray", "--seeds-per-task", 2)
    assert result.exit_code == 0, result.output
    assert "4 tasks: 2 methods × 2 blocks of seeds, 2 at a time" in result.stderr
    assert "200/200 rounds" in result.stderr
    check_same(folder, local)
    about = json.loads((folder / "run.json").read_text("utf-8"))
    assert about["command"] == f"fedtide run {config} --out {folder} --on ray --seeds-per-task 2"


def wait_until_still(path: Path) -> None:
    """Until a file has not changed for two seconds."""
    content, since = path.read_bytes(), time.monotonic()
    while time.monotonic() - since < 2:
        time.sleep(0.1)
        if (now := path.read_bytes()) != content:
            content, since = now, time.monotonic()


@pytest.mark.parametrize("elsewhere", [[], pytest.param(["--on", "local"], marks=pytest.mark.slow)])
def test_stopped_and_resumed(ray, config, local, elsewhere, monkeypatch):
    """Stopped once a block is on its way, gone on with on Ray or in this process."""
    from fedtide.simulation.bars import RoundsProgress

    folder = config.parent / f"stopped{len(elsewhere)}"
    hear = RoundsProgress.__call__

    def stop(bars: RoundsProgress, label: str, done: int, total: int) -> None:
        hear(bars, label, done, total)
        if any((folder / "checkpoints").glob("*/*/state.safetensors")):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RoundsProgress, "__call__", stop)
        result = fedtide("run", config, "--out", folder, "--on", "ray", "--seeds-per-task", 2)
    assert result.exit_code == 130, result.output
    assert result.stderr.splitlines()[-1] == f"stopped; resume with: fedtide resume {folder}"
    assert json.loads((folder / "checkpoints" / "blocks.json").read_text())["on"] == "ray"
    if not elsewhere:  # an error of a worker is one line here
        state = next((folder / "checkpoints").glob("*/*/state.safetensors"))
        wait_until_still(state)  # a worker may write once more after the driver has stopped
        state.write_bytes(state.read_bytes()[:-1])
        result = fedtide("resume", folder)
        assert result.exit_code == 2
        line = result.stderr.splitlines()[-1]
        assert line.startswith(f"error: {state}: damaged checkpoint")
        assert line.endswith("delete its folder and resume: this method then starts again")
        shutil.rmtree(state.parent)
    result = fedtide("resume", folder, *elsewhere)
    assert result.exit_code == 0, result.output
    check_same(folder, local)


@pytest.mark.slow
def test_a_local_run_goes_on_on_ray(ray, config, local, monkeypatch):
    from fedtide.simulation import checkpoint

    folder = config.parent / "moved"
    save = checkpoint.save

    def once(path: Path, *rest) -> None:
        save(path, *rest)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save", once)
        assert fedtide("run", config, "--out", folder).exit_code == 130
    result = fedtide("resume", folder, "--on", "ray")
    assert result.exit_code == 0, result.output
    assert "2 tasks: 2 methods × 1 blocks of seeds" in result.stderr
    check_same(folder, local)


def test_a_folder_in_which_another_process_runs(ray, config):
    folder = config.parent / "taken"
    with alone(folder, ""):
        result = fedtide("run", config, "--out", folder, "--on", "ray")
        assert [path.name for path in folder.iterdir()] == ["fedtide.lock"]
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith(f"error: {folder}: another run is using it (PID ")


def test_more_than_a_machine_has(ray, config):
    folder = config.parent / "large"
    result = fedtide("run", config, "--out", folder, "--on", "ray", "--cpus-per-task", 99)
    assert result.exit_code == 2
    line = "error: no machine has 99 CPUs and 0 GPUs for a task: at most 2 and 0 in one"
    assert result.stderr.splitlines()[-1] == line
    assert not folder.exists()


def test_a_folder_that_a_worker_does_not_see(config, tmp_path):
    """Tasks are plain functions: here a worker whose machine lacks the folders."""
    spec = ray_tasks.Spec(CONFIG, "tiny.toml", str(config.parent), str(tmp_path / "nowhere"), 1)
    told = ray_tasks.run_block(spec, ray_tasks.PreparedRun({}, 0, "cpu"), 0, 0, 2)
    assert isinstance(told, ray_tasks.Failure)
    assert told.message.startswith(f"{spec.out}: missing on ")
    told = ray_tasks.prepare(spec._replace(folder=str(tmp_path / "nowhere")), Sharing(2), {}, False)
    assert isinstance(told, ray_tasks.Failure)
    assert told.message.endswith("all machines of the cluster must see the configuration's folder")
    told = ray_tasks.prepare(spec._replace(text=CONFIG.replace("unbiased", "no_such")), Sharing(2), {}, False)
    assert isinstance(told, ray_tasks.Failure)
    assert "files and data sets must be on every machine" in told.message


def test_without_ray(config, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    result = fedtide("run", config, "--out", config.parent / "without", "--on", "ray")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == "error: a run on Ray needs pip install 'fedtide[ray]'"
    assert not (config.parent / "without").exists()


def test_options_of_ray_need_ray(config):
    result = fedtide("run", config, "--out", config.parent / "without", "--seeds-per-task", 2)
    assert result.exit_code == 2
    assert result.stderr == "error: --seeds-per-task: only with --on ray\n"


def test_progress_is_the_mean_over_seeds():
    assert of_all_seeds([[0, 1, 2], [3]], [100, 20]) == 80


@pytest.mark.slow
def test_killed_driver(config, local):
    """SIGKILL of the driver of a Ray of its own: nothing of it stays, and the run goes on."""
    pytest.importorskip("ray", reason="needs pip install 'fedtide[ray]'")
    folder = config.parent / "killed"
    command = [sys.executable, "-m", "fedtide"]
    started = [*command, "run", str(config), "--out", str(folder), "--on", "ray", "--seeds-per-task", "2"]
    environment = os.environ | {"RAY_worker_niceness": "0"}
    process = subprocess.Popen(started, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    deadline = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        if any(folder.glob("checkpoints/*/*/state.safetensors")):
            process.send_signal(signal.SIGKILL)
        time.sleep(0.005)
    assert process.wait(10) == -signal.SIGKILL
    done = subprocess.run([*command, "resume", str(folder)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    check_same(folder, local)


@pytest.mark.slow
def test_a_cluster_of_two_nodes(config, local):
    """Found by RAY_ADDRESS; both nodes get work."""
    pytest.importorskip("ray", reason="needs pip install 'fedtide[ray]'")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        folder = config.parent / "cluster"
        command = [sys.executable, "-m", "fedtide", "run", str(config), "--out", str(folder), "--on", "ray"]
        environment = os.environ | {"RAY_ADDRESS": cluster.address, "RAY_worker_niceness": "0"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        assert "2 at a time" in done.stderr
        check_same(folder, local)
    finally:
        cluster.shutdown()
