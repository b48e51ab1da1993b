"""`fedtide deploy up` with real processes: clients really come and go, Ctrl-C and SIGKILL leave nothing behind."""

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs pip install 'fedtide[flower]'")

from fedtide.adapters.deploy.app import write_app
from fedtide.adapters.deploy.keys import make_keys
from fedtide.adapters.deploy.local import LocalFederation
from fedtide.adapters.ledger import Ledger
from fedtide.errors import FedtideError

COMMAND = [sys.executable, "-m", "fedtide", "deploy"]


def _processes(folder):
    """Command lines of processes that work in a folder."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(folder) in str((place / "cwd").readlink()) or str(folder) in words:
                found.append(words)
    return found


def _until(true, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.5)
    return False


def _rounds(app, run="run"):
    path = app / "state" / "ledger.db"
    if not path.exists():
        return 0
    with contextlib.suppress(FedtideError), Ledger(path, readonly=True) as ledger:
        return next((one.rounds for one in ledger.runs() if one.run == run), 0)
    return 0


@pytest.fixture
def app(tmp_path):
    write_app(tmp_path / "app", "fedavg", "numpy", ["0", "1"])
    return tmp_path / "app"


@pytest.mark.slow
def test_clients_come_and_go_and_a_stopped_run_goes_on(app, tmp_path):
    # The second client is away for the first three rounds of wall time; nobody is in the middle of a long trace.
    np.save(tmp_path / "who.npy", np.array([[1, 0]] * 3 + [[1, 1]] * 100))
    options = ["--availability", f"trace:{tmp_path}/who.npy", "--seconds-per-round", "15", "--rounds", "8"]
    with subprocess.Popen(
        [*COMMAND, "up", str(app), *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as up:
        assert _until(lambda: _rounds(app) >= 3, 300)
        up.send_signal(signal.SIGINT)
        said, _ = up.communicate(timeout=90)
    assert up.returncode == 130, said
    assert f"stopped; resume with: fedtide deploy up {app}" in said
    assert "client 1 stops" in said
    assert "round 1 of 8" in said
    assert _processes(app) == []
    done = _rounds(app)
    again = subprocess.run(
        [*COMMAND, "up", str(app), *options], capture_output=True, text=True, timeout=500, check=False
    )
    assert again.returncode == 0, again.stdout + again.stderr
    assert f"resumes after round {done}" in again.stdout
    assert f"round {done} of" not in again.stdout
    assert _rounds(app) == 8
    assert _processes(app) == []
    with Ledger(app / "state" / "ledger.db") as ledger:
        _, _, here = ledger.presence("run")
    assert here[:, 0].any()
    assert not here[:, 1].all()
    assert here[-1].all()


@pytest.mark.slow
def test_a_killed_command_leaves_no_process_behind(app):
    with subprocess.Popen([*COMMAND, "up", str(app), "--availability", "always"], stdout=subprocess.DEVNULL) as up:
        assert _until(lambda: _rounds(app) >= 1, 240)
        assert len(_processes(app)) >= 4
        up.kill()
    assert _until(lambda: _processes(app) == [], 20), _processes(app)


@pytest.mark.slow
def test_an_app_that_fails_says_why(app):
    program = app / "federation.py"
    program.write_text(program.read_text().replace("np.zeros((64, 10), np.float32)", "np.zeros((64, 10), int)"))
    done = subprocess.run([*COMMAND, "up", str(app)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2
    assert "error: the run has failed: initial: arrays of types float32, int64; all must be floating" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert _processes(app) == []


@pytest.mark.slow
def test_a_wrong_certificate_and_an_unregistered_key_are_refused(tmp_path):
    keys = make_keys(tmp_path / "keys", ["0", "stranger"], ["localhost"])
    other = make_keys(tmp_path / "other", [], ["localhost"])
    one = keys._replace(clients={"0": keys.clients["0"]})
    with LocalFederation(tmp_path / "federation", 1, keys=one) as federation:
        online = lambda: len(federation.flwr("supernode", "list", "local").get("nodes", []))  # noqa: E731
        assert _until(lambda: "online" in str(federation.flwr("supernode", "list", "local")), 60)
        assert online() == 1
        # A key that was not registered.
        federation.nodes.append({"client-id": "stranger"})
        federation.keys = keys
        federation.start("node-1")
        assert _until(lambda: not federation.alive("node-1"), 90), federation.log("node-1")
        assert "Failed to activate SuperNode" in federation.log("node-1")
        assert "No SuperNode found with the given public key" in federation.log("superlink")
        # A client that trusts another authority than the one that signed the server's certificate.
        federation.keys = one._replace(ca=other.ca)
        federation.kill("node-0")
        federation.start("node-0")
        assert _until(lambda: "CERTIFICATE_VERIFY_FAILED" in federation.log("node-0"), 60), federation.log("node-0")
        federation.keys = one
        assert online() == 1
        assert "CERTIFICATE_VERIFY_FAILED" not in federation.log("superexec")
