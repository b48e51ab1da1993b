"""Clients that raise, send NaN, are killed and come back: the rounds go on without them, and with them again."""

import time


def test_clients_that_fail_and_come_back(bench, record):
    run = bench.run("short", app__faults="raise:0:0,nan:1:0,hang:2:1")
    run.start()
    run.marked("2-1")
    killed = time.time()
    bench.federation.kill("node-2")
    bench.federation.start("node-2")
    turn, when = run.back(2, 1)
    run.until(lambda: run.checkpoint()[1] > turn, "the checkpoint")

    assert run.row(0, 0)["reason"].startswith("error:")
    assert "out of memory" in run.row(0, 0)["reason"]
    assert run.row(0, 1)["reason"] == "refused:parameters that are not finite"
    assert [run.row(0, k)["included"] for k in range(3)] == [0, 0, 1]
    assert [run.row(1, k)["included"] for k in range(3)] == [1, 1, 0]
    assert run.row(1, 2)["reason"].startswith("no-reply")
    assert "client 2 is back as node" in run.said()
    run.nothing_lost()

    ended = [run.rounds()[t]["ended"] for t in range(2)]
    record("a client raises", run.row(0, 0)["reason"], 1, ended[1] - ended[0])
    record("a client sends NaN", run.row(0, 1)["reason"], 1, ended[1] - ended[0])
    record("a client is killed while it trains, and started again", run.row(1, 2)["reason"], turn - 1, when - killed)
