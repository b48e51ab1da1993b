from pathlib import Path

import numpy as np
import pytest

from fedtide.availability import Trace, find
from fedtide.errors import FedtideError

RECORD = np.random.default_rng(0).random((7, 5)) < 0.5


def test_replays_then_starts_again():
    replay = Trace(RECORD).sample(3, 16)
    np.testing.assert_array_equal(replay, np.concatenate([RECORD, RECORD, RECORD[:2]]))


def test_replays_then_holds():
    replay = Trace(RECORD, past_end="hold").sample(3, 10)
    np.testing.assert_array_equal(replay[:7], RECORD)
    np.testing.assert_array_equal(replay[7:], np.repeat(RECORD[-1:], 3, axis=0))


def test_each_seed_starts_at_its_own_round():
    record = np.eye(4, dtype=bool)
    trace = Trace(record, random_start=True)
    starts = np.array([trace.sample(seed, 6)[0].argmax() for seed in range(400)])
    for seed in range(4):
        np.testing.assert_array_equal(trace.sample(seed, 6), record[(starts[seed] + np.arange(6)) % 4])
    # 100 of each expected, standard deviation 8.7: 50 is 5.7 of them (1e-8 each).
    assert (np.abs(np.bincount(starts, minlength=4) - 100) < 50).all()


def test_availability_and_correlation_are_those_of_the_record():
    record = np.column_stack([RECORD, np.ones(7, bool), np.zeros(7, bool)])
    repeat, hold = Trace(record), Trace(record, "hold")
    np.testing.assert_allclose(repeat.availability, record.mean(0))
    for k in range(5):
        circle = record[np.arange(8) % 7, k]
        assert repeat.correlation[k] == pytest.approx(np.corrcoef(circle[:-1], circle[1:])[0, 1])
        assert hold.correlation[k] == pytest.approx(np.corrcoef(record[:-1, k], record[1:, k])[0, 1])
    np.testing.assert_array_equal(repeat.correlation[5:], 0)
    np.testing.assert_array_equal(hold.correlation[5:], 0)
    np.testing.assert_array_equal(Trace(record[:1], "hold").correlation, 0)


def test_intervals():
    # Rounds begin at 0, 10, 20, 30. A client is there when an interval covers that moment; an end is not covered.
    trace = Trace.from_intervals(
        client=[0, 1, 1, 2, 2, 4], start=[0, 5, 15, -7, 1, 10], end=[30, 15, 99, 10, 9, 10], round_length=10, rounds=4
    )
    expected = [[1, 0, 1, 0, 0], [1, 1, 0, 0, 0], [1, 1, 0, 0, 0], [0, 1, 0, 0, 0]]
    np.testing.assert_array_equal(trace.matrix, np.array(expected, bool))


def test_intervals_that_overlap_or_touch_are_one():
    apart = Trace.from_intervals([0, 0, 0], [0, 2, 4], [3, 4, 6], 1.0)
    np.testing.assert_array_equal(apart.matrix, np.ones((6, 1), bool))


def test_boundaries_survive_rounding():
    # 1.1 / 0.1 > 11 and 0.6 / 0.2 < 3 in floating point.
    assert Trace.from_intervals([0], [1.1], [1.2], 0.1, rounds=13).matrix[:, 0].nonzero()[0].tolist() == [11]
    assert Trace.from_intervals([0], [0.0], [0.6], 0.2).matrix.shape == (3, 1)


def test_no_interval_at_all():
    assert not Trace.from_intervals([], [], [], 1.0, rounds=3, clients=2).sample(0, 3).any()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Trace([[0, 1], [2, 0]]), r"matrix\[1\]\[0\] = 2: must be 0 or 1"),
        (lambda: Trace([[0.0, np.nan]]), r"matrix\[0\]\[1\] = nan"),
        (lambda: Trace([0, 1]), "matrix"),
        (lambda: Trace([[0, 1], [1]]), "matrix"),
        (lambda: Trace(np.zeros((0, 3), bool)), "matrix"),
        (lambda: Trace(RECORD, "stop"), "past_end = 'stop': must be repeat or hold"),
        (lambda: Trace(RECORD, "hold", random_start=True), "random_start"),
        (lambda: Trace.from_intervals([0, 1], [0, 5], [1, 4], 1), r"end\[1\] = 4.0: must be not before its start 5"),
        (lambda: Trace.from_intervals([0], [np.nan], [1], 1), r"start\[0\] = nan: must be a finite time"),
        (lambda: Trace.from_intervals([0], [0], [np.inf], 1), r"end\[0\] = inf"),
        (lambda: Trace.from_intervals([0.5], [0], [1], 1), r"client\[0\] = 0.5"),
        (lambda: Trace.from_intervals([-1], [0], [1], 1), r"client\[0\] = -1.0"),
        (lambda: Trace.from_intervals([3], [0], [1], 1, clients=3), "client = 3: must be in 0 … 2"),
        (lambda: Trace.from_intervals([0], [0, 1], [1, 2], 1), "intervals"),
        (lambda: Trace.from_intervals([0], [0], [1], 0), "round_length = 0"),
        (lambda: Trace.from_intervals([0], [0], [1], 1, rounds=0), "rounds = 0"),
        (lambda: Trace.from_intervals([9], [1.7e9], [1.8e9], 1), "time starts at 0"),
    ],
)
def test_bad_traces(build, message: str):
    with pytest.raises(FedtideError, match=message) as error:
        build()
    assert "\n" not in str(error.value)


def test_loads_matrices(tmp_path: Path):
    np.save(tmp_path / "a.npy", RECORD)
    np.savez(tmp_path / "b.npz", RECORD.astype(np.int8))
    np.savez(tmp_path / "c.npz", matrix=RECORD, other=np.zeros(3))
    for name in ("a.npy", "b.npz", "c.npz"):
        np.testing.assert_array_equal(Trace.load(tmp_path / name).matrix, RECORD)
    assert Trace.load(str(tmp_path / "a.npy"), past_end="hold").past_end == "hold"


def test_loads_tables(tmp_path: Path):
    (tmp_path / "a.csv").write_text("kind,end,client,start\nphone,30,0,0\nphone,15.5,1,5\n")
    expected = Trace.from_intervals([0, 1], [0, 5], [30, 15.5], 10, rounds=4, clients=3)
    np.testing.assert_array_equal(Trace.load(tmp_path / "a.csv", 10, rounds=4, clients=3).matrix, expected.matrix)


def test_the_catalogue_takes_a_path_or_a_matrix(tmp_path: Path):
    build = find("trace").build
    np.save(tmp_path / "a.npy", RECORD)
    np.testing.assert_array_equal(build(path=tmp_path / "a.npy", clients=5).matrix, RECORD)
    np.testing.assert_array_equal(build(matrix=RECORD.astype(int).tolist()).matrix, RECORD)
    for wrong in ({}, {"path": "a.npy", "matrix": RECORD}, {"matrix": RECORD, "round_length": 1.0}):
        with pytest.raises(FedtideError, match="trace"):
            build(**wrong)
    with pytest.raises(FedtideError, match="one for each of 4 clients"):
        build(matrix=RECORD, clients=4)


@pytest.mark.parametrize(
    ("name", "content", "arguments", "message"),
    [
        ("missing.npy", None, {}, "No such file"),
        ("missing.csv", None, {"round_length": 1}, "No such file"),
        ("a.npy", b"not an array", {}, "not a readable matrix"),
        ("a.npy", b"", {}, "not a readable matrix"),
        ("a.npz", b"PK\x03\x04broken", {}, "not a readable matrix"),
        ("a.txt", b"", {}, "a trace is a .npy, .npz or .csv file"),
        ("a.csv", b"client,start,end\n0,0,1\n", {}, "needs round_length"),
        ("a.csv", b"client,begin,end\n0,0,1\n", {"round_length": 1}, "start is missing"),
        ("a.csv", b"client,start,end\n\n", {"round_length": 1}, "has no intervals, only a header"),
        ("a.csv", b"client,start,end\n0,zero,1\n", {"round_length": 1}, "not a readable table"),
        ("a.csv", b"client,start,end\n0,0\n", {"round_length": 1}, "not a readable table"),
        ("a.csv", b"client,start,end\n0,2,1\n", {"round_length": 1}, r"end\[0\] = 1.0"),
        ("a.csv", b"\xff\xfe\x00", {"round_length": 1}, "not a readable table"),
    ],
    ids=[
        "no matrix", "no table", "text as npy", "empty npy", "broken npz", "txt", "no round_length", "no start",
        "only a header", "a word for a time", "a missing end", "an end before its start", "not text",
    ],
)  # fmt: skip
def test_bad_files_name_the_file_in_one_line(tmp_path: Path, name, content, arguments, message: str):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(FedtideError, match=message) as error:
        Trace.load(tmp_path / name, **arguments)
    assert name in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_do_not_fit(tmp_path: Path):
    np.save(tmp_path / "a.npy", RECORD)
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "two.npz", a=RECORD, b=RECORD)
    with pytest.raises(FedtideError, match="5 clients, not 6"):
        Trace.load(tmp_path / "a.npy", clients=6)
    with pytest.raises(FedtideError, match="not for a matrix"):
        Trace.load(tmp_path / "a.npy", round_length=1.0)
    with pytest.raises(FedtideError, match="not a readable matrix"):
        Trace.load(tmp_path / "objects.npy")
    with pytest.raises(FedtideError, match="must hold one array, or one called matrix; has a, b"):
        Trace.load(tmp_path / "two.npz")


def test_a_window_of_a_file_holds_those_who_were_observed_throughout(tmp_path: Path):
    record = RECORD.astype(np.int8)
    record[0, 1] = record[6, 4] = record[3, 2] = -1  # before, after and within the window of rounds 1 … 5
    path = tmp_path / "slots.npz"
    np.savez(path, slots=record, other=record)
    build = find("trace").build
    replay = build(path=path, array="slots", window=(1, 5))
    np.testing.assert_array_equal(replay.matrix, RECORD[1:6, [0, 1, 3, 4]])
    np.testing.assert_array_equal(
        build(path=path, array="slots", window=(1, 5), clients=3).matrix, replay.matrix[:, :3]
    )
    for arguments, message in (
        ({"array": "slots"}, r"matrix\[0\]\[1\] = -1: must be 0 or 1"),
        ({"array": "none", "window": (1, 5)}, "has no array 'none'; has slots, other"),
        ({"array": "slots", "window": (3, 5)}, r"window = \[3, 5\]: must be rounds of the matrix, which has 7"),
        ({"array": "slots", "window": (1, 5), "clients": 9}, "4 clients, not 9"),
    ):
        with pytest.raises(FedtideError, match=message):
            build(path=path, **arguments)
    with pytest.raises(FedtideError, match="for files"):
        build(matrix=RECORD, window=(1, 5))
