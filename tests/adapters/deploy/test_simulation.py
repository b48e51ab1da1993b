"""Flower's own simulation runs the app unchanged, with 200 virtual clients."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs pip install 'fedtide[flower]'")

from fedtide.adapters.deploy.app import write_app
from fedtide.adapters.deploy.local import free_port
from fedtide.adapters.ledger import Ledger

CLIENTS, ROUNDS = 200, 3


@pytest.fixture
def simulation(tmp_path):
    """A SuperLink for simulations, called `sim`; yields the environment of commands."""
    port, home = free_port(), tmp_path / "flower"
    home.mkdir()
    (home / "config.toml").write_text(f'[superlink.sim]\naddress = "127.0.0.1:{port}"\ninsecure = true\n')
    switches = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, **switches, "FLWR_HOME": str(home), "PATH": path}
    command = ["flower-superlink", "--insecure", "--simulation", "--host", "127.0.0.1", "--port", str(port)]
    with (tmp_path / "superlink.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--disable-runtime-dependency-installation"], env=environment, stdout=log, stderr=log,
            cwd=tmp_path, start_new_session=True,
        )  # fmt: skip
    try:
        for _ in range(300):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.2)
        yield environment
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.slow
def test_two_hundred_virtual_clients(simulation, tmp_path):
    pytest.importorskip("ray", reason="needs pip install 'fedtide[ray]'")
    write_app(tmp_path / "app", "ca_fed", "numpy", [str(k) for k in range(CLIENTS)])
    state, seconds = tmp_path / "server", time.monotonic()
    federation = f"num-supernodes={CLIENTS} client-resources-num-cpus=1 init-args-num-cpus=2"
    settings = f'state="{state}" rounds={ROUNDS} evaluate-every={ROUNDS} enrol-seconds=300 deadline.start=300'
    command = ["flwr", "run", str(tmp_path / "app"), "sim", "--federation-config", federation]
    done = subprocess.run(
        [*command, "--run-config", settings, "--format", "json"],
        env=simulation, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout[done.stdout.find("{") :])["success"]
    model = state / "run" / "model.safetensors"
    while not model.exists() and time.monotonic() - seconds < 580:
        time.sleep(0.5)
    assert model.exists(), (tmp_path / "superlink.log").read_text()[-3000:]
    print(f"{time.monotonic() - seconds:.0f} s")
    with Ledger(state / "ledger.db", readonly=True) as ledger:
        status = ledger.status("run")
        for one in status.rounds:
            print(one.round, f"{one.ended - one.began:.1f} s", one.available, one.included, one.metrics)
        _, _, here = ledger.presence("run")
    assert here.shape == (ROUNDS, CLIENTS)
    assert here.all()
    assert status.rounds[-1].included > 0
    assert status.rounds[-1].metrics["accuracy"] > 0.3
