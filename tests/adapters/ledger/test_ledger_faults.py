"""Killed, crowded, full, read-only and foreign: nothing is lost, and the error is one line."""

import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="the ledger needs pip install 'fedtide[flower]'")

from sqlalchemy import event

from fedtide.adapters.ledger import ClientInRound, Enrolled, Ledger
from fedtide.errors import FedtideError, InvalidInput

KILLED = """
import sys, time
from sqlalchemy import event
from fedtide.adapters.ledger import Ledger, ClientInRound
ledger = Ledger(sys.argv[1])

def stall(connection, cursor, statement, *rest):
    if statement.lower().startswith(sys.argv[2]):
        print("in it", flush=True)
        time.sleep(60)

event.listen(ledger.database.engine, "after_cursor_execute", stall)
rows = [ClientInRound("a", False, "late"), ClientInRound("b", True), ClientInRound("c", True)]
ledger.write_round("r", 1, 5.0, 6.0, None, rows, {"accuracy": 0.9})
"""

WRITER = """
import sys
from fedtide.adapters.ledger import Ledger, ClientInRound
with Ledger(sys.argv[1]) as ledger:
    for t in range(2, 22):
        rows = [ClientInRound(client, True, included=True) for client in "abc"]
        ledger.write_round("r", t, float(t), t + 0.5, None, rows, {"accuracy": 0.5})
        ledger.write_round("r", 1, 0.0, 0.5, None, rows, {"accuracy": 0.5})
"""


@contextlib.contextmanager
def python(code, *arguments):
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def one_line(raised, *words):
    told = str(raised.value)
    assert "\n" not in told
    for word in words:
        assert re.search(word, told), told


def begun(place, three):
    ledger = Ledger(place)
    ledger.begin_run("r", "fedavg", {}, three)
    ledger.write_round("r", 1, 0.0, 1.0, None, [ClientInRound("a", True, included=True)], {"accuracy": 0.1})
    return ledger


@pytest.mark.parametrize("where", ["delete from rounds", "insert into presence"])
def test_killed_in_the_middle_of_a_round(place, three, where):
    with begun(place, three) as ledger:
        before = ledger.status("r")
        with python(KILLED, place, where) as process:
            assert process.stdout.readline() == "in it\n"
            assert ledger.status("r") == before
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert ledger.status("r") == before
        ledger.write_round("r", 1, 5.0, 6.0, None, [ClientInRound("b", True)])  # no lock is left
    with Ledger(place) as ledger:
        assert ledger.presence("r")[2].tolist() == [[False, True, False]]


def test_one_writes_while_another_reads(place, three):
    with begun(place, three) as ledger:
        rows = [ClientInRound(client, True, included=True) for client in "abc"]
        ledger.write_round("r", 1, 0.0, 0.5, None, rows, {"accuracy": 0.5})
        with python(WRITER, place) as process:
            looks = 0
            while process.poll() is None:
                with Ledger(place, readonly=True) as reader:
                    status = reader.status("r")
                looks += 1
                assert all(one[4:] == (3, 3, {"accuracy": 0.5}) for one in status.rounds)  # never half a round
                assert all(one.available == 1 for one in status.clients)
            assert process.returncode == 0
        assert looks > 1
        assert len(ledger.status("r").rounds) == 21


def test_many_open_a_new_ledger_at_once(place):
    failures = []

    def make(number):
        try:
            with Ledger(place) as ledger:
                ledger.begin_run(f"run {number}", "fedavg", {}, [Enrolled(f"client {number}", 0, 1, 1.0)])
                for _ in range(5):
                    ledger.seen("shared", float(number))
        except FedtideError as error:
            failures.append(error)

    threads = [threading.Thread(target=make, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with Ledger(place) as ledger:
        assert sorted(one.run for one in ledger.runs()) == [f"run {number}" for number in range(6)]


def test_locked(tmp_path, three):
    path = tmp_path / "ledger.db"
    begun(path, three).close()
    with Ledger(path, patience=0.05) as ledger:
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("begin immediate")
        with pytest.raises(FedtideError) as raised:
            ledger.seen("a", 1.0)
        why = "cannot be written: database is locked; its earlier content is unchanged"
        one_line(raised, re.escape(str(path)), why)
        assert ledger.last_round("r") == 1  # readers do not wait
        holder.rollback()
        holder.close()
        ledger.seen("a", 1.0)


def test_locked_in_postgresql(postgresql):
    import psycopg

    with psycopg.connect(postgresql) as connection:
        connection.execute("create schema held")
    place = f"{postgresql}?options=-csearch_path%3Dheld"
    with Ledger(place, patience=0.1) as ledger, psycopg.connect(postgresql) as holder:
        ledger.seen("a", 1.0)
        holder.execute("lock table held.clients")
        with pytest.raises(FedtideError) as raised:
            ledger.seen("a", 2.0)
        one_line(raised, "127.0.0.1", "lock timeout; its earlier content")
        holder.rollback()
        ledger.seen("a", 2.0)


def test_disk_full(tmp_path, three):
    """SQLite says the same of a full disk as of a database that may not grow."""
    path = tmp_path / "ledger.db"
    with begun(path, three) as ledger:
        before = ledger.status("r")
        rows = [ClientInRound(f"{number:0200}", False, "error:" + "x" * 490) for number in range(500)]
        with ledger.database.engine.connect() as connection:
            pages = connection.exec_driver_sql("pragma page_count").scalar()

        def no_more(connection):
            connection.exec_driver_sql(f"pragma max_page_count = {pages + 2}")

        event.listen(ledger.database.engine, "begin", no_more)
        with pytest.raises(FedtideError) as raised:
            ledger.write_round("r", 1, 0.0, 1.0, None, rows)
        one_line(raised, re.escape(str(path)), "database or disk is full; its earlier content is unchanged")
        assert ledger.status("r") == before
        event.remove(ledger.database.engine, "begin", no_more)
        event.listen(ledger.database.engine, "begin", lambda c: c.exec_driver_sql("pragma max_page_count = 1000000"))
        ledger.write_round("r", 1, 0.0, 1.0, None, rows)  # once there is room
        assert ledger.presence("r")[2].tolist() == [[False, False, False]]


@contextlib.contextmanager
def nobody():
    """Without the rights of root, to whom nothing is read-only."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_read_only(three):
    with tempfile.TemporaryDirectory() as name:
        folder, path = Path(name), Path(name) / "ledger.db"
        begun(path, three).close()
        path.chmod(0o444)
        folder.chmod(0o555)
        try:
            with nobody():
                with pytest.raises(FedtideError) as raised, Ledger(path) as ledger:
                    ledger.seen("a", 1.0)
                one_line(raised, re.escape(str(path)), "cannot be (read|written)")
                with Ledger(path, readonly=True) as ledger:
                    assert ledger.last_round("r") == 1
                with pytest.raises(FedtideError) as raised:
                    Ledger(folder / "other.db")
                one_line(raised, "other.db: cannot be read: unable to open database file")
        finally:
            folder.chmod(0o755)


def test_not_a_ledger(tmp_path):
    (tmp_path / "text").write_text("no database, but long enough to be taken for one" * 100)
    for place, words in [
        (tmp_path / "text", "text: cannot be read: file is not a database"),
        (tmp_path, "unable to open database file"),
        (tmp_path / "text" / "ledger.db", "its folder cannot be created"),
    ]:
        with pytest.raises(FedtideError) as raised:
            Ledger(place)
        one_line(raised, words)
    with pytest.raises(FedtideError, match="there is no such file"):
        Ledger(tmp_path / "none.db", readonly=True)
    assert not (tmp_path / "none.db").exists()
    for place in ["", "mysql://host/x", "sqlite://", "sqlite:///:memory:", "a\0b"]:
        with pytest.raises(InvalidInput, match="must be a file, or postgresql://"):
            Ledger(place)


def test_the_password_is_not_told():
    with pytest.raises(FedtideError) as raised:
        Ledger("postgresql://me:secret@127.0.0.1:1/x", patience=1.0)
    one_line(raised, r"me:\*\*\*@127.0.0.1", "cannot be read")
    assert "secret" not in str(raised.value)
    with pytest.raises(FedtideError) as raised:
        Ledger("mysql://me:secret@host/x")
    assert "secret" not in str(raised.value)


def test_a_foreign_database_is_left_as_it_is(tmp_path):
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute("create table recipes (name)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(FedtideError) as raised:
        Ledger(path)
    one_line(raised, "other.db: this database holds something else .its tables: recipes")
    assert path.read_bytes() == before


def test_a_newer_ledger(place, three):
    with begun(place, three) as ledger, ledger.database.writing() as connection:
        connection.exec_driver_sql("update fedtide_ledger set version = 2")
    with pytest.raises(FedtideError) as raised:
        Ledger(place)
    one_line(raised, "written by another version of Fedtide .schema 2; supported: 1")


def test_odd_paths(tmp_path):
    for name in ("a b?mode=ro#%41.db", "ü.db", "deep/er/ledger.db"):
        with Ledger(tmp_path / name) as ledger:
            ledger.seen("a", 1.0)
        assert (tmp_path / name).is_file()
    with Ledger(f"sqlite:///{tmp_path}/by-url.db") as ledger:
        ledger.seen("a", 1.0)
    assert (tmp_path / "by-url.db").is_file()


def test_missing_extras_are_named():
    code = "import sys; sys.modules[{!r}] = None; from fedtide.adapters.ledger import Ledger; Ledger({!r})"
    for module, words in [("sqlalchemy", "fedtide[flower]"), ("psycopg", "fedtide[postgres]")]:
        told = subprocess.run(
            [sys.executable, "-c", code.format(module, "postgresql://127.0.0.1:1/x")], capture_output=True, text=True
        )
        last = told.stderr.splitlines()[-1]
        assert last.startswith("fedtide.errors.FedtideError: ")
        assert f"pip install '{words}'" in last
