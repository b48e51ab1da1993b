"""Keys of a federation: a certificate authority, the SuperLink's certificate, and a key pair per client."""

import datetime
import ipaddress
import os
import secrets
import shlex
import tempfile
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from fedtide.errors import FedtideError, require

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_CA_DAYS = 3650


class Keys(NamedTuple):
    """The files of a federation's keys. `clients` are private SSH keys; the public keys are next to them (`.pub`)."""

    ca: Path
    ca_key: Path
    certificate: Path
    key: Path
    secret: Path  # shared by SuperLink and SuperExec
    clients: dict[str, Path]

    @property
    def registered(self) -> Path:
        """The folder of the clients' public keys."""
        return self.ca.parent / "clients"


def paths(folder: Path | str, names: Sequence[str] = ()) -> Keys:
    """The paths of the keys of these clients, whether they exist or not."""
    folder = Path(folder)
    clients = {name: folder / "clients" / quote(name, safe="") for name in names}
    ca, certificate, secret = (folder / name for name in ("ca.crt", "superlink.crt", "superexec.secret"))
    return Keys(ca, folder / "ca.key", certificate, folder / "superlink.key", secret, clients)


def public(private: Path) -> Path:
    """The public key next to a client's private key."""
    return private.with_name(f"{private.name}.pub")


def make_keys(folder: Path | str, names: Sequence[str], hosts: Sequence[str], days: int = 365) -> Keys:
    """Creates missing keys. Nothing is overwritten: an existing authority signs, an existing certificate must name the
    hosts. Private files are readable by their owner only.
    """
    require(days >= 1, "days", days, "1 or more")
    require(len(set(names)) == len(names), "names", ",".join(names), "different")
    keys = paths(folder, names)
    keys.ca.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    keys.registered.mkdir(exist_ok=True, mode=0o700)
    wanted = list(dict.fromkeys([*hosts, *_LOOPBACK]))
    if _complete(keys.certificate, keys.key):
        missing = sorted(set(wanted) - set(hosts_of(keys.certificate)))
        if missing:
            raise FedtideError(
                f"{keys.certificate}: it does not name {', '.join(missing)}, and keys are never overwritten; "
                f"move it and {keys.key.name} away to create another one"
            )
    else:
        _certificate(keys, *_authority(keys), wanted, days)
    if not keys.secret.exists():
        _write(keys.secret, secrets.token_bytes(32), private=True)
    for name, path in keys.clients.items():
        if not _complete(path, public(path)):
            _client(path, name)
    return keys


def hosts_of(certificate: Path) -> list[str]:
    """The host names and addresses of a certificate."""
    loaded = x509.load_pem_x509_certificate(certificate.read_bytes())
    names = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def commands(keys: Keys, host: str, port: int = 8443) -> str:
    """The commands for the server and each client, with these keys."""
    folder = keys.ca.parent
    register = [f"flwr supernode register {public(path)} mine" for path in keys.clients.values()]
    nodes = [
        f"fedtide deploy node --root-certificates {keys.ca.name} --superlink {host}:{port} "
        f"--auth-supernode-private-key {path.name} --node-config "
        f"""'client-id="{name}" partition-id={number} num-partitions={len(keys.clients)}'"""
        for number, (name, path) in enumerate(keys.clients.items())
    ]
    template = files("fedtide.adapters.deploy").joinpath("templates", "commands.txt").read_text("utf-8")
    return template.format(
        keys=keys,
        folder=folder,
        port=port,
        ca=keys.ca.resolve(),
        register="\n".join(register),
        nodes="\n".join(nodes),
        app=shlex.quote(str(folder.parent)),
        run_config=shlex.quote(f'keys="{keys.registered.resolve()}"'),
    )


def _authority(keys: Keys) -> tuple[x509.Certificate, Any]:
    """(certificate, private key) of the authority; creates it if there is none."""
    if _complete(keys.ca, keys.ca_key):
        key = forms.load_pem_private_key(keys.ca_key.read_bytes(), None)
        return x509.load_pem_x509_certificate(keys.ca.read_bytes()), key
    key = ec.generate_private_key(ec.SECP384R1())
    name = _name("fedtide deployment authority")
    signs = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    made = _dated(name, name, key, _CA_DAYS, x509.BasicConstraints(True, 0), signs).sign(key, hashes.SHA384())
    _write_pair(keys.ca, made, keys.ca_key, key)
    return made, key


def _certificate(keys: Keys, ca: x509.Certificate, ca_key: Any, hosts: Sequence[str], days: int) -> None:
    key = ec.generate_private_key(ec.SECP384R1())
    names = x509.SubjectAlternativeName([_general(host) for host in hosts])
    usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
    made = (
        _dated(_name(hosts[0][:64]), ca.subject, key, days, x509.BasicConstraints(False, None), usage)
        .add_extension(names, critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA384())
    )
    _write_pair(keys.certificate, made, keys.key, key)


def _client(path: Path, name: str) -> None:
    key = ec.generate_private_key(ec.SECP384R1())
    private = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.OpenSSH, forms.NoEncryption())
    shared = key.public_key().public_bytes(forms.Encoding.OpenSSH, forms.PublicFormat.OpenSSH)
    _write(path, private, private=True)
    _write(public(path), shared + f" {quote(name, safe='')}\n".encode())


def _complete(*files: Path) -> bool:
    """Whether all files exist; raises if only some do."""
    existing = [file for file in files if file.exists()]
    if existing and len(existing) < len(files):
        lost = next(file for file in files if file not in existing)
        raise FedtideError(f"{existing[0]}: exists, but {lost.name} does not; keys are never overwritten: move it away")
    return bool(existing)


def _dated(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int, *critical: x509.ExtensionType
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))  # clocks of devices may be behind
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    for extension in critical:
        made = made.add_extension(extension, critical=True)
    return made


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        require(host != "" and host.isascii() and not set(host) & set(" /:"), "host", host, "a host name or an address")
        return x509.DNSName(host)


def _write_pair(certificate: Path, made: x509.Certificate, path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    pem = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
    _write(path, pem, private=True)
    _write(certificate, made.public_bytes(forms.Encoding.PEM))


def _write(path: Path, content: bytes, private: bool = False) -> None:
    """Writes a new file atomically; never overwrites one."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".") as temporary:  # mode 0600 from the first byte on
        temporary.write(content)
        temporary.flush()
        os.fchmod(temporary.fileno(), 0o600 if private else 0o644)
        os.link(temporary.name, path)  # fails where the file exists
