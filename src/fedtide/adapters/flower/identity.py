"""Who has which key: a client is then the one with its key, whatever it says.

Flower's node authentication ties a node to the public key that was registered: it signs every request. The server holds
the clients' public keys by name, in a folder, and compares.
"""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

from fedtide.adapters.flower.checks import Refused
from fedtide.errors import FedtideError


class Identities:
    """The clients' public keys, by their names."""

    def __init__(self, keys: Mapping[str, bytes]):
        self.keys = dict(keys)
        self._owners = {key: client for client, key in keys.items()}

    def check(self, client: str, key: bytes) -> None:
        """Raises `Refused` where this is not the key of the client."""
        if client not in self.keys:
            raise Refused(f"says that it is client {client!r:.60}, of whom there is no key")
        if self.keys[client] != _plain(key):
            owner = self.owner(key)
            whose = f"that of client {owner!r:.60}" if owner is not None else "unknown"
            raise Refused(f"says that it is client {client!r:.60}, but its key is {whose}")

    def owner(self, key: bytes) -> str | None:
        """Whose key it is."""
        return self._owners.get(_plain(key))


def read_identities(folder: str) -> Identities | None:
    """Of a folder with a file NAME.pub for every client; None where none is named."""
    if not folder:
        return None
    place = Path(folder).expanduser()
    found = {unquote(path.stem): _read(path) for path in sorted(place.glob("*.pub"))}
    if not found:
        raise FedtideError(f"keys = {folder!r}: must be a folder with the clients' public keys, NAME.pub")
    if len(set(found.values())) < len(found):
        raise FedtideError(f"keys = {folder!r}: two clients have the same key")
    return Identities(found)


def _read(path: Path) -> bytes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    try:
        return _bytes(load_ssh_public_key(path.read_bytes()))
    except (ValueError, OSError, UnsupportedAlgorithm) as error:
        raise FedtideError(f"{path}: not a public key of SSH's format ({error})") from error


def _plain(pem: bytes) -> bytes:
    """One form for each key, however it is written."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        return _bytes(load_pem_public_key(pem))
    except (ValueError, UnsupportedAlgorithm):
        return b""


def _bytes(key: object) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)  # pyright: ignore[reportAttributeAccessIssue]
