"""Keys: the certificate verifies against the authority, for its hosts and no others; private files are private."""

import socket
import ssl
import stat
import threading

import pytest

pytest.importorskip("flwr", reason="needs pip install 'fedtide[flower]'")

from fedtide.adapters.deploy.keys import commands, hosts_of, is_loopback, make_keys
from fedtide.errors import FedtideError


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_keys(tmp_path_factory.mktemp("keys") / "keys", ["anna", "be/n"], ["fl.example.org", "10.0.0.7"])


def _handshake(keys, ca, name):
    """Whether a client that trusts `ca` accepts the server under this name."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(keys.certificate, keys.key)
    client = ssl.create_default_context(cafile=ca)
    one, other = socket.socketpair()

    def serve():
        try:
            with server.wrap_socket(one, server_side=True):
                pass
        except (ssl.SSLError, OSError):
            one.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(other, server_hostname=name):
            return True
    except ssl.SSLCertVerificationError:
        return False
    finally:
        other.close()
        thread.join()


@pytest.mark.parametrize("name", ["fl.example.org", "10.0.0.7", "localhost", "127.0.0.1"])
def test_the_certificate_verifies(made, name):
    assert _handshake(made, made.ca, name)


def test_other_names_and_other_authorities_do_not(made, tmp_path):
    assert not _handshake(made, made.ca, "else.example.org")
    other = make_keys(tmp_path, [], ["fl.example.org"])
    assert not _handshake(made, other.ca, "fl.example.org")


def test_private_files_are_for_their_owner_only(made):
    private = [made.ca_key, made.key, made.secret, *made.clients.values()]
    assert [stat.S_IMODE(path.stat().st_mode) for path in private] == [0o600] * 5
    assert len(made.secret.read_bytes()) == 32
    folders = [made.ca.parent, made.ca.parent / "clients"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in folders] == [0o700] * 2
    assert sorted(path.name for path in made.ca.parent.iterdir()) == [
        "ca.crt", "ca.key", "clients", "superexec.secret", "superlink.crt", "superlink.key",
    ]  # fmt: skip


def test_flower_takes_the_clients_keys(made):
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

    for path in made.clients.values():
        private = load_ssh_private_key(path.read_bytes(), None)
        public = load_ssh_public_key(path.with_name(path.name + ".pub").read_bytes())
        assert isinstance(private, ec.EllipticCurvePrivateKey)
        assert private.public_key() == public
    assert made.clients["be/n"].name == "be%2Fn"


def test_nothing_is_overwritten_and_clients_can_be_added(tmp_path):
    first = make_keys(tmp_path, ["a"], ["h"])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    again = make_keys(tmp_path, ["a", "b"], ["h"])
    assert all(path.read_bytes() == content for path, content in before.items())
    assert again.clients["b"].exists()
    with pytest.raises(FedtideError, match="does not name elsewhere, and keys are never overwritten"):
        make_keys(tmp_path, ["a"], ["elsewhere"])
    first.ca_key.rename(tmp_path / "offline.key")
    make_keys(tmp_path, ["c"], ["h"])  # clients need no authority
    first.certificate.unlink()
    with pytest.raises(FedtideError, match=r"superlink.key: exists, but superlink.crt does not"):
        make_keys(tmp_path, ["a"], ["h"])
    assert set(hosts_of(make_keys(tmp_path / "new", [], ["h"]).certificate)) == {"h", "localhost", "127.0.0.1", "::1"}


@pytest.mark.parametrize(("host", "here"), [("127.0.0.1", True), ("localhost", True), ("::1", True),
                                            ("0.0.0.0", False), ("10.0.0.7", False), ("fl.lan", False)])  # fmt: skip
def test_what_is_loopback(host, here):
    assert is_loopback(host) == here


def test_commands_name_every_file_once_it_is_needed(made):
    said = commands(made, "fl.example.org")
    assert f"--ssl-keyfile {made.key}" in said
    assert "--enable-supernode-auth" in said
    assert said.count(f"--superexec-auth-secret-file {made.secret}") == 2
    assert "flower-superlink --host 127.0.0.1 --port 8000" in said  # nobody else reaches it
    assert f"fedtide deploy gateway {made.ca.parent} --host 0.0.0.0 --port 8443 --superlink 127.0.0.1:8000" in said
    assert said.count("0.0.0.0") == 1
    assert 'address = "127.0.0.1:8000"' in said
    assert "flwr supernode register" in said
    assert """'client-id="anna" partition-id=0 num-partitions=2'""" in said
    assert "fedtide deploy node --root-certificates ca.crt --superlink fl.example.org:8443" in said
    assert f"--run-config 'keys=\"{made.ca.parent / 'clients'}\"'" in said  # names are bound to keys
    assert "FLWR_TELEMETRY_ENABLED=0" in said
    assert str(made.ca_key) not in said  # the authority's key is needed nowhere
