"""Downloads, from a server on loopback: whole and right, or nothing and one line."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fedtide.data import fetch, user_cache
from fedtide.data.catalogue import Remote
from fedtide.errors import FedtideError

CONTENT = {"a.bin": bytes(range(256)) * 300, "b.bin": b"short"}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        kind, _, name = self.path.strip("/").partition("/")
        self.server.asked.append(self.path)
        if kind == "none" or name not in CONTENT:
            return self.send_error(404)
        content = CONTENT[name]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content) - (kind == "shorter")))
        self.end_headers()
        sent = {"wrong": content[::-1], "broken": content[: len(content) // 2], "shorter": content[:-1]}
        self.wfile.write(sent.get(kind, content))
        return None

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def address(server, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server.asked.clear()
    return f"http://127.0.0.1:{server.server_port}"


@pytest.fixture
def remotes(tiny):
    files = tuple(Remote(n, hashlib.md5(c).hexdigest(), len(c)) for n, c in CONTENT.items())
    return tiny("mnist", remotes=files).remotes


def everything(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_files_arrive_in_the_cache_or_the_folder_given(tmp_path, address, remotes, server):
    paths = fetch("mnist", mirrors=[f"{address}/good"])
    assert paths == [user_cache() / "mnist" / name for name in CONTENT]
    assert [path.read_bytes() for path in paths] == list(CONTENT.values())
    assert everything(user_cache()) == ["mnist", "mnist/a.bin", "mnist/b.bin"]
    assert fetch("mnist10k", tmp_path, mirrors=[f"{address}/good/"])[0] == tmp_path / "mnist" / "a.bin"
    assert len(server.asked) == 4


def test_what_is_there_and_right_is_not_fetched_again(tmp_path, address, remotes, server):
    paths = fetch("mnist", tmp_path, mirrors=[f"{address}/good"])
    paths[1].write_bytes(b"other")
    server.asked.clear()
    assert fetch("mnist", tmp_path, mirrors=[f"{address}/good"]) == paths
    assert server.asked == ["/good/b.bin"]
    assert paths[1].read_bytes() == CONTENT["b.bin"]


def test_progress_is_shown(tmp_path, address, remotes):
    told = []

    class Bar:
        def __init__(self, remote):
            self.total, self.done = 0, 0
            told.append((remote.name, self))

        def update(self, count):
            self.done += count

        def reset(self):
            self.done = 0

        def close(self):
            pass

    fetch("mnist", tmp_path, mirrors=[f"{address}/good"], bar=Bar)
    assert [(name, bar.total, bar.done) for name, bar in told] == [(n, len(c), len(c)) for n, c in CONTENT.items()]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("wrong", "another file: MD5 {md5} expected, "),
        ("none", "the server responded 404 Not Found"),
        ("broken", "truncated: the connection was closed before the end of the file"),
        ("shorter", "truncated: 76,800 bytes expected, 76,799 received"),
    ],
)
def test_what_goes_wrong_is_one_line_and_leaves_nothing(tmp_path, address, remotes, kind, words):
    with pytest.raises(FedtideError) as caught:
        fetch("mnist", tmp_path, mirrors=[f"{address}/{kind}"])
    words = words.format(md5=remotes[0].md5)
    assert str(caught.value).startswith(f"mnist: not downloaded: {address}/{kind}/a.bin: {words}")
    assert "\n" not in str(caught.value)
    assert everything(tmp_path) == []


def test_a_refused_connection_is_one_line(tmp_path, remotes, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as closed:
        port = closed.server_port
    with pytest.raises(FedtideError) as caught:
        fetch("mnist", tmp_path, mirrors=[f"http://127.0.0.1:{port}"])
    assert str(caught.value) == f"mnist: not downloaded: http://127.0.0.1:{port}/a.bin: no connection"
    assert everything(tmp_path) == []


def test_a_failure_keeps_the_files_that_were_there(tmp_path, address, remotes):
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "a.bin").write_bytes(b"older")
    with pytest.raises(FedtideError):
        fetch("mnist", tmp_path, mirrors=[f"{address}/wrong"])
    assert (tmp_path / "mnist" / "a.bin").read_bytes() == b"older"
    assert everything(tmp_path) == ["mnist", "mnist/a.bin"]


def test_the_next_mirror_is_tried(tmp_path, address, remotes):
    paths = fetch("mnist", tmp_path, mirrors=[f"{address}/none", f"{address}/wrong", f"{address}/good"])
    assert [path.read_bytes() for path in paths] == list(CONTENT.values())
    with pytest.raises(FedtideError) as caught:
        fetch("mnist", tmp_path / "b", mirrors=[f"{address}/none", f"{address}/broken"])
    assert "404 Not Found; http" in str(caught.value)


def test_only_what_is_published_can_be_fetched():
    with pytest.raises(FedtideError, match=r"^digits: nothing to download; it is included in scikit-learn$"):
        fetch("digits")
    with pytest.raises(FedtideError, match=r"^'mnits' is not a data set; did you mean 'mnist'\?"):
        fetch("mnits")
