"""Availability, played: who stops and starts, and when."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs pip install 'fedtide[flower]'")

from concurrent.futures import ThreadPoolExecutor

from fedtide.adapters.deploy.playback import Playback, presence_of, process_of
from fedtide.errors import FedtideError


class Federation:
    """SuperNodes without processes."""

    def __init__(self, count):
        self.nodes = [{"client-id": f"c{k}"} for k in range(count)]
        self.up = [True] * count

    def alive(self, name):
        return self.up[int(name.removeprefix("node-"))]

    def start(self, name):
        self.up[int(name.removeprefix("node-"))] = True

    def stop(self, name):
        self.up[int(name.removeprefix("node-"))] = False


@pytest.fixture
def turn():
    with ThreadPoolExecutor(1) as pool:
        yield lambda playback: playback.turn(pool)


def test_the_matrix_is_played_round_by_round(turn):
    """Rounds of 10 s: clients come 5 s before their first one, and leave 1 s before the first without them."""
    matrix = np.array([[1, 0, 1], [0, 0, 1], [1, 1, 1]], bool)
    federation, now, said = Federation(3), [0.0], []
    playback = Playback(federation, matrix, 10.0, on_change=said.append, clock=lambda: now[0])
    turn(playback)
    assert federation.up == [True, True, True]  # all enrol before the play begins
    playback.begin()
    seen = {}
    for now[0] in (0.0, 8.0, 9.5, 14.5, 16.5, 20.0, 29.5, 30.0):
        began = int(now[0] // 10)
        if began:
            playback.follow(began - 1, now[0] - 10 * (began - 1))  # the round before has been written
        turn(playback)
        seen[now[0]] = "".join("01"[up] for up in federation.up)
    first, second, third = ("".join("01"[int(here)] for here in row) for row in matrix)
    assert list(seen.values()) == [first, first, first, second, third, third, third, first]
    assert said[:2] == ["client c1 stops", "client c0 stops"]
    assert said[2:4] == ["client c0 starts", "client c1 starts"]


def test_the_play_waits_for_a_server_that_is_slow(turn):
    matrix = np.array([[1, 1], [0, 1], [1, 0]], bool)
    federation, now = Federation(2), [0.0]
    playback = Playback(federation, matrix, 10.0, clock=lambda: now[0])
    playback.begin()
    for now[0] in (9.0, 50.0):
        turn(playback)
        assert federation.up == [True, True]  # nobody leaves while round 0 lasts
    playback.follow(0, 50.0)
    turn(playback)
    assert (federation.up, playback.round) == ([True, True], 1)  # round 1 has begun; client 0 comes in time for round 2
    now[0] = 55.0
    for follow in ((1, 1.0), (0, 55.0)):  # an older look changes nothing
        playback.follow(*follow)
        turn(playback)
        assert (federation.up, playback.round) == ([True, True], 1)  # who has come for round 2 is not sent away again
    now[0] = 64.0
    turn(playback)
    assert federation.up == [True, False]


def test_a_run_that_goes_on_goes_on_in_the_trace(turn):
    federation, now = Federation(2), [100.0]
    matrix = np.array([[1, 1], [0, 1], [1, 0]], bool)
    playback = Playback(federation, matrix, 10.0, first=4, clock=lambda: now[0])
    playback.begin()
    turn(playback)
    assert federation.up == [False, True]  # round 4 is row 1
    playback.follow(4, 0.0)
    now[0] = 111.0
    turn(playback)
    assert federation.up == [True, False]


def test_a_client_that_ended_by_itself_is_started_again_but_not_all_the_time(turn):
    federation, now, said = Federation(1), [0.0], []
    playback = Playback(federation, np.ones((1, 1), bool), 10.0, on_change=said.append, clock=lambda: now[0])
    for now[0] in (0.0, 1.0, 2.0, 6.0):
        federation.up[0] = False
        turn(playback)
    assert said == ["client c0 starts"] * 2  # at 0 and at 6


def test_processes_by_name(tmp_path):
    assert presence_of(process_of("always", 4, 20), 0).all()
    markov = presence_of(process_of("markov", 4, 20), 0)
    # π from 0.9 to 0.4: with 10,000 rounds and λ = 0.6 the standard error is at most 0.01
    np.testing.assert_allclose(markov.mean(0), np.linspace(0.9, 0.4, 4), atol=0.05)
    assert (presence_of(process_of("markov", 4, 20), 1) != markov).any()
    assert presence_of(process_of("phones", 3, 20), 0).shape[1] == 3
    np.save(tmp_path / "who.npy", np.eye(5, dtype=int))
    assert (presence_of(process_of(f"trace:{tmp_path}/who.npy", 3, 20), 0) == np.eye(5)[:, :3]).all()
    (tmp_path / "who.csv").write_text("client,start,end\n0,0,40\n1,20,60\n")
    assert (presence_of(process_of(f"trace:{tmp_path}/who.csv", 2, 20.0), 0) == [[1, 0], [1, 1], [0, 1]]).all()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("sometimes", "must be always, markov, phones, fleet:DIR or trace:FILE"),
        ("trace:", "must be always"),
        ("trace:nowhere.npy", "nowhere.npy: "),
        ("trace:few.npy", "2 clients: must be 3 or more"),
        ("fleet:nowhere", "nowhere"),
    ],
)
def test_bad_names(tmp_path, monkeypatch, said, why):
    monkeypatch.chdir(tmp_path)
    np.save("few.npy", np.ones((4, 2)))
    with pytest.raises(FedtideError, match=why):
        process_of(said, 3, 20.0)
