"""Ledgers in SQLite and, where it is installed, in PostgreSQL."""

import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

_COUNT = itertools.count()


def _programs():
    """The folder of the newest server that Debian's packages have put there."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


def _unprivileged():
    """PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return {}
    import pwd

    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    return None


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def postgresql():
    """The URL of a server on loopback that lives as long as the tests."""
    psycopg = pytest.importorskip("psycopg", reason="PostgreSQL tests need pip install 'fedtide[postgres]'")
    programs, who = _programs(), _unprivileged()
    if programs is None or who is None:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    home = Path(tempfile.mkdtemp(prefix="fedtide-postgresql-"))
    server = None
    try:
        if who:
            os.chown(home, who["user"], who["group"])
        options = ["--auth=trust", "--username=fedtide", "--encoding=UTF8", "--locale=C", "--no-sync"]
        made = [programs / "initdb", "--pgdata", home / "data", *options]
        subprocess.run(made, check=True, cwd=home, stdout=subprocess.DEVNULL, **who)
        port = _free_port()
        started = [programs / "postgres", "-D", home / "data", "-h", "127.0.0.1", "-p", str(port), "-k", home, "-F"]
        with (home / "log").open("wb") as log:
            server = subprocess.Popen(started, cwd=home, stdout=log, stderr=log, **who)
        url = f"postgresql://fedtide@127.0.0.1:{port}/postgres"
        for _ in range(300):
            assert server.poll() is None, (home / "log").read_text()
            with contextlib.suppress(psycopg.OperationalError), psycopg.connect(url):
                break
            time.sleep(0.1)
        yield url
    finally:
        if server is not None:
            server.send_signal(signal.SIGINT)  # ends sessions, then itself
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path):
    """Where an empty ledger may be made."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db")
    import psycopg

    url = request.getfixturevalue("postgresql")
    name = f"ledger_{next(_COUNT)}"
    with psycopg.connect(url) as connection:
        connection.execute(f"create schema {name}")
    return f"{url}?options=-csearch_path%3D{name}"


@pytest.fixture
def ledger(place):
    from fedtide.adapters.ledger import Ledger

    with Ledger(place) as made:
        yield made


@pytest.fixture
def three():
    from fedtide.adapters.ledger import Enrolled

    return [Enrolled("a", 0, 10, 0.5), Enrolled("b", 1, 5, 0.25), Enrolled("c", 2, 5, 0.25)]
