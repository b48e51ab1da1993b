"""Nothing but the gateway listens where others could reach it, and no set-up is started that would change that."""

import contextlib
import os
import ssl
import time
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs pip install 'fedtide[flower]'")

import httpx
from flwr.superlink.cli.flower_superlink import FLWR_INTERNAL_GRPC_CONTROL_API, FLWR_INTERNAL_GRPC_FLEET_API

from fedtide.adapters.deploy.exposure import LISTENERS, check_gateway, check_node, check_nodes
from fedtide.adapters.deploy.keys import is_loopback, make_keys
from fedtide.adapters.deploy.local import LocalFederation
from fedtide.errors import FedtideError

OUTSIDE = ("0.0.0.0", "::", "198.51.100.7", "fl.example.org", "2001:db8::7")


@pytest.fixture
def keys(tmp_path):
    return make_keys(tmp_path / "keys", ["0", "1"], ["127.0.0.2"])


def _options(command):
    return {word: command[i + 1] for i, word in enumerate(command[:-1]) if word.startswith("--")}


def _hosts(federation):
    """By process: the host at which it listens."""
    names = [*federation.servers, "node-0", "node-1"]
    return {name: _options(federation.command(name)).get("--host") for name in names}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2", *OUTSIDE])
def test_only_the_gateway_is_told_to_listen_elsewhere(tmp_path, keys, host):
    federation = LocalFederation(tmp_path, 2, keys=keys, host=host, port=8443)
    loopback = dict.fromkeys(("superlink", "node-0", "node-1"), "127.0.0.1")
    assert _hosts(federation) == {**loopback, "superexec": None, "gateway": host}
    superlink = _options(federation.command("superlink"))
    inside = f"127.0.0.1:{superlink['--port']}"
    assert superlink["--port"] != "8443"
    assert _options(federation.command("gateway"))["--superlink"] == inside
    assert _options(federation.command("superexec"))["--runtime-api-address"] == inside
    assert "--enable-supernode-auth" in superlink
    for name in ("superlink", "superexec"):
        assert _options(federation.command(name))["--superexec-auth-secret-file"].endswith("superexec.secret")
    for name in (*federation.servers, "node-0"):
        words = federation.command(name)
        assert "--insecure" not in words
        assert "--health-server-address" not in words


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_without_keys_all_is_on_loopback(tmp_path, host):
    federation = LocalFederation(tmp_path, 2, host=host)
    assert federation.servers == ("superlink", "superexec")
    assert all(is_loopback(found) for found in _hosts(federation).values() if found)


@pytest.mark.parametrize("host", OUTSIDE)
def test_without_keys_nothing_listens_elsewhere(tmp_path, host):
    with pytest.raises(FedtideError, match=r"host = .*: must be a loopback address such as 127.0.0.1"):
        LocalFederation(tmp_path, 1, host=host)


def test_tls_without_keys_of_clients_is_refused(tmp_path, keys):
    with pytest.raises(FedtideError, match="must be a key for each client"):
        LocalFederation(tmp_path, 1, keys=keys._replace(clients={}))
    Path(f"{keys.clients['1']}.pub").unlink()
    with pytest.raises(FedtideError, match=r"1\.pub: there is no such file"):
        check_nodes(list(keys.clients.values()))
    with pytest.raises(FedtideError, match="in one folder"):
        check_nodes([keys.clients["0"], tmp_path / "elsewhere" / "1"])


def test_variables_that_open_ports_are_refused(tmp_path, monkeypatch):
    assert set(LISTENERS) == {FLWR_INTERNAL_GRPC_CONTROL_API, FLWR_INTERNAL_GRPC_FLEET_API}
    for name in LISTENERS:
        with pytest.raises(FedtideError, match=f"{name} = '1': must be unset"):
            LocalFederation(tmp_path, 1, environment={name: "1"})
        with monkeypatch.context() as patched:
            patched.setenv(name, "1")
            with pytest.raises(FedtideError, match=f"{name} = '1': must be unset"):
                LocalFederation(tmp_path, 1)


def test_private_keys_that_others_can_read_are_refused(tmp_path, keys):
    for path in (keys.key, keys.clients["1"]):
        path.chmod(0o640)
        with pytest.raises(FedtideError, match=r"a private key that others can read.*chmod 600"):
            LocalFederation(tmp_path, 1, keys=keys)
        path.chmod(0o600)
    keys.key.chmod(0o604)
    with pytest.raises(FedtideError, match="others can read"):
        check_gateway(keys, "127.0.0.1:8000")
    keys.key.chmod(0o400)
    check_gateway(keys, "127.0.0.1:8000")


@pytest.mark.parametrize(
    "superlink", [f"{host}:8000" for host in ("0.0.0.0", "[::]", "198.51.100.7", "fl.example.org")]
)
def test_the_gateway_forwards_to_loopback_only(keys, superlink):
    with pytest.raises(FedtideError, match=r"--superlink = .*: must be a loopback address"):
        check_gateway(keys, superlink)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--host", "0.0.0.0"], "--host = '0.0.0.0': must be a loopback address"),
        (["--host=198.51.100.7"], "--host = '198.51.100.7': must be a loopback address"),
        (["--host", "127.0.0.1", "--host", "::"], "--host = '::': must be a loopback address"),
        (["--hos", "0.0.0.0"], "--hos: must be written in full, as --host"),
        (["--ho=0.0.0.0"], "--ho: must be written in full, as --host"),
        (["--insecure", "--superlink", "fl.example.org:8443"], "--superlink = 'fl.example.org': must be a loopback"),
        (["--insec", "--superlink", "fl.example.org:8443"], "--insec: must be written in full, as --insecure"),
        (["--superl=fl.example.org:8443", "--insecure"], "--superl: must be written in full, as --superlink"),
        (["--health-server-address", "0.0.0.0:9999"], "--health-server-address = '0.0.0.0': must be a loopback"),
        (["--superlink", "fl.example.org", "--insecure"], "--superlink = 'fl.example.org': must be HOST:PORT"),
        (["--auth-supernode-private-key", "nowhere"], "'nowhere': there is no such file"),
        (["--host"], "--host: expected one argument"),
    ],
)
def test_a_client_that_others_could_reach_is_not_started(arguments, said):
    with pytest.raises(FedtideError) as raised:
        check_node(arguments)
    assert said in str(raised.value)


def test_a_client_as_it_should_be_is_started(keys):
    check_node([])
    check_node(["--insecure", "--superlink", "127.0.0.1:8000", "--host", "localhost"])
    key = str(keys.clients["0"])
    wanted = [
        "--root-certificates",
        "ca.crt",
        "--superlink",
        "fl.example.org:8443",
        "--auth-supernode-private-key",
        key,
    ]
    check_node([*wanted, "--node-config", 'client-id="0" partition-id=0'])
    keys.clients["0"].chmod(0o644)
    with pytest.raises(FedtideError, match="a private key that others can read"):
        check_node(wanted)


def _listening(groups):
    """By process group: the addresses at which its processes listen, "127.0.0.1:80"."""
    tables = [path for name in ("tcp", "tcp6") if (path := Path("/proc/net") / name).exists()]  # IPv6 may be off
    rows = [line.split() for path in tables for line in path.read_text().splitlines()[1:]]
    sockets = {f"socket:[{row[9]}]": row[1] for row in rows if row[3] == "0A"}
    found = {name: set() for name in groups}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            group = os.getpgid(int(place.name))
            for name in (name for name, pid in groups.items() if pid == group):
                links = {str(link.readlink()) for link in (place / "fd").iterdir()}
                found[name] |= {_written(sockets[link]) for link in links & sockets.keys()}
    return found


def _written(address):
    host, _, port = address.partition(":")
    assert len(host) == 8, f"{address}: listens on IPv6"
    return f"{'.'.join(str(byte) for byte in reversed(bytes.fromhex(host)))}:{int(port, 16)}"


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux")
@pytest.mark.parametrize("guarded", [True, False])
def test_only_the_gateway_listens_where_it_was_told(tmp_path, keys, guarded):
    """127.0.0.2 plays the outside; all processes of a federation that runs, and their children."""
    wanted = {"keys": keys._replace(clients={"0": keys.clients["0"]}), "host": "127.0.0.2"} if guarded else {}
    with LocalFederation(tmp_path / "federation", 1, **wanted) as federation:
        groups = {name: process.pid for name, process in federation.processes.items()}
        end = time.monotonic() + 120
        while not (found := _listening(groups))["node-0"] and time.monotonic() < end:
            time.sleep(0.2)
        assert all(map(federation.alive, groups)), federation.log("node-0")
        port = found["node-0"].pop().partition("127.0.0.1:")[2]
        assert port.isdecimal()
        expected = {"superlink": {federation.superlink}, "superexec": set(), "node-0": set()}
        if guarded:
            expected["gateway"] = {f"127.0.0.2:{federation.port}"}
        assert found == expected
        assert federation.superlink.startswith("127.0.0.1:")
        # Other accounts of this machine take no tasks: SuperExec and SuperLink share a secret.
        verify = ssl.create_default_context(cafile=keys.ca) if guarded else False
        url = f"{'https' if guarded else 'http'}://{federation.superlink}/v1/runtime/acquire-task"
        answer = httpx.post(url, headers={"content-type": "application/protobuf"}, verify=verify, trust_env=False)
        assert answer.status_code == 401
        assert (federation.folder / "superexec.secret").stat().st_mode & 0o077 == 0
