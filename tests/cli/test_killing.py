"""`fedtide run` killed with SIGKILL again and again: `fedtide resume` ends with the records of a run that never was."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

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
rounds = 600
seeds = 2
evaluate_every = 50

[[methods]]
name = "fedavg"
rate = 0.01

[[methods]]
name = "unbiased"
rate = 0.01
"""


def fedtide(*arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "fedtide", *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def checkpoints(folder: Path) -> int:
    """How many segments have been written."""
    return len(list(folder.glob("checkpoints/*/rounds-*.parquet")))


# After so many checkpoints: in the first method; again in it, and in the second.
@pytest.mark.parametrize("moments", [(1,), pytest.param((1, 7, 16), marks=pytest.mark.slow)])
def test_killed_at_any_moment(moments, tmp_path):
    config = tmp_path / "config.toml"
    config.write_text(CONFIG)
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    assert fedtide("run", str(config), "--out", str(whole)).wait(300) == 0

    process = fedtide("run", str(config), "--out", str(torn))
    kills = 0
    for wanted in moments:
        deadline = time.monotonic() + 300
        while process.poll() is None and checkpoints(torn) < wanted and time.monotonic() < deadline:
            time.sleep(0.005)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
        if (torn / "report.html").exists():
            break
        process = fedtide("resume", str(torn))
    _, errors = process.communicate(timeout=300)
    assert kills >= 1
    assert process.returncode in (0, -signal.SIGKILL), errors
    if not (torn / "report.html").exists():
        assert fedtide("resume", str(torn)).wait(300) == 0
    for table in ("rounds", "clients"):
        assert pl.read_parquet(torn / f"{table}.parquet").equals(pl.read_parquet(whole / f"{table}.parquet"))
    assert not list(torn.rglob(".*"))
