"""What is written is what is read, in SQLite and in PostgreSQL."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("sqlalchemy", reason="the ledger needs pip install 'fedtide[flower]'")

from fedtide.adapters.ledger import ClientInRound, Enrolled, Ledger, check_client
from fedtide.errors import FedtideError, InvalidInput

COUNT = itertools.count()
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=200)
NUMBER = st.none() | st.floats()
REASON = st.sampled_from(["no-reply", "error", "refused:norm 7", "expired", "late"])
AWKWARD = ["'; drop table runs; --", "ü̈ 试验 🌊", '"', "%s", ":client", "a\\b", " ", "\n", "é", "é", "x" * 200]
RELAXED = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)


def here(*clients, **more):
    return [ClientInRound(client, True, **more) for client in clients]


def away(*clients, reason="no-reply"):
    return [ClientInRound(client, False, reason) for client in clients]


@st.composite
def federations(draw):
    clients = draw(st.lists(TEXT, min_size=1, max_size=5, unique=True))
    numbers = draw(st.permutations(range(len(clients))))
    roster = [
        Enrolled(client, number, draw(st.integers(0, 2**63 - 1)), draw(st.floats(0, 1)))
        for client, number in zip(clients, numbers, strict=True)
    ]
    rounds = draw(st.lists(st.integers(0, 2**40), max_size=4, unique=True))
    rows = {
        number: [
            ClientInRound(
                client, there, None if there else draw(REASON), draw(NUMBER), draw(NUMBER), draw(st.booleans()),
                draw(NUMBER), draw(NUMBER),
            )
            for client, there in ((client, draw(st.booleans())) for client in clients)
        ]
        for number in rounds
    }  # fmt: skip
    metrics = draw(st.dictionaries(TEXT, st.floats(), max_size=3))
    return roster, rows, metrics


@RELAXED
@given(federation=federations())
def test_round_trip(ledger, federation):
    roster, rows, metrics = federation
    run = f"run {next(COUNT)}"
    ledger.begin_run(run, "fedavg", {"rate": 0.1, "name": "\0\ud800"}, roster)
    for number, of_round in rows.items():
        ledger.write_round(run, number, 1.0, 2.0, 30.0, of_round, metrics)
    by_number = sorted(roster, key=lambda entry: entry.number)
    assert ledger.roster(run) == by_number
    rounds, clients, matrix = ledger.presence(run)
    assert rounds.tolist() == sorted(rows)
    assert clients == [entry.client for entry in by_number]
    expected = [[{row.client: row.here for row in rows[t]}[client] for client in clients] for t in sorted(rows)]
    assert matrix.tolist() == expected
    assert matrix.shape == (len(rows), len(clients))
    assert matrix.dtype == bool
    assert ledger.last_round(run) == max(rows, default=None)
    status = ledger.status(run)
    finite = {name: value if abs(value) < 1e100 else None for name, value in metrics.items()}
    for one, line in zip(status.rounds, expected, strict=True):
        assert one.metrics == finite
        assert one.available == sum(line)
        assert one.included == sum(row.included for row in rows[one.round])
    for one in status.clients:
        mine = [row for of_round in rows.values() for row in of_round if row.client == one.client]
        latencies = [row.latency for row in mine if row.latency is not None and abs(row.latency) < 1e100]
        assert (one.latency is None) == (not latencies)
        if latencies:
            assert one.latency == pytest.approx(np.median(latencies))
        assert sum(one.away.values()) == sum(not row.here for row in mine)
    assert ledger.runs()[-1].config == {"rate": 0.1, "name": "\0\ud800"}


@pytest.mark.parametrize("client", AWKWARD)
def test_any_text_is_an_id(ledger, client):
    ledger.begin_run(client, client, {client: client}, [Enrolled(client, 0, 1, 1.0)])
    ledger.write_round(client, 1, 0.0, 1.0, None, here(client), {client: 1.0})
    assert ledger.presence(client)[1] == [client]
    assert ledger.runs()[0][:3] == (client, client, {client: client})
    assert ledger.status(client).rounds[0].metrics == {client: 1.0}


@pytest.mark.parametrize("client", ["", "x" * 201, "a\0b", "\ud800", 7, None])
def test_other_ids_are_refused(ledger, client):
    with pytest.raises(InvalidInput, match="client = "):
        check_client(client)
    with pytest.raises(InvalidInput, match=r"roster\.client = "):
        ledger.begin_run("r", "fedavg", {}, [Enrolled(client, 0, 1, 1.0)])
    assert ledger.runs() == []


def test_a_repeated_round_replaces_the_first(ledger, three):
    ledger.begin_run("r", "fedavg", {}, three)
    ledger.write_round("r", 1, 0.0, 1.0, 5.0, here("a", "b", included=True), {"accuracy": 0.1, "loss": 1.0})
    ledger.write_round("r", 1, 2.0, 3.0, 6.0, [*here("c"), *away("a")], {"accuracy": 0.2})
    rounds, _, matrix = ledger.presence("r")
    assert rounds.tolist() == [1]
    assert matrix.tolist() == [[False, False, True]]
    status = ledger.status("r")
    assert status.rounds == [(1, 2.0, 3.0, 6.0, 1, 0, {"accuracy": 0.2})]
    assert [one.available for one in status.clients] == [0, 0, 1]
    assert [one.included for one in status.clients] == [0, 0, 0]


def test_status(ledger, three):
    ledger.begin_run("r", "fedavg", {}, three, at=1.0)
    ledger.seen("a", 2.0)
    for t in range(1, 41):
        rows = here("a", included=t % 2 == 0, weight=0.5 * t, latency=t, reason=None if t % 2 == 0 else "late")
        rows += here("b") if t > 30 else away("b", reason="refused:norm" if t < 11 else "expired")
        rows += [ClientInRound("stranger", True, "not-listed")] if t == 7 else []
        ledger.write_round("r", t, 10.0 * t, 10.0 * t + 5, 30.0, rows, {"accuracy": t / 100})
    ledger.finish_run("r", at=500.0)
    status = ledger.status("r")
    assert status[:4] == ("r", "fedavg", 1.0, 500.0)
    a, b, c, stranger = status.clients
    assert a[:6] == ("a", 0, 10, 0.5, 2.0, 405.0)
    assert (a.available, a.included, a.weight, a.latency) == (1, 0.5, 10.5, 20.5)
    assert (a.away, a.turned_down) == ({}, {"late": 20})
    assert (b.first_seen, b.last_seen, b.available) == (315.0, 405.0, 0.25)
    assert b.away == {"expired": 20, "refused": 10}
    assert (c.first_seen, c.last_seen, c.available, c.weight, c.latency) == (None, None, 0, None, None)
    assert (stranger.client, stranger.number, stranger.turned_down) == ("stranger", None, {"not-listed": 1})
    assert [one.available for one in status.rounds] == [1] * 30 + [2] * 10  # strangers are not counted
    assert status.rounds[6] == (7, 70.0, 75.0, 30.0, 1, 0, {"accuracy": 0.07})


def test_not_finite_values_become_reasons(ledger, three):
    ledger.begin_run("r", "fedavg", {}, three)
    rows = [
        ClientInRound("a", True, None, math.nan),
        ClientInRound("b", True, "error:why", -math.inf, math.nan, False, math.inf),
    ]
    ledger.write_round("r", 1, 0.0, 1.0, math.inf, rows, {"accuracy": math.nan})
    with ledger.database.reading() as connection:
        stored = connection.exec_driver_sql("select client, reason, loss, weight, update_norm from presence").all()
    assert sorted(map(tuple, stored)) == [
        ("a", "refused:loss is nan", None, None, None),
        ("b", "error:why", *[None] * 3),
    ]
    assert ledger.status("r").rounds[0].metrics == {"accuracy": None}


def test_a_client_cannot_stop_a_round_by_its_words(ledger, three):
    ledger.begin_run("r", "fedavg", {}, three)
    ledger.write_round("r", 1, 0.0, 1.0, None, away("a", reason="error:\0\ud800\n'" + "x" * 9999))
    with ledger.database.reading() as connection:
        (reason,) = connection.exec_driver_sql("select reason from presence").scalars()
    assert reason.startswith("error:? 'xxx")
    assert len(reason) == 500


def test_numpy_values(ledger):
    ledger.begin_run("r", "fedavg", {}, [Enrolled("a", np.int64(0), np.int32(3), np.float32(0.1))])
    row = ClientInRound(
        "a", np.bool_(True), None, np.float32(0.5), np.float32(1), np.True_, np.float64(2), np.float32(3)
    )
    ledger.write_round("r", np.int64(1), np.float64(1), np.float64(2), np.float32(3), [row], {"loss": np.float32(0.5)})
    assert ledger.presence("r")[2].tolist() == [[True]]
    assert ledger.status("r").clients[0].latency == 3


def test_begun_again_a_run_goes_on(ledger, three):
    ledger.begin_run("r", "fedavg", {"rounds": 5}, three, at=1.0)
    ledger.write_round("r", 1, 0.0, 1.0, None, here("a"))
    ledger.finish_run("r")
    ledger.begin_run("r", "fedavg", {"rounds": 9}, three[::-1], at=2.0)
    assert ledger.runs() == [("r", "fedavg", {"rounds": 9}, 1.0, None, 1)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda roster: roster[:2], "began with 3 clients, not 2"),
        (lambda roster: [*roster[:2], roster[2]._replace(client="d")], "client of client 2 was 'c', not 'd'"),
        (lambda roster: [*roster[:2], roster[2]._replace(examples=6)], "examples of client 2 was 5, not 6"),
        (lambda roster: [*roster[:2], roster[2]._replace(importance=0.2)], "importance of client 2 was 0.25, not 0.2"),
    ],
)
def test_another_roster_is_an_error(ledger, three, change, words):
    ledger.begin_run("r", "fedavg", {}, three)
    with pytest.raises(FedtideError, match=words) as raised:
        ledger.begin_run("r", "fedavg", {}, change(three))
    assert "\n" not in str(raised.value)
    with pytest.raises(FedtideError, match="is of method fedavg, not ca_fed"):
        ledger.begin_run("r", "ca_fed", {}, three)
    assert ledger.roster("r") == three


@pytest.mark.parametrize(
    "roster",
    [[], [Enrolled("a", 1, 1, 1.0)], [Enrolled("a", 0, 1, 1.0), Enrolled("a", 1, 1, 1.0)],
     [Enrolled("a", 0, -1, 1.0)], [Enrolled("a", 0, 1, math.nan)], [Enrolled("a", 0, 2**63, 1.0)]],
)  # fmt: skip
def test_bad_rosters(ledger, roster):
    with pytest.raises(InvalidInput):
        ledger.begin_run("r", "fedavg", {}, roster)
    assert ledger.runs() == []


def test_bad_rounds_change_nothing(ledger, three):
    ledger.begin_run("r", "fedavg", {}, three)
    ledger.write_round("r", 1, 0.0, 1.0, None, here("a"))
    bad = [
        ({"rows": here("a", "a")}, "listed only once"),
        ({"rows": [ClientInRound("b", False)]}, "reason = None: must be one of no-reply"),
        ({"rows": away("b", reason="tired")}, "must be one of no-reply"),
        ({"rows": here("")}, "rows.client = ''"),
        ({"began": math.nan}, "began = nan"),
        ({"round": -1}, "round = -1"),
        ({"run": "s"}, "there is no run 's' .its runs: 'r'"),
    ]
    for change, words in bad:
        given = {"run": "r", "round": 1, "began": 0.0, "ended": 1.0, "deadline": None, "rows": here("b")} | change
        with pytest.raises(FedtideError, match=words):
            ledger.write_round(**given)
    assert ledger.presence("r")[2].tolist() == [[True, False, False]]
    for ask in (ledger.presence, ledger.roster, ledger.last_round, ledger.status, ledger.finish_run):
        with pytest.raises(FedtideError, match="there is no run 's'"):
            ask("s")


def test_sights_only_widen(ledger):
    for at in (5.0, 3.0, 9.0, 7.0):
        ledger.seen("a", at)
    with ledger.database.reading() as connection:
        assert [tuple(row) for row in connection.exec_driver_sql("select * from clients")] == [("a", 3.0, 9.0)]


def test_it_is_there_when_opened_again(place, three):
    with Ledger(place) as ledger:
        ledger.begin_run("r", "fedavg", {}, three)
        ledger.write_round("r", 4, 0.0, 1.0, None, here("b"))
    with Ledger(place) as ledger:
        assert ledger.last_round("r") == 4
    with Ledger(place, readonly=True) as ledger:
        assert ledger.presence("r")[2].tolist() == [[False, True, False]]
        with pytest.raises(FedtideError, match="opened for reading only"):
            ledger.seen("a", 1.0)
