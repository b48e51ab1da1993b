"""The gateway of a federation, a separate program (`python -P gateway.py`) that forwards requests of clients only.

Flower's SuperLink serves clients, operators (who start apps: programs that it and all clients run) and executors on
one port, and requires no key from operators. So SuperLink listens on loopback, and other machines connect to this
reverse proxy. It terminates TLS and forwards `POST` requests to the exact paths in ALLOWED that are signed with a
registered client's key; SuperLink checks them again. All other requests are refused before their body is read. The
program imports neither Fedtide nor Flower.
"""

import argparse
import asyncio
import base64
import binascii
import contextlib
import ipaddress
import os
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from uvicorn.protocols.http.h11_impl import H11Protocol

# The requests of a SuperNode with a registered key. Registration is for operators, and not forwarded.
ALLOWED = tuple(
    f"/v1/fleet/{what}"
    for what in (
        "activate-node", "deactivate-node", "send-node-heartbeat", "pull-messages", "push-messages", "get-run",
        "get-fab", "push-object", "pull-object", "confirm-message-received",
    )
)  # fmt: skip
SIGNED = ("flwr-public-key", "flwr-timestamp", "flwr-signature")
HEADERS = ("content-type", *SIGNED, "flwr-package-name", "flwr-package-version", "flwr-component-name")
ANSWERED = ("content-type", "flwr-version-incompatibility-message")  # headers of SuperLink's answers
_REFRAMED = ("transfer-encoding", "upgrade", "trailer", "expect")  # SuperNodes send none of them

MOST_BYTES = 16 * 2**20  # of a request: Flower cuts arrays into objects of 5 MiB
# Seconds for a request: from the start of the connection, or the previous response, to the end of its response.
DEADLINE = 120.0
_UPSTREAM = 60.0  # seconds of the deadline for SuperLink
PER_KEY = 8  # parallel requests of a client; a SuperNode has at most four
_CONNECTIONS = 1024  # in total; one address, or network of IPv6, has at most half of them
_NETWORK = 64  # length of the IPv6 prefix that counts as one address

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class NotForwarded(Exception):
    """A request that is not forwarded; the sender gets only this status."""

    def __init__(self, status: int):
        super().__init__(status)
        self.status = status


class Gateway:
    """The ASGI application, which forwards permitted requests to SuperLink.

    Args:
      superlink: "host:port" of the SuperLink, on loopback.
      ca: the authority that signed its certificate.
      clients: folder of the registered clients' public keys, NAME.pub; read again when it changes.
    """

    def __init__(self, superlink: str, ca: Path | str, clients: Path | str):
        self._keys = _Keys(Path(clients))
        self._busy: Counter[bytes] = Counter()
        self._upstream = httpx.AsyncClient(
            base_url=f"https://{superlink}",
            verify=ssl.create_default_context(cafile=ca),
            trust_env=False,  # no proxy to SuperLink
            follow_redirects=False,
            timeout=_UPSTREAM,
            limits=httpx.Limits(max_connections=256, keepalive_expiry=2.0),  # SuperLink closes idle ones after 5 s
        )

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            path = allowed(scope)
            headers = _single(scope["headers"])
            key = self._keys.signer(headers)
            status, answered, body = await self._forwarded(path, headers, key, receive)
        except NotForwarded as refused:
            await _answer(send, refused.status, [(b"connection", b"close")], b"")
        else:
            await _answer(send, status, answered, body)

    async def _forwarded(
        self, path: str, headers: Mapping[str, str], key: bytes, receive: Receive
    ) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        length = _length(headers)
        if self._busy[key] >= PER_KEY:
            raise NotForwarded(503)
        self._busy[key] += 1
        try:
            body = await _body(receive, length)
            async with asyncio.timeout(_UPSTREAM):
                kept = [*_raw(HEADERS, headers), (b"accept-encoding", b"identity")]
                answer = await self._upstream.post(path, content=body, headers=kept)
            return answer.status_code, _raw(ANSWERED, answer.headers), answer.content
        except TimeoutError:
            raise NotForwarded(504) from None
        except httpx.HTTPError:
            raise NotForwarded(503) from None  # SuperNodes retry
        finally:
            self._busy[key] -= 1
            if not self._busy[key]:
                del self._busy[key]


def allowed(scope: Mapping[str, Any]) -> str:
    """The requested path, if it is in ALLOWED byte for byte: nothing is decoded or normalised."""
    requested = next((path for path in ALLOWED if path.encode() == scope["raw_path"]), None)
    if requested is None or scope["method"] != "POST" or scope["query_string"]:
        raise NotForwarded(404)
    return requested


def _single(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name. Duplicates are refused: SuperLink could interpret them differently."""
    headers: dict[str, str] = {}
    for raw, value in pairs:
        name = raw.decode("latin-1").lower()
        if name in _REFRAMED or (name in headers and name in (*HEADERS, "content-length")):
            raise NotForwarded(400)
        headers[name] = value.decode("latin-1")
    return headers


def _raw(names: Iterable[str], headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), headers[name].encode("latin-1")) for name in names if name in headers]


def _length(headers: Mapping[str, str]) -> int:
    text = headers.get("content-length", "")
    if not (text.isascii() and text.isdecimal() and len(text) < 12):
        raise NotForwarded(411)
    if int(text) > MOST_BYTES:
        raise NotForwarded(413)
    return int(text)


async def _body(receive: Receive, length: int) -> bytes:
    body = bytearray()
    while True:
        event = await receive()
        body += event.get("body", b"")
        if event["type"] != "http.request" or len(body) > length:
            raise NotForwarded(400)  # the sender disconnected, or sent more than announced
        if not event.get("more_body", False):
            return bytes(body)


async def _answer(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


class _Keys:
    """The registered clients' public keys."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._read: dict[str, tuple[int, int, int]] | None = None  # state of the files when they were read
        self._known: dict[bytes, ec.EllipticCurvePublicKey] = {}

    def signer(self, headers: Mapping[str, str]) -> bytes:
        """The registered key that signed a request. As in Flower, the signature is that of its timestamp."""
        try:
            key, signature = (base64.b64decode(headers[name], validate=True) for name in (SIGNED[0], SIGNED[2]))
            complete = self._update()
            if key not in self._known and not complete:
                raise NotForwarded(503)  # the key may be in an unreadable file: SuperNodes retry
            self._known[key].verify(signature, headers[SIGNED[1]].encode("ascii"), ec.ECDSA(hashes.SHA256()))
        except (KeyError, ValueError, binascii.Error, InvalidSignature):
            raise NotForwarded(404) from None  # with 401 a SuperNode would end without a message
        except OSError:
            raise NotForwarded(503) from None  # the folder cannot be read
        return key

    def _update(self) -> bool:
        """Reads changed keys; returns whether all files could be read. If not, the next request tries again."""
        files = self._files()
        if files == self._read:
            return True
        known, complete = {}, True
        for name in files:
            try:
                key = serialization.load_ssh_public_key((self._folder / name).read_bytes())
            except (ValueError, UnsupportedAlgorithm, FileNotFoundError):
                continue  # not a key, or deleted in the meantime
            except OSError:
                complete = False
                continue
            if isinstance(key, ec.EllipticCurvePublicKey):
                forms = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
                known[key.public_bytes(*forms)] = key
        self._known, self._read = known, files if complete else None
        return complete

    def _files(self) -> dict[str, tuple[int, int, int]]:
        """Time, size and inode of each file; the folder's own time does not change when a file is overwritten."""
        files = {}
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name.endswith(".pub"):
                    with contextlib.suppress(FileNotFoundError):
                        status = entry.stat()
                        files[entry.name] = status.st_mtime_ns, status.st_size, status.st_ino
        return files


class _Connection(H11Protocol):
    """A connection that is aborted if a request exceeds the deadline, in any phase."""

    _end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._begin()

    def on_response_complete(self) -> None:
        self._begin()  # before the next request, which may have arrived already
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._end is not None:
            self._end.cancel()
        super().connection_lost(exc)

    def _begin(self) -> None:
        if self._end is not None:
            self._end.cancel()
        self._end = self.loop.call_later(DEADLINE, self.transport.abort)


class Door(socket.socket):
    """A listening socket that limits the connections of an address, from the TCP handshake on."""

    most = _CONNECTIONS

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self.held: Counter[str] = Counter()

    def accept(self) -> tuple[socket.socket, Any]:
        accepted, address = super().accept()
        who = holder(address[0])
        if self.held.total() >= self.most or self.held[who] >= self.most // 2:
            accepted.close()
            raise ConnectionAbortedError  # asyncio treats it as a client that disconnected
        self.held[who] += 1
        return _HeldConnection(accepted, self.held, who), address


class _HeldConnection(socket.socket):
    """A connection that is counted until it is closed."""

    def __init__(self, accepted: socket.socket, held: Counter[str], holder: str):
        super().__init__(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
        self._held: Counter[str] | None = held
        self._holder = holder

    def close(self) -> None:
        super().close()
        if self._held is not None:
            self._held[self._holder] -= 1
            if not self._held[self._holder]:
                del self._held[self._holder]
            self._held = None


def holder(address: str) -> str:
    if ":" not in address:
        return address
    return str(ipaddress.ip_network((address.partition("%")[0], _NETWORK), strict=False))


def doors(host: str, port: int) -> list[Door]:
    """Listening sockets, one for each address of the host."""
    made: list[Door] = []
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        door = Door(family, kind, protocol)
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            door.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        door.bind(address)
        made.append(door)
    return made


def server(gateway: Gateway, certificate: Path | str, key: Path | str) -> uvicorn.Server:
    """The server of an application; `run(sockets=doors(…))` runs it."""
    config = uvicorn.Config(
        gateway, loop="asyncio", http=_Connection, ws="none", lifespan="off", interface="asgi3",
        ssl_certfile=str(certificate), ssl_keyfile=str(key), h11_max_incomplete_event_size=2**14,
        access_log=False, log_level="error", proxy_headers=False, server_header=False, date_header=False,
        timeout_keep_alive=10, timeout_graceful_shutdown=2,  # SuperNodes keep connections for 5 s
    )  # fmt: skip
    return uvicorn.Server(config)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    for option in ("--host", "--superlink", "--ca", "--certificate", "--key", "--clients"):
        parser.add_argument(option, required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * _CONNECTIONS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        listening = doors(options.host, options.port)
    except OSError as error:
        parser.exit(1, f"error: {options.host}:{options.port}: {error.strerror}\n")
    print(f"clients connect to {options.host}:{options.port}; SuperLink is at {options.superlink}", flush=True)
    server(Gateway(options.superlink, options.ca, options.clients), options.certificate, options.key).run(
        sockets=list(listening)
    )


if __name__ == "__main__":
    main()
