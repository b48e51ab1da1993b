"""Somebody on another machine who has only ca.crt: no app of theirs runs; a client with its key takes part meanwhile.

Two network namespaces play the two machines. Their addresses exist nowhere else.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs pip install 'fedtide[flower]'")

from fedtide.adapters.deploy.app import write_app
from fedtide.adapters.deploy.keys import make_keys

SERVER, OUTSIDE, PORT = "198.18.77.1", "198.18.77.2", 8443
PROGRAM = """
from pathlib import Path
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
Path({marker!r}).touch()
server = ServerApp()
client = ClientApp()

@server.main()
def main(grid, context):
    pass
"""
SETTINGS = """
[project]
name = "evil"
version = "1.0.0"
[tool.flwr.app]
publisher = "me"
fab-include = ["/*.py"]
[tool.flwr.app.components]
serverapp = "evil:server"
clientapp = "evil:client"
[tool.flwr.app.config]
"""
LOOK = """
import httpx, json, sys
with httpx.Client(verify=sys.argv[1], timeout=30) as client:
    found = [client.request(verb, sys.argv[2] + path, content=b"", headers={"content-type": "application/protobuf"})
             for verb, path in json.loads(sys.argv[3])]
print(json.dumps([[one.status_code, one.text] for one in found]))
"""


def _listening(prefix):
    """(addresses, ports) of all listening sockets of a machine, as the kernel writes them."""
    files = ["/proc/net/tcp", "/proc/net/tcp6"]
    text = subprocess.run([*prefix, "cat", *files], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in text.splitlines()]
    return {tuple(row[1].split(":")) for row in rows if row[3] == "0A"}


def _ip(*words, check=True):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=check)


@pytest.fixture
def machines():
    """(command prefix of the server's machine, of another one), on one network."""
    if shutil.which("ip") is None:
        pytest.skip("needs ip")
    names = [f"fedtide-{role}-{os.getpid()}" for role in ("server", "outside")]
    try:
        for name in names:
            if _ip("netns", "add", name, check=False).returncode:
                pytest.skip("needs network namespaces")
        ends = [f"ft{role}{os.getpid()}"[:15] for role in "so"]
        _ip("link", "add", ends[0], "netns", names[0], "type", "veth", "peer", "name", ends[1], "netns", names[1])
        for name, end, address in zip(names, ends, (SERVER, OUTSIDE), strict=True):
            _ip("-n", name, "addr", "add", f"{address}/30", "dev", end)
            _ip("-n", name, "link", "set", end, "up")
            _ip("-n", name, "link", "set", "lo", "up")
        yield [["ip", "netns", "exec", name] for name in names]
    finally:
        for name in names:
            _ip("netns", "del", name, check=False)


@pytest.mark.slow
def test_who_has_only_the_certificate_runs_nothing(machines, tmp_path):
    here, outside = machines
    write_app(tmp_path / "app", "fedavg", "numpy", ["0"])
    keys = make_keys(tmp_path / "app" / "keys", ["0"], [SERVER])
    marker, evil, home = tmp_path / "marker", tmp_path / "evil", tmp_path / "home"
    for folder in (evil, home):
        folder.mkdir()
    (evil / "pyproject.toml").write_text(SETTINGS)
    (evil / "evil.py").write_text(PROGRAM.format(marker=str(marker)))
    address = f"{SERVER}:{PORT}"
    ca = tmp_path / "ca.crt"
    shutil.copy(keys.ca, ca)
    (home / "config.toml").write_text(f'[superlink.target]\naddress = "{address}"\nroot-certificates = "{ca}"\n')
    environment = os.environ | {
        "FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"
    }  # fmt: skip
    command = [sys.executable, "-m", "fedtide", "deploy"]
    flwr = str(Path(sys.executable).with_name("flwr"))
    wanted = [("POST", f"/v1/control/{what}") for what in ("start-run", "list-runs", "list-nodes", "register-node")]
    wanted += [("POST", "/v1/runtime/acquire-task"), ("GET", "/docs"), ("GET", "/openapi.json"), ("GET", "/health")]
    wanted += [("POST", "/v1/fleet/register-node"), ("POST", "/v1/fleet/unregister-node")]

    def asked():
        look = [*outside, sys.executable, "-c", LOOK, str(ca), f"https://{address}", json.dumps(wanted)]
        return subprocess.run(look, capture_output=True, text=True, check=False)

    with (tmp_path / "up.log").open("w") as log:
        up = subprocess.Popen(
            [*here, *command, "up", str(tmp_path / "app"), "--host", SERVER, "--port", str(PORT), "--rounds", "1"],
            stdout=log, stderr=log,
        )  # fmt: skip
    node = None
    try:
        end = time.monotonic() + 120
        while (found := asked()).returncode and time.monotonic() < end and up.poll() is None:
            time.sleep(0.5)
        assert found.returncode == 0, found.stderr + (tmp_path / "up.log").read_text()
        beyond = {(where, port) for where, port in _listening(here) if where != "0100007F"}
        assert beyond == {("014D12C6", f"{PORT:04X}")}  # the gateway, at the address that was given
        ran = subprocess.run(
            [*outside, flwr, "run", str(evil), "target", "--format", "json"],
            env=environment, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        with (tmp_path / "node.log").open("w") as log:
            node = subprocess.Popen(
                [*outside, *command, "node", "--root-certificates", str(ca), "--superlink", address,
                 "--auth-supernode-private-key", str(keys.clients["0"]),
                 "--node-config", f'client-id="0" partition-id=0 num-partitions=1 state="{tmp_path}/memory"'],
                stdout=log, stderr=log,
            )  # fmt: skip
        nodes = set()
        while up.poll() is None and time.monotonic() < end + 180:
            nodes |= _listening(outside)
            time.sleep(1)
        ended = up.wait(10)
        assert {where for where, _ in nodes} == {"0100007F"}  # the client's own interface
        said = (tmp_path / "up.log").read_text()
        assert not marker.exists(), f"the attacker's app has run: {ran.stdout}"
        assert '"success": true' not in ran.stdout
        assert json.loads(found.stdout) == [[404, ""]] * len(wanted)
        assert ended == 0, said + (tmp_path / "node.log").read_text()
        assert "round 1 of 1 · 1 of 1 available, 1 used" in said
    finally:
        for process in (up, node):
            if process is not None:
                process.terminate()
                process.wait(60)
