"""Nodes with a wrong certificate or an unregistered key do not get in, nor under another name; others come back."""

import os
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def guarded(tmp_path_factory, runs_in):
    """TLS and keys: node 0 has both right, 1 a key that nobody has registered, 2 another authority's certificate."""
    from fedtide.adapters.deploy.keys import make_keys
    from fedtide.adapters.deploy.local import LocalFederation

    folder = tmp_path_factory.mktemp("guarded")
    keys = make_keys(folder / "keys", ["0", "1", "2"], [])
    others = make_keys(folder / "others", [], [])
    shutil.copytree(Path(__file__).parent / "app", folder / "app")
    own = keys._replace(clients={"0": keys.clients["0"]})
    with LocalFederation(folder / "federation", 1, keys=own) as federation:
        federation.register(keys.clients["2"])
        federation.nodes += [federation.nodes[0] | {"client-id": str(k), "partition-id": k} for k in (1, 2)]
        federation.keys = keys
        federation.start("node-1")
        federation.keys = keys._replace(ca=others.ca)
        federation.start("node-2")
        federation.keys = keys
        yield SimpleNamespace(federation=federation, run=runs_in(federation, folder), keys=keys.ca.parent / "clients")


def test_strangers_do_not_get_in(guarded, record):
    run = guarded.run("guarded", rounds=2, **{"enrol-seconds": 1.0})
    run.start()
    run.written(2)
    assert all(run.row(t, 0)["included"] for t in (0, 1))
    said = [guarded.federation.log(f"node-{k}") for k in (1, 2)]
    for k, words in zip((1, 2), said, strict=True):
        assert all(run.row(t, k)["reason"] == "not-listed" for t in (0, 1)), words
    assert "Failed to activate SuperNode" in said[0]
    assert "CERTIFICATE_VERIFY_FAILED" in said[1]
    run.nothing_lost()
    record("a node with an unregistered key", "never listed: Flower does not activate the node, which ends", 0)
    record("a node that trusts another authority", "never listed: the node does not trust the SuperLink, and ends", 0)


def test_a_client_cannot_pose_as_another_one(guarded, record):
    """Node 2 has a registered key, and claims to be client 1, which is away."""
    federation = guarded.federation
    assert not federation.alive("node-2")  # it did not trust the SuperLink
    federation.nodes[2]["client-id"] = "1"
    federation.start("node-2")
    run = guarded.run("posing", rounds=3, keys=str(guarded.keys), **{"enrol-seconds": 5.0, "round-seconds": 5.0})
    run.start()
    run.written(3)
    why = "refused:it claims to be client '1', but its key is that of client '2'"
    assert run.row(2, 2)["reason"] == why
    assert [run.row(t, 1)["reason"] for t in range(3)] == ["not-listed"] * 3
    assert all(run.row(t, 0)["included"] for t in range(3))
    run.nothing_lost()
    federation.stop("node-2")
    record("a client says that it is another one, which is away", why, 0)


def test_a_killed_client_with_a_key_comes_back_when_flower_lets_it(guarded, record):
    """Flower holds a killed node for connected for a minute, and takes its key again only then."""
    federation = guarded.federation
    run = guarded.run("returned", **{"enrol-seconds": 1.0})
    run.start()
    run.written(1)
    federation.kill("node-0")
    killed, started = time.time(), []

    def accepted():
        if not federation.alive("node-0"):
            federation.start("node-0")
            started.append(federation.processes["node-0"].pid)
        time.sleep(2)
        return [t for t in run.rounds() if run.rounds()[t]["began"] > killed and run.row(t, 0)["included"]]

    turn = min(run.until(accepted, "client 0 back"))
    run.nothing_lost()
    for group in started[:-1]:  # nothing is left of those that ended at once
        with pytest.raises(ProcessLookupError):
            os.killpg(group, 0)
    lost = sum(not run.row(t, 0)["included"] for t in run.rounds() if t < turn)
    fault = "a client with a registered key is killed, and started again every few seconds"
    record(fault, f"taken at start {len(started)}", lost, run.rounds()[turn]["ended"] - killed)
