"""The view: every round once, with its reasons; a table for terminals."""

import io

import pytest

pytest.importorskip("sqlalchemy", reason="needs pip install 'fedtide[flower]'")

from rich.console import Console

from fedtide.adapters.deploy.view import LedgerReader, Plain, Screen, client_table, headline, round_table
from fedtide.adapters.ledger import ClientInRound, Enrolled, Ledger


@pytest.fixture
def book(tmp_path):
    """A run of two clients, and a function that writes a round of it."""
    with Ledger(tmp_path / "ledger.db") as ledger, LedgerReader(str(tmp_path / "ledger.db"), "r") as book:
        ledger.begin_run("r", "fedavg", {}, [Enrolled("anna", 0, 30, 0.5), Enrolled("ben", 1, 30, 0.5)], at=0.0)

        def write(t, metrics=None):
            rows = [
                ClientInRound("anna", True, None, 1.5, 0.25, True, 0.1, 2.0),
                ClientInRound("ben", False, "refused:numbers [that] are not finite"),
            ]
            ledger.write_round("r", t, 10.0 * t, 10.0 * t + 4, 30.0, rows, metrics)

        book.write = write
        yield book


def _text(*parts):
    console = Console(file=io.StringIO(), width=160)
    for part in parts:
        console.print(part)
    return console.file.getvalue()


def test_nothing_before_there_is_a_ledger(tmp_path):
    with LedgerReader(str(tmp_path / "ledger.db"), "r") as book:
        assert book.read() is None
        assert headline(book.read()) == "clients are enrolling"
        with Ledger(tmp_path / "ledger.db"):
            assert book.read() is None


def test_tables(book):
    book.write(0)
    book.write(1, {"loss": 0.75, "accuracy": 0.875})
    seen = book.read()
    assert headline(seen, 5) == (
        "run r · fedavg · round 2 of 5 · 1 of 2 available, 1 used · loss 0.750 · accuracy 0.875 · deadline 30 s"
    )
    clients = _text(client_table(seen, [True, False]))
    assert [line.split()[:2] for line in clients.splitlines()[1:]] == [["anna", "●"], ["ben", "○"]]
    assert "0.250" in clients
    assert "refused ×2, last: refused:numbers [that] are not finite" in " ".join(clients.split())
    rounds = _text(round_table(seen)).splitlines()
    assert rounds[2].split()[:9] == ["2", "1", "1", "0.7500", "0.8750", "30.0", "s", "4.0", "s"]


def test_lines_tell_every_round_once_and_wait_for_evaluations(book, capsys):
    book.write(0)
    plain = Plain(4, evaluate_every=2, done=1)  # round 1 is of an earlier part of the run
    with plain:
        plain.show(None, [])
        plain.show(book.read(), [])
        assert capsys.readouterr().out == ""
        book.write(1)
        plain.show(book.read(), [])
        assert capsys.readouterr().out == ""
        book.write(1, {"accuracy": 0.5})
        for _ in range(2):
            plain.show(book.read(), [])
        assert capsys.readouterr().out == (
            "round 2 of 4: 1 available; used anna (0.250); accuracy 0.500; 4.0 s; "
            "others: ben: refused:numbers [that] are not finite\n"
        )
        book.write(2)
        book.write(3)
        plain.show(book.read(), [])
        assert capsys.readouterr().out.startswith(
            "round 3 of 4: 1 available; used anna (0.250); mean loss of clients 1.5"
        )
    assert capsys.readouterr().out.startswith("round 4 of 4")  # its evaluation did not come


def test_screen(book):
    console = Console(file=io.StringIO(), width=160, force_terminal=True, highlight=False)
    with Screen(4, console) as screen:
        screen.show(None, [True, True])
        assert "2 of 2 client processes are running" in console.file.getvalue()
        book.write(0)
        screen.say("client ben stops")
        screen.show(book.read(), [True, False])
    said = console.file.getvalue()
    assert "round 1 of 4" in said
    assert "round 1, client ben: refused:numbers [that] are not finite" in said
    assert "client ben stops" in said
    assert "Ctrl-C stops everything" in said


def test_screen_of_clients_elsewhere(book):
    """Nothing is known of their processes: they are not called down."""
    console = Console(file=io.StringIO(), width=160, force_terminal=True, highlight=False)
    with Screen(4, console) as screen:
        screen.show(None, [])
        assert "waiting for clients on other machines" in console.file.getvalue()
        book.write(0)
        screen.show(book.read(), [])
    said = console.file.getvalue()
    assert "used" in said
    assert "down" not in said
