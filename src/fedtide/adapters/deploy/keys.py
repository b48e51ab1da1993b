"""Keys of a federation: a certificate authority, the SuperLink's certificate, and a key pair for every client."""

import contextlib
import datetime
import ipaddress
import os
import secrets
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from fedtide.errors import FedtideError, require

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_CA_DAYS = 3650
_INSIDE = 8000  # the SuperLink's port on loopback, in the commands


class Keys(NamedTuple):
    """The files. Those of clients are SSH key pairs: the private one here, the public one beside it with `.pub`."""

    ca: Path
    ca_key: Path
    certificate: Path
    key: Path
    secret: Path  # that SuperLink and SuperExec share
    clients: dict[str, Path]


def paths(folder: Path | str, names: Sequence[str] = ()) -> Keys:
    """Where the keys of these clients are, or would be."""
    folder = Path(folder)
    clients = {name: folder / "clients" / quote(name, safe="") for name in names}
    ca, certificate, secret = (folder / name for name in ("ca.crt", "superlink.crt", "superexec.secret"))
    return Keys(ca, folder / "ca.key", certificate, folder / "superlink.key", secret, clients)


def public(private: Path) -> Path:
    """The public key beside a client's private one."""
    return private.with_name(f"{private.name}.pub")


def make_keys(folder: Path | str, names: Sequence[str], hosts: Sequence[str], days: int = 365) -> Keys:
    """Makes what is missing; nothing is overwritten: an authority that is there signs, a certificate that is there must
    name the hosts. Private files can be read by their owner only.
    """
    require(days >= 1, "days", days, "1 or more")
    require(len(set(names)) == len(names), "names", ",".join(names), "different")
    found = paths(folder, names)
    found.ca.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    (found.ca.parent / "clients").mkdir(exist_ok=True, mode=0o700)
    wanted = list(dict.fromkeys([*hosts, *_LOOPBACK]))
    if _whole(found.certificate, found.key):
        missing = sorted(set(wanted) - set(hosts_of(found.certificate)))
        if missing:
            raise FedtideError(
                f"{found.certificate}: it does not name {', '.join(missing)}, and keys are never overwritten; "
                f"move it and {found.key.name} away to have another one made"
            )
    else:
        authority = _authority(found)
        _certificate(found, authority, wanted, days)
    if not found.secret.exists():
        _write(found.secret, secrets.token_bytes(32), private=True)
    for name, path in found.clients.items():
        if not _whole(path, public(path)):
            _client(path, name)
    return found


def hosts_of(certificate: Path) -> list[str]:
    """The names and addresses that a certificate is for."""
    from cryptography import x509

    read = x509.load_pem_x509_certificate(certificate.read_bytes())
    names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine can reach it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def commands(keys: Keys, host: str, port: int = 8443) -> list[str]:
    """What to run where, with these keys."""
    inside, outside = f"127.0.0.1:{_INSIDE}", f"{host}:{port}"
    folder = keys.ca.parent
    lines = [
        "# The server: SuperLink, which only this machine reaches; SuperExec, which runs the app; the clients' gateway",
        "export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1",
        "unset FLWR_INTERNAL_GRPC_CONTROL_API FLWR_INTERNAL_GRPC_FLEET_API",
        f"flower-superlink --host 127.0.0.1 --port {_INSIDE} --database superlink.db --isolation process \\",
        f"  --ssl-ca-certfile {keys.ca} --ssl-certfile {keys.certificate} --ssl-keyfile {keys.key} \\",
        f"  --enable-supernode-auth --superexec-auth-secret-file {keys.secret} \\",
        "  --disable-runtime-dependency-installation",
        f"flower-superexec --root-certificates {keys.ca} --runtime-api-address {inside} \\",
        f"  --superexec-auth-secret-file {keys.secret}",
        f"fedtide deploy gateway {folder} --host 0.0.0.0 --port {port} --superlink {inside}",
        "# Once: a connection called `mine` in $FLWR_HOME/config.toml (~/.flwr), and the clients' public keys",
        f'[superlink.mine]\naddress = "{inside}"\nroot-certificates = "{keys.ca.resolve()}"',
    ]
    lines += [f"flwr supernode register {public(path)} mine" for path in keys.clients.values()]
    lines.append(f"# Each client, with {keys.ca.name} and its own private key; no other private file leaves the server")
    for number, (name, path) in enumerate(keys.clients.items()):
        lines.append(
            f"fedtide deploy node --root-certificates {keys.ca.name} --superlink {outside} "
            f"--auth-supernode-private-key {path.name} --node-config "
            f"""'client-id="{name}" partition-id={number} num-partitions={len(keys.clients)}'"""
        )
    place = shlex.quote(f'keys="{(folder / "clients").resolve()}"')
    run = f"flwr run {shlex.quote(str(folder.parent))} mine --stream --run-config {place}"
    return [*lines, "# The run: who has another client's key is refused", run]


def _authority(keys: Keys) -> tuple[Any, Any]:
    """(certificate, private key) of the authority; made where there is none."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    if _whole(keys.ca, keys.ca_key):
        key = load_pem_private_key(keys.ca_key.read_bytes(), None)
        return x509.load_pem_x509_certificate(keys.ca.read_bytes()), key
    key = ec.generate_private_key(ec.SECP384R1())
    name = _name("fedtide deployment authority")
    signs = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    identity = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    made = (
        _dated(_CA_DAYS)
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(True, 0), critical=True)
        .add_extension(signs, critical=True)
        .add_extension(identity, critical=False)
        .sign(key, hashes.SHA384())
    )
    _write(keys.ca_key, _private_pem(key), private=True)
    _write(keys.ca, _pem(made))
    return made, key


def _certificate(keys: Keys, authority: tuple[Any, Any], hosts: Sequence[str], days: int) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    ca, ca_key = authority
    key = ec.generate_private_key(ec.SECP384R1())
    names = x509.SubjectAlternativeName([_general(host) for host in hosts])
    usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
    made = (
        _dated(days)
        .subject_name(_name(hosts[0][:64]))
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(False, None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA384())
    )
    _write(keys.key, _private_pem(key), private=True)
    _write(keys.certificate, _pem(made))


def _client(path: Path, name: str) -> None:
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP384R1())
    private = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.OpenSSH, forms.NoEncryption())
    shared = key.public_key().public_bytes(forms.Encoding.OpenSSH, forms.PublicFormat.OpenSSH)
    _write(path, private, private=True)
    _write(public(path), shared + f" {quote(name, safe='')}\n".encode())


def _whole(*files: Path) -> bool:
    """Whether all are there; raises where only some are."""
    there = [file for file in files if file.exists()]
    if there and len(there) < len(files):
        lost = next(file for file in files if file not in there)
        raise FedtideError(f"{there[0]}: exists, but {lost.name} does not; keys are never overwritten: move it away")
    return bool(there)


def _dated(days: int) -> Any:
    from cryptography import x509

    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder().serial_number(x509.random_serial_number())
    # An hour ago: clocks of devices differ.
    return made.not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(days=days))


def _name(words: str) -> Any:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, words)])


def _general(host: str) -> Any:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        require(host != "" and host.isascii() and not set(host) & set(" /:"), "host", host, "a host name or an address")
        return x509.DNSName(host)


def _pem(certificate: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _private_pem(key: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization as forms

    return key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())


def _write(path: Path, content: bytes, private: bool = False) -> None:
    """Whole or not at all, and never over another file."""
    with _temporary(path) as temporary:
        temporary.write_bytes(content)
        temporary.chmod(0o600 if private else 0o644)
        os.link(temporary, path)  # fails where the file exists


@contextlib.contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".")  # mode 0600 from the first byte on
    os.close(handle)
    try:
        yield Path(name)
    finally:
        Path(name).unlink()
