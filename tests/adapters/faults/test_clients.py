"""Clients that lie, send too much, hang, or are stopped: each is refused or missed, recorded, and welcome again."""

import time

import pytest

pytestmark = pytest.mark.slow

REFUSED = {  # by (client, round): the app's fault, its name in the table, the ledger's reason
    # In the first round, whose deadline is long: later ones are too short for 100 MB on a busy machine.
    (2, 0): ("huge", "a client sends 100 MB", "refused:100,0"),
    (0, 1): ("shape", "a client sends wrong shapes", "refused:array 0 is float32(10000,) where float32(100, 100)"),
    (1, 1): ("count", "a client claims impossible counts", "refused:examples = -5: must be a whole number"),
    (2, 2): ("norm", "a client sends an absurd update", "refused:a norm of"),
}


@pytest.fixture(scope="module")
def run(bench):
    faults = [f"{fault}:{client}:{turn}" for (client, turn), (fault, _, _) in REFUSED.items()]
    faults += ["hang:0:5", "hang:2:12"]
    run = bench.run("long", app__faults=",".join(faults))
    run.start()
    return run


def test_liars_are_refused_and_counted_again_in_the_next_round(run, record):
    run.written(5)
    for (client, turn), (_, fault, reason) in REFUSED.items():
        row = run.row(turn, client)
        assert row["reason"].startswith(reason)
        assert not row["included"]
        others = [run.row(turn, k) for k in range(3) if (k, turn) not in REFUSED]
        assert all(other["included"] for other in others)
        back, when = run.back(client, turn)
        run.nothing_lost()
        record(fault, row["reason"], back - turn, when - run.rounds()[turn]["ended"])


def test_a_client_that_hangs_is_missed_and_comes_back(run, record):
    run.written(6)
    row, ended = run.row(5, 0), run.rounds()[5]["ended"]
    assert row["reason"] == "no-reply"
    assert not row["included"]
    assert all(run.row(5, k)["included"] for k in (1, 2))
    (run.markers / "release").touch()
    back, when = run.back(0, 5)
    run.nothing_lost()
    (run.markers / "release").unlink()
    record("a client hangs beyond the deadline", row["reason"], back - 5, when - ended)


def test_a_client_that_is_stopped_while_it_trains(run, bench, record):
    run.marked("2-12")
    stopped = time.time()
    bench.federation.stop("node-2")
    run.written(13)
    row = run.row(12, 2)
    assert row["reason"] in ("no-reply:the node has disconnected", "no-reply")
    seconds = run.rounds()[12]["ended"] - stopped
    started = time.time()
    bench.federation.start("node-2")
    back, when = run.back(2, 12)
    run.nothing_lost()
    saw = f"{row['reason']}; the round ended {seconds:.0f} s after the signal"
    record("a client is stopped (SIGTERM) while it trains, and started again", saw, back - 12, when - started)
