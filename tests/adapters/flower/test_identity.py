"""A client is the one that has its key, whatever it says."""

from types import SimpleNamespace

import numpy as np
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key

from fedtide.adapters.deploy.keys import make_keys
from fedtide.adapters.flower import Answer, client
from fedtide.adapters.flower.roster import read_identities
from fedtide.errors import FedtideError

NAMES = ["oslo", "turin", "ly/on"]


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """.folder of the public keys, and .pem: name -> the key as Flower has it."""
    made = make_keys(tmp_path_factory.mktemp("keys"), [*NAMES, "mallory"], [])
    public = {name: path.with_name(f"{path.name}.pub") for name, path in made.clients.items()}
    loaded = {name: load_ssh_public_key(path.read_bytes()) for name, path in public.items()}
    pem = {name: key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo) for name, key in loaded.items()}
    return SimpleNamespace(folder=public["oslo"].parent, pem=pem, public=public)


@pytest.fixture
def cities(federation, keys):
    """Three clients, each with its name and its key."""

    def train(arrays, round):
        return Answer([arrays[0] + np.float32(1)], 10, 1, 1.0)

    def make(**settings):
        app = client(train, examples=10)
        plain = {"clients": ",".join(NAMES), "keys": str(keys.folder), "importance": "uniform", "enrol-seconds": 5}
        made = federation(app, 3, [np.zeros(2, np.float32)], **{**plain, **settings})
        for node, name in zip(made.nodes, NAMES, strict=True):
            node.config, node.key = {**node.config, "client-id": name}, keys.pem[name]
        return made

    return make


def test_clients_with_their_own_keys_count(cities, ledger_of):
    made = cities()
    made.serve()
    assert ledger_of(made)[1].all()


def test_who_has_anothers_key_is_refused_and_the_round_goes_on(cities, ledger_of, caplog):
    made = cities()
    made.nodes[0].config["client-id"] = "turin"  # with oslo's key; turin is away
    del made.grid.nodes[1001]
    session = made.serve()
    _, here, rows = ledger_of(made)
    assert here.tolist() == [[False, False, True]] * 3
    why = "refused:it claims to be client 'turin', but its key is that of client 'oslo'"
    assert [rows[t, "oslo"].reason for t in range(3)] == [why] * 3
    assert [rows[t, "turin"].reason for t in range(3)] == ["not-listed"] * 3
    assert "is refused: claims to be client 'turin'" in caplog.text
    assert set(made.nodes[0].kinds) == {"query.hello"}  # it never sees the model
    np.testing.assert_allclose(session.coordinator.served, 3.0)  # one a round: ly/on's


def test_a_name_without_a_key_and_a_key_without_a_name(cities, keys, ledger_of, tmp_path):
    known = tmp_path / "known"
    known.mkdir()
    for name in ("oslo", "turin"):
        path = keys.public[name]
        (known / path.name).write_bytes(path.read_bytes())
    made = cities(keys=str(known))
    made.nodes[1].key = keys.pem["mallory"]
    made.serve()
    _, here, rows = ledger_of(made)
    assert here.tolist() == [[True, False, False]] * 3
    assert rows[0, "turin"].reason == "refused:it claims to be client 'turin', but its key is unknown"
    assert rows[0, "ly/on"].reason == "refused:it claims to be client 'ly/on', which has no key"


def test_it_counts_once_it_says_who_it_is(cities, ledger_of):
    made = cities(rounds=4)
    made.nodes[0].config["client-id"] = "turin"
    asked = {"times": 0}

    def honest_at_last(message, reply):
        if message.metadata.message_type == "query.hello":
            asked["times"] += 1
            made.nodes[0].config["client-id"] = "oslo"
        return reply

    made.nodes[0].fault = honest_at_last
    made.serve()
    assert asked["times"] == 2
    assert ledger_of(made)[1].all()


def test_without_keys_names_are_believed(cities, ledger_of):
    made = cities(keys="")
    made.nodes[0].key = made.nodes[1].key = b""
    made.serve()
    assert ledger_of(made)[1].all()


def test_folders_without_keys_are_refused(tmp_path, keys):
    with pytest.raises(FedtideError, match=r"keys = .*: must be a folder with the clients' public keys"):
        read_identities(str(tmp_path))
    (tmp_path / "a.pub").write_text("no key")
    with pytest.raises(FedtideError, match=r"a.pub: not a public key"):
        read_identities(str(tmp_path))
    for name in ("a", "b"):
        (tmp_path / f"{name}.pub").write_bytes(keys.public["oslo"].read_bytes())
    with pytest.raises(FedtideError, match="two clients have the same key"):
        read_identities(str(tmp_path))
