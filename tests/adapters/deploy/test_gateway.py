"""The gateway: what a SuperNode with a registered key asks for reaches SuperLink as it is; nothing else does."""

import asyncio
import base64
import datetime
import errno
import http.server
import os
import socket
import ssl
import subprocess
import threading
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr", reason="needs pip install 'fedtide[flower]'")

from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from fastapi.routing import iter_route_contexts
from flwr.proto.fleet_pb2 import PullMessagesRequest, PullMessagesResponse
from flwr.proto.node_pb2 import Node
from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, sign_message
from flwr.superlink.main import create_app
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from fedtide.adapters.deploy import gateway
from fedtide.adapters.deploy.gateway import ALLOWED, HEADERS, MOST_BYTES, PER_KEY, Door, Gateway, doors, server
from fedtide.adapters.deploy.keys import make_keys

PATH = "/v1/fleet/pull-messages"
OPERATORS = ("/v1/fleet/register-node", "/v1/fleet/unregister-node")  # with node authentication Flower refuses both


class Upstream(http.server.BaseHTTPRequestHandler):
    """In SuperLink's place: notes every request, and answers as `server.answer` says."""

    protocol_version = "HTTP/1.1"

    def parse_request(self):
        self.server.requests.append(self.raw_requestline.split()[1].decode())
        return super().parse_request()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.seen.append((self.path, dict(self.headers.items()), body))
        self.server.proceed.wait(30)
        status, kind, content = self.server.answer
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.send_header("flwr-version-incompatibility-message", "other version")
        self.send_header("x-internal", "not for clients")
        self.send_header("location", "https://elsewhere.example.org/")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


def _tls(keys):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys.certificate, keys.key)
    return context


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return make_keys(tmp_path_factory.mktemp("keys"), ["anna", "ben"], [])


@pytest.fixture(scope="module")
def upstream(keys):
    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    made.socket = _tls(keys).wrap_socket(made.socket, server_side=True)
    made.seen, made.requests, made.proceed = [], [], threading.Event()
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@contextmanager
def running(app, keys):
    """The port at which a gateway serves."""
    door = doors("127.0.0.1", 0)[0]
    made = server(app, keys.certificate, keys.key)
    thread = threading.Thread(target=made.run, kwargs={"sockets": [door]})
    thread.start()
    while not made.started:
        threading.Event().wait(0.01)
    try:
        yield door.getsockname()[1]
    finally:
        made.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def served(keys, upstream):
    address = f"127.0.0.1:{upstream.server_address[1]}"
    with running(Gateway(address, keys.ca, keys.ca.parent / "clients"), keys) as port:
        yield port


@pytest.fixture
def stage(keys, upstream, served):
    """A gateway (.port) before a server that notes what reaches it (.seen: requests; .requests: their targets)."""
    upstream.seen.clear()
    upstream.requests.clear()
    upstream.proceed.set()
    upstream.answer = 200, "application/protobuf", b"answer"
    return SimpleNamespace(port=served, upstream=upstream, seen=upstream.seen, requests=upstream.requests, keys=keys)


def _signed(private):
    key = load_ssh_private_key(private.read_bytes(), None)
    now = datetime.datetime.now(datetime.UTC).isoformat()
    said = {
        "flwr-public-key": base64.b64encode(public_key_to_bytes(key.public_key())),
        "flwr-timestamp": now.encode(),
        "flwr-signature": base64.b64encode(sign_message(key, now.encode())),
        "content-type": b"application/protobuf",
    }
    return said


def _request(target, headers, body=b"body", verb="POST", more=()):
    pairs = [(b"host", b"fl"), *((name.encode(), value) for name, value in headers.items()), *more]
    if not any(name.lower() == b"content-length" for name, _ in pairs):
        pairs.append((b"content-length", str(len(body)).encode()))
    head = b"".join(name + b": " + value + b"\r\n" for name, value in pairs)
    return f"{verb} {target} HTTP/1.1\r\n".encode() + head + b"\r\n" + body


@contextmanager
def _connected(port, ca, source="127.0.0.1"):
    context = ssl.create_default_context(cafile=ca)
    plain = socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(source, 0))
    with plain, context.wrap_socket(plain, server_hostname="localhost") as secure:
        yield secure


def _heard(connection):
    """(status, body) of the next answer; (0, b"") where the connection was closed without one."""
    data = b""
    while b"\r\n\r\n" not in data:
        try:
            more = connection.recv(2**16)
        except OSError:
            more = b""
        if not more:
            return 0, b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while lengths and len(body) < int(lengths[0].split(b":")[1]):
        body += connection.recv(2**16)
    return int(head.split()[1]), body


def _sent(stage, data):
    with _connected(stage.port, stage.keys.ca) as connection:
        connection.sendall(data)
        return _heard(connection)


@pytest.fixture(scope="module")
def routes():
    """(verb, path) of all that the installed SuperLink answers."""
    return {(verb, one.path) for one in iter_route_contexts(create_app().routes) for verb in one.methods}


def test_the_list_is_flowers_fleet_service_without_what_operators_do(routes):
    """Another version of Flower, with other routes, fails here."""
    found = {(verb, path) for verb, path in routes if path.startswith("/v1/fleet")}
    assert found == {("POST", path) for path in (*ALLOWED, *OPERATORS)}


@pytest.mark.parametrize("path", ALLOWED)
@pytest.mark.parametrize("answer", [(200, b"\0\1"), (403, b'{"code": 1}')])
def test_allowed_requests_arrive_as_they_are_and_so_do_the_answers(stage, path, answer):
    stage.upstream.answer = answer[0], "application/json", answer[1]
    headers = _signed(stage.keys.clients["anna"])
    headers |= {"flwr-package-version": b"1.41.0", "flwr-component-name": b"\xe9"}
    extra = {"cookie": b"a=b", "x-forwarded-for": b"1.2.3.4", "authorization": b"x"}
    assert _sent(stage, _request(path, headers | extra, b"\0body\xff")) == answer
    ((arrived, got, body),) = stage.seen
    assert (arrived, body) == (path, b"\0body\xff")
    own = {name: value.decode("latin-1") for name, value in headers.items()}
    assert {name.lower(): value for name, value in got.items() if name.lower() in own} == own
    assert not {"cookie", "x-forwarded-for", "authorization"} & {name.lower() for name in got}


def test_a_superNodes_own_requests_arrive_with_all_their_headers(stage):
    """Flower's client of the fleet's service, with its interceptors; another version may send further headers."""
    sent = []

    class Last:
        def intercept(self, context, call_next):
            sent.append(context.request.headers)
            return call_next(context)

    wanted = PullMessagesResponse(messages_list=[])
    stage.upstream.answer = 200, "application/protobuf", wanted.SerializeToString()
    key = load_ssh_private_key(stage.keys.clients["anna"].read_bytes(), None)
    through = [RuntimeVersionHttpInterceptor("SuperNode"), NodeAuthHttpInterceptor(key, key.public_key()), Last()]
    request = PullMessagesRequest(node=Node(node_id=7))
    with FleetHttpClient.from_server_address(f"127.0.0.1:{stage.port}", False, str(stage.keys.ca), through) as client:
        assert client.PullMessages(request) == wanted
    ((path, got, body),) = stage.seen
    assert (path, body) == (PATH, request.SerializeToString())
    flowers = {name for name in sent[0] if name.startswith(("flwr", "x-flwr"))}
    assert flowers == {name for name in HEADERS if name != "content-type"}
    assert all(got[name] == sent[0][name] for name in HEADERS)


def test_only_the_headers_that_supernodes_read_come_back(stage):
    with _connected(stage.port, stage.keys.ca) as connection:
        connection.sendall(_request(PATH, _signed(stage.keys.clients["anna"])))
        head = connection.recv(2**16).lower()
    assert b"flwr-version-incompatibility-message: other version" in head
    assert b"x-internal" not in head
    assert b"server:" not in head


@pytest.mark.parametrize("status", [301, 307, 308])
def test_redirects_are_not_followed(stage, status):
    stage.upstream.answer = status, "text/plain", b""
    assert _sent(stage, _request(PATH, _signed(stage.keys.clients["anna"])))[0] == status
    assert stage.requests == [PATH]


def test_no_other_service_of_superlinks_can_be_reached(stage, routes):
    """Not even by a client with a key; GET and POST on each route, whatever it is for."""
    paths = {path for _, path in routes} - {*ALLOWED} | {"/redoc", "/", "*"}
    assert {"/v1/control/start-run", "/v1/runtime/acquire-task", "/docs", "/health", *OPERATORS} <= paths
    headers = _signed(stage.keys.clients["anna"])
    for path in sorted(paths):
        for verb in ("POST", "GET"):
            assert _sent(stage, _request(path, headers, verb=verb)) == (404, b""), path
    assert stage.requests == []


@pytest.mark.parametrize(
    "target",
    [
        "/v1/fleet/../control/start-run",
        "/v1/fleet/pull-messages/../../control/start-run",
        "/v1/fleet/%2e%2e/control/start-run",
        "/v1/fleet/%2E%2E%2Fcontrol%2Fstart-run",
        "/v1/fleet/..%2fcontrol/start-run",
        "/v1/fleet/%252e%252e/control/start-run",
        "/v1/fleet/..;/control/start-run",
        "/v1/fleet\\..\\control\\start-run",
        "//v1/fleet/pull-messages",
        "/v1//fleet/pull-messages",
        "/v1/fleet//pull-messages",
        "/v1/fleet/pull-messages/",
        "/v1/fleet/./pull-messages",
        "/v1/fleet/pull%2dmessages",
        "/v1/fleet/pull-message%73",
        "/V1/FLEET/PULL-MESSAGES",
        "/v1/fleet/Pull-messages",
        "/v1/fleet/pull-messages%00",
        "/v1/fleet/pull-messages%0d%0aX:%20y",
        "/v1/fleet/pull-messages#/v1/control/start-run",
        "/v1/fleet/pull-messages;x=1",
        "/v1/fleet/pull-messages?x=1",
        "/v1/control/start-run?/v1/fleet/pull-messages",
        "/v1/fleet",
        "/v1/fleet/",
        "v1/fleet/pull-messages",
        "http://127.0.0.1/v1/fleet/pull-messages",
        "https://127.0.0.1:8000/v1/control/start-run",
        "127.0.0.1:8000",
    ],
)
def test_paths_are_compared_byte_for_byte(stage, target):
    assert _sent(stage, _request(target, _signed(stage.keys.clients["anna"]))) == (404, b"")
    assert stage.requests == []


@pytest.mark.parametrize("verb", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "post"])
def test_no_other_verb(stage, verb):
    assert _sent(stage, _request(PATH, _signed(stage.keys.clients["anna"]), verb=verb))[0] in (400, 404)
    assert stage.requests == []


SMUGGLED = b"0\r\n\r\nPOST /v1/control/start-run HTTP/1.1\r\nhost: fl\r\ncontent-length: 0\r\n\r\n"


@pytest.mark.parametrize(
    "more",
    [
        [(b"transfer-encoding", b"chunked")],
        [(b"transfer-encoding", b"chunked"), (b"content-length", b"4")],
        [(b"content-length", b"4"), (b"transfer-encoding", b"chunked")],
        [(b"Transfer-Encoding", b"xchunked"), (b"content-length", b"4")],
        [(b"transfer-encoding", b"identity"), (b"content-length", b"4")],
        [(b"transfer-encoding ", b"chunked"), (b"content-length", b"4")],
        [(b"content-length", b"4"), (b"content-length", b"80")],
        [(b"content-length", b"+4")],
        [(b"content-length", b"-1")],
        [(b"content-length", b"0x4")],
        [(b"content-length", b"99999999999999999999")],
        [(b"upgrade", b"websocket"), (b"connection", b"upgrade"), (b"sec-websocket-key", b"x")],
        [(b"upgrade", b"h2c"), (b"connection", b"upgrade, http2-settings"), (b"http2-settings", b"")],
        [(b"expect", b"100-continue")],
        [(b"trailer", b"x")],
        [(b"content-type", b"application/protobuf")],
        [(b"flwr-public-key", b"x")],
        [(b"x\0y", b"z")],
    ],
)
def test_requests_that_could_be_read_in_two_ways_are_refused(stage, more):
    """Whatever follows them on the connection: it is closed."""
    data = _request(PATH, _signed(stage.keys.clients["anna"]), SMUGGLED, more=more)
    with _connected(stage.port, stage.keys.ca) as connection:
        connection.sendall(data)
        assert _heard(connection)[0] in (400, 411, 413)
        assert _heard(connection) == (0, b"")
    assert stage.requests == []


def test_what_follows_a_request_is_judged_by_itself(stage):
    headers = _signed(stage.keys.clients["anna"])
    with _connected(stage.port, stage.keys.ca) as connection:
        connection.sendall(_request(PATH, headers) + _request("/v1/control/start-run", headers))
        assert _heard(connection)[0] == 200
        assert _heard(connection)[0] in (0, 404)
    assert stage.requests == [PATH]


def _forged(stage):
    anna, ben = (_signed(stage.keys.clients[name]) for name in ("anna", "ben"))
    stranger = make_keys(stage.keys.ca.parent / "elsewhere", ["anna"], []).clients["anna"]
    return {
        "unsigned": {"content-type": b"application/protobuf"},
        "another's signature": anna | {"flwr-signature": ben["flwr-signature"]},
        "another's key": anna | {"flwr-public-key": ben["flwr-public-key"]},
        "another time": anna | {"flwr-timestamp": b"2020-01-01T00:00:00+00:00"},
        "not base64": anna | {"flwr-signature": b"!"},
        "not ASCII": anna | {"flwr-timestamp": b"\xff"},
        "an unregistered key": _signed(stranger),
    }


def test_bodies_are_read_from_registered_clients_only(stage):
    """The answer comes before the body, which is never sent here."""
    for name, headers in _forged(stage).items():
        more = [(b"content-length", str(MOST_BYTES).encode())]
        assert _sent(stage, _request(PATH, headers, b"", more=more)) == (404, b""), name
    assert stage.requests == []


def test_sizes_are_bounded(stage):
    headers = _signed(stage.keys.clients["anna"])
    assert (
        _sent(stage, _request(PATH, headers, b"", more=[(b"content-length", str(MOST_BYTES + 1).encode())]))[0] == 413
    )
    assert stage.requests == []
    body = b"x" * MOST_BYTES
    assert _sent(stage, _request(PATH, headers, body))[0] == 200
    assert stage.seen[0][2] == body
    with _connected(stage.port, stage.keys.ca) as connection:  # a header without end
        with suppress(OSError):  # it may be closed meanwhile
            connection.sendall(f"POST {PATH} HTTP/1.1\r\nx: ".encode() + b"y" * 2**17)
        assert _heard(connection)[0] in (0, 400)


def test_keys_can_be_added_and_taken_away(stage, tmp_path):
    made = make_keys(tmp_path, ["first"], [])
    address = f"127.0.0.1:{stage.upstream.server_address[1]}"
    with running(Gateway(address, stage.keys.ca, tmp_path / "clients"), stage.keys) as port:
        there = SimpleNamespace(port=port, keys=stage.keys)
        assert _sent(there, _request(PATH, _signed(made.clients["first"])))[0] == 200
        later = make_keys(tmp_path, ["first", "second"], []).clients["second"]
        assert _sent(there, _request(PATH, _signed(later)))[0] == 200
        (tmp_path / "clients" / "first.pub").unlink()
        assert _sent(there, _request(PATH, _signed(made.clients["first"])))[0] == 404


def _let_in(app, private):
    """The status that a gateway answers."""
    said = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(event):
        said.append(event)

    headers = [(name.encode(), value) for name, value in {**_signed(private), "content-length": b"0"}.items()]
    scope = {"type": "http", "method": "POST", "raw_path": PATH.encode(), "query_string": b"", "headers": headers}
    asyncio.run(app(scope, receive, send))
    return said[0]["status"]


@pytest.fixture
def registered(stage, tmp_path):
    """Two clients of its own: .status() makes the gateway look, (.app is it, .folder has the public keys)."""
    made = make_keys(tmp_path, ["anna", "ben"], [])
    address = f"127.0.0.1:{stage.upstream.server_address[1]}"

    def status(name):
        return _let_in(app, made.clients[name])

    app = Gateway(address, stage.keys.ca, tmp_path / "clients")
    app._upstream = SimpleNamespace(post=_answered)
    return SimpleNamespace(folder=tmp_path / "clients", status=status)


async def _answered(path, content, headers):
    return SimpleNamespace(status_code=200, headers={}, content=b"")


def test_a_key_that_is_created_first_and_written_then_is_let_in(registered):
    path = registered.folder / "ben.pub"
    content = path.read_bytes()
    path.write_bytes(b"")
    assert [registered.status("ben"), registered.status("anna")] == [404, 200]
    path.write_bytes(content)
    assert registered.status("ben") == 200


def test_a_key_that_is_overwritten_in_place_is_another_one(registered, keys):
    assert registered.status("ben") == 200
    path = registered.folder / "ben.pub"
    before = path.stat().st_mtime_ns
    path.write_bytes((keys.ca.parent / "clients" / "ben.pub").read_bytes())
    os.utime(path, ns=(before, before + 10**9))  # a second later
    assert [registered.status("ben"), registered.status("anna")] == [404, 200]


def test_a_folder_of_keys_that_cannot_be_read_is_waited_for_by_clients(registered, monkeypatch):
    """503, which SuperNodes take for a reason to ask again; 404 would end them."""

    def fails(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(gateway.os, "scandir", fails)
        patch.setattr(gateway.Path, "stat", fails)
        assert registered.status("anna") == 503
    assert registered.status("anna") == 200


def test_a_key_that_cannot_be_read_for_a_moment_locks_nobody_out(registered, monkeypatch):
    read = gateway.Path.read_bytes

    def fails(path):
        if path.name == "ben.pub":
            raise OSError(errno.EIO, "Input/output error")
        return read(path)

    with monkeypatch.context() as patch:
        patch.setattr(gateway.Path, "read_bytes", fails)
        assert [registered.status("anna"), registered.status("ben")] == [200, 503]
    assert registered.status("ben") == 200


def test_superlink_must_have_the_authoritys_certificate(stage, tmp_path):
    other = make_keys(tmp_path, ["anna"], [])
    address = f"127.0.0.1:{stage.upstream.server_address[1]}"
    with running(Gateway(address, other.ca, stage.keys.ca.parent / "clients"), stage.keys) as port:
        there = SimpleNamespace(port=port, keys=stage.keys)
        assert _sent(there, _request(PATH, _signed(stage.keys.clients["anna"])))[0] == 503
    assert stage.requests == []


def test_superlink_that_is_away_is_waited_for_by_clients(stage):
    """503, which SuperNodes take for a reason to ask again."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        gone = Gateway(f"127.0.0.1:{unused.getsockname()[1]}", stage.keys.ca, stage.keys.ca.parent / "clients")
        with running(gone, stage.keys) as port:
            there = SimpleNamespace(port=port, keys=stage.keys)
            assert _sent(there, _request(PATH, _signed(stage.keys.clients["anna"])))[0] == 503


def test_one_client_cannot_take_all_places(stage):
    stage.upstream.proceed.clear()
    ready = [threading.Thread(target=_sent, args=(stage, _request(PATH, _signed(stage.keys.clients["anna"]))))]
    ready += [threading.Thread(target=_sent, args=ready[0]._args) for _ in range(PER_KEY - 1)]
    for thread in ready:
        thread.start()
    while len(stage.seen) < PER_KEY:
        threading.Event().wait(0.01)
    assert _sent(stage, _request(PATH, _signed(stage.keys.clients["anna"])))[0] == 503
    assert len(stage.seen) == PER_KEY
    stage.upstream.proceed.set()
    assert _sent(stage, _request(PATH, _signed(stage.keys.clients["ben"])))[0] == 200
    for thread in ready:
        thread.join()
    assert _sent(stage, _request(PATH, _signed(stage.keys.clients["anna"])))[0] == 200


@pytest.mark.parametrize("sent", ["nothing", "half a header", "half a body"])
def test_a_connection_ends_with_its_deadline(stage, monkeypatch, sent):
    monkeypatch.setattr(gateway, "DEADLINE", 0.5)
    whole = _request(PATH, _signed(stage.keys.clients["anna"]), b"x" * 100)
    data = {"nothing": b"", "half a header": whole[:60], "half a body": whole[:-50]}[sent]
    with suppress(OSError), _connected(stage.port, stage.keys.ca) as connection:  # on a busy machine it may be over
        connection.sendall(data)
        assert _heard(connection) == (0, b"")
    assert stage.requests == []


def test_a_refused_body_is_not_waited_for(stage):
    unsigned = _request(PATH, {}, b"x" * 100)
    with _connected(stage.port, stage.keys.ca) as connection:
        connection.sendall(unsigned[:-50])
        assert _heard(connection) == (404, b"")
        assert _heard(connection) == (0, b"")
    assert stage.requests == []


def test_one_address_cannot_have_all_connections(stage, monkeypatch):
    """Also of those that never begin TLS."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.2", 0))
        except OSError:
            pytest.skip("needs 127.0.0.2, as Linux has it")
    monkeypatch.setattr(Door, "most", 4)
    address, clients = f"127.0.0.1:{stage.upstream.server_address[1]}", stage.keys.ca.parent / "clients"
    with running(Gateway(address, stage.keys.ca, clients), stage.keys) as port:  # one that holds no connection yet
        there = SimpleNamespace(port=port, keys=stage.keys)
        mine = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
        refused = socket.create_connection(("127.0.0.1", port), timeout=30)
        assert refused.recv(1) == b""
        with _connected(port, stage.keys.ca, "127.0.0.2") as other:
            other.sendall(_request(PATH, _signed(stage.keys.clients["anna"])))
            assert _heard(other)[0] == 200
        for connection in (*mine, refused):
            connection.close()
        for _ in range(100):  # the gateway notices soon
            try:
                assert _sent(there, _request(PATH, _signed(stage.keys.clients["anna"])))[0] == 200
                break
            except OSError:
                threading.Event().wait(0.05)
        else:
            pytest.fail("places are not given back")


def test_an_address_that_is_taken_is_one_line(keys):
    from fedtide.adapters.deploy.local import gateway_command

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = gateway_command("127.0.0.1", port, "127.0.0.1:1", keys)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"error: 127.0.0.1:{port}: Address already in use\n")


def test_a_network_of_ipv6_is_one_address():
    from fedtide.adapters.deploy.gateway import holder

    assert holder("2001:db8::1") == holder("2001:db8::ffff:1")
    assert holder("2001:db8::1") != holder("2001:db8:0:1::1")
    assert holder("192.0.2.1") == "192.0.2.1"
