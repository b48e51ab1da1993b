"""Servers that are killed, and disks that are full: the run goes on after its last checkpoint."""

import os
import subprocess
import time

import numpy as np
import pytest

pytestmark = pytest.mark.slow


def test_a_server_killed_between_the_ledger_and_the_checkpoint(bench, record):
    """The repeated round is counted once, at the server and in the memory of clients, and the model is the same."""
    scaffold = {"method__name": "scaffold", "rounds": 3}
    run = bench.run("killed", app__faults="kill:server:1", **scaffold)
    run.start()
    killed = run.marked("server-1")
    assert len(run.rounds()) == 2
    assert run.checkpoint()[1] == 1
    first = run.rounds()[1]["ended"]
    run.start()
    model = run.finished()
    ended = run.rounds()[1]["ended"]
    assert ended > first
    assert list(run.rounds()) == [0, 1, 2]
    assert all(run.row(t, k)["included"] for t in range(3) for k in range(3))

    twin = bench.run("twin", **scaffold)
    twin.start()
    np.testing.assert_allclose(model, twin.finished(), atol=1e-6)
    assert np.abs(model).max() > 0.1
    fault = "the server app is killed between ledger and checkpoint, and started again"
    record(fault, "the round is repeated", 1, ended - killed)


def test_a_disk_that_is_full_when_the_checkpoint_is_written(bench, record):
    small = bench.folder / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs leave to mount a small file system")
    try:
        run = bench.run("full", rounds=4, state=str(small), ledger=str(bench.folder / "elsewhere.db"))
        run.start()
        run.until((small / "full" / "state.safetensors").exists, "the first checkpoint")
        _fill(small / "ballast")
        full = time.time()
        run.until(lambda: "No space left" in run.said(), "a full disk")
        _, done = run.checkpoint()  # whole
        assert done in (1, 2)
        (small / "ballast").unlink()
        run.start()
        run.finished()
        assert list(run.rounds()) == [0, 1, 2, 3]
        assert [path for path in (small / "full").iterdir() if path.name.startswith(".")] == []
        run.nothing_lost()
        assert "state.safetensors: cannot be written" in run.said()
        saw = "the server app ends: the checkpoint cannot be written; the one before stays"
        record("the disk is full when the checkpoint is written", saw, 1, run.rounds()[done]["ended"] - full)
    finally:
        subprocess.run(["umount", "-l", str(small)], check=False)


def _fill(path):
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


@pytest.mark.parametrize("away", [5, 75])
def test_a_superlink_that_is_killed_and_started_again(bench, record, away):
    """After 60 s Flower has given the server app up: it is started again, and goes on after its checkpoint."""
    run = bench.run(f"link-{away}", rounds=5)
    run.start()
    first = run.number
    run.written(2)
    bench.federation.kill("superlink")
    killed = time.time()
    time.sleep(away)
    bench.federation.start("superlink")
    run.finished()
    run.nothing_lost()
    assert away < 60 or run.number != first
    counted = {t: [k for k in range(3) if run.row(t, k)["included"]] for t in run.rounds()}
    lost = [t for t in counted if not counted[t]]
    whole = min(t for t in counted if t >= 2 and len(counted[t]) == 3)
    reasons = sorted({str(run.row(t, k)["reason"]) for t in counted for k in range(3) if k not in counted[t]})
    seconds = run.rounds()[whole]["ended"] - killed
    record(
        f"SuperLink is killed and started again after {away} s",
        ", ".join(reasons) or f"nothing: the server app {'waits for it' if away < 60 else 'is started again'}",
        len(lost),
        seconds,
    )
