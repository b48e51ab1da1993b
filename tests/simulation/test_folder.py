"""A run's folder: one process has it, a kill at any step loses nothing, and it closes only when all is there."""

import itertools
import json
import os
import shutil

import numpy as np
import polars as pl
import pytest

import fedtide
from fedtide.availability import Bernoulli
from fedtide.errors import CheckpointError, FedtideError
from fedtide.files import atomic
from fedtide.methods import fedavg, unbiased
from fedtide.problems import random_quadratic
from fedtide.simulation.simulate import simulate

METHODS = {"FedAvg": fedavg(rate=0.01), "Unbiased": unbiased(rate=0.01)}
OPTIONS = {"rounds": 60, "seeds": [4, 1], "evaluate_every": 30}  # segments end at 30 and 60
CLIENTS = 4


@pytest.fixture(scope="module")
def run():
    problem, availability = random_quadratic(clients=CLIENTS, dimension=2), Bernoulli([0.9, 0.9, 0.3, 0.3])
    return lambda **options: simulate(problem, availability, METHODS, **(OPTIONS | options))


@pytest.fixture(scope="module")
def whole(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    run(out=folder)
    return folder


def check_same(folder, whole):
    """Bit for bit, and the same files."""
    found, wanted = fedtide.Result.load(folder), fedtide.Result.load(whole)
    assert found.rounds.equals(wanted.rounds)
    assert found.clients.equals(wanted.clients)
    for label in METHODS:
        np.testing.assert_array_equal(found.models[label], wanted.models[label])
    assert found.about | {"seconds": 0} == wanted.about | {"seconds": 0}
    assert sorted(p.name for p in folder.iterdir()) == sorted(p.name for p in whole.iterdir())


class Killed(BaseException):
    pass


def run_and_kill(run, folder, step, **options):
    """Runs until files are moved or removed for the so-manieth time; nothing is done on the disk from then on."""
    steps = itertools.count(1)

    def dying(function):
        def do(*arguments, **options):
            if next(steps) >= step:
                raise Killed
            return function(*arguments, **options)

        return do

    with pytest.MonkeyPatch.context() as patch:
        for name in ("replace", "unlink", "rmdir"):
            patch.setattr(os, name, dying(getattr(os, name)))
        run(out=folder, **options)


def go_on(run, folder):
    """As a user would: started again if nothing has begun, else resumed."""
    if not (folder / "run.json").exists():
        with pytest.raises(FedtideError, match="no run has begun in it"):
            run(out=folder, resume=True)
        run(out=folder)
    elif json.loads((folder / "run.json").read_text("utf-8"))["finished"]:
        with pytest.raises(FedtideError, match="has finished"):
            run(out=folder, resume=True)
    else:
        run(out=folder, resume=True)


def test_killed_at_every_step(run, whole, tmp_path):
    for step in itertools.count(1):
        folder = tmp_path / str(step)
        try:
            run_and_kill(run, folder, step)
            break
        except Killed:
            assert (folder / "fedtide.lock").exists()  # as a kill leaves it: nothing was tidied up
            go_on(run, folder)
            check_same(folder, whole)
    assert step > 50  # 21 files, each with the folder it is written in, and the removal of 17
    check_same(folder, whole)


def test_killed_twice(run, whole, tmp_path):
    for step, resume in ((9, False), (20, True)):
        with pytest.raises(Killed):
            run_and_kill(run, tmp_path / "a", step, resume=resume)
    go_on(run, tmp_path / "a")
    check_same(tmp_path / "a", whole)


@pytest.fixture
def interrupted(run, tmp_path):
    """Stopped after the first method."""

    def stop(label, done, total):
        if label == "Unbiased":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(out=tmp_path / "run", progress=stop)
    return tmp_path / "run"


@pytest.mark.parametrize("resume", [False, True])
def test_one_at_a_time(run, whole, interrupted, tmp_path, resume):
    """Whether it begins or goes on, a run keeps others out of its folder, those of its own process as well."""
    folder = interrupted if resume else tmp_path / "new-run"
    seen = []

    def enter(label, done, total):
        if not seen:
            files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
            with pytest.raises(FedtideError, match=r"run: another run is using it \(PID \d+ on .+ since 2"):
                run(out=folder, resume=True)
            assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == files
            seen.append(label)

    run(out=folder, resume=resume, progress=enter)
    assert seen == ["FedAvg"]
    check_same(folder, whole)


def tampered(run, folder, file, change):
    """Runs, and changes the first method's piece of records when the second has ended; its digest is not looked at."""
    path = folder / "checkpoints" / "000" / file

    def tamper(label, done, total):
        if (label, done) == ("Unbiased", 60):
            change(pl.read_parquet(path)).write_parquet(path)

    with pytest.raises(CheckpointError) as error:
        run(out=folder, progress=tamper)
    return str(error.value).removeprefix(f"{folder / 'checkpoints' / '000'}").lstrip("/")


def first_client_twice(frame):
    return frame.with_columns(pl.when(pl.col("client") == 1).then(0).otherwise(pl.col("client")).alias("client"))


@pytest.mark.parametrize(
    ("file", "change", "rounds"),
    [
        ("rounds-00000060.parquet", lambda f: f.filter(pl.col("round") != 45), "31 to 60"),
        ("rounds-00000060.parquet", lambda f: f.filter(pl.col("seed") == 4), "31 to 60"),
        ("clients-00000060.parquet", lambda f: f[:-1], "31 to 60"),
        ("clients-00000060.parquet", first_client_twice, "31 to 60"),
        ("rounds-00000000.parquet", lambda f: pl.concat([f, f]), "0 to 0"),
        ("rounds-00000030.parquet", lambda f: f.with_columns(pl.lit("Z").alias("method")), "1 to 30"),
    ],
    ids=["round", "seed", "row", "client", "twice", "method"],
)
def test_a_run_with_gaps_does_not_close(run, tmp_path, file, change, rounds):
    folder = tmp_path / "run"
    message = tampered(run, folder, file, change)
    assert message == f"{file}: not the records of rounds {rounds}; the checkpoints are kept"
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoints", "run.json"]
    assert len(list(folder.rglob("*.parquet"))) == 10


@pytest.mark.parametrize(("files", "following"), [("*", 0), ("rounds-00000060.parquet", 31)])
def test_missing_pieces_are_named(run, tmp_path, files, following):
    def lose(label, done, total):
        if (label, done) == ("Unbiased", 60):
            for file in (tmp_path / "run" / "checkpoints" / "000").glob(files):
                file.unlink()

    with pytest.raises(CheckpointError, match=rf"000: rounds of FedAvg end before round {following} of 60; the check"):
        run(out=tmp_path / "run", progress=lose)


def test_a_result_is_not_saved_into_a_running_folder(run, whole, tmp_path):
    folder, result = tmp_path / "run", fedtide.Result.load(whole)

    def save(label, done, total):
        with pytest.raises(FedtideError, match="run: a run is using it"):
            result.save(folder)

    run(out=folder, progress=save)
    check_same(folder, whole)


def test_cleaning_up_leaves_a_report_alone(run, whole, tmp_path):
    shutil.copytree(whole, tmp_path / "run")
    with atomic(tmp_path / "run" / "report.html") as report:
        report.write_text("half")
        with pytest.raises(FedtideError, match="has finished"):
            run(out=tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "report.html").read_text() == "half"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chunks": None}, "damaged (chunks = None: must be one for each method)"),
        ({"chunks": {"FedAvg": 1}}, "damaged (chunks = {'FedAvg': 1}: must be one for each method)"),
        ({"chunks": {"FedAvg": 0, "Unbiased": None}}, "damaged (chunks.FedAvg = 0: must be a whole number, 1 or more)"),
        ({"seconds": "3"}, "damaged (seconds = '3': must be a finite number, 0 or more)"),
        ({"seconds": -1.0}, "damaged (seconds = -1.0: must be 0 or more)"),
        ({"finished": "no"}, "not the description of a run"),
    ],
)
def test_a_changed_description_is_refused(run, interrupted, change, message):
    path = interrupted / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | change), "utf-8")
    with pytest.raises(CheckpointError) as error:
        run(out=interrupted, resume=True)
    assert str(error.value) == f"{path}: {message}"


def test_another_chunk_is_another_run(run, interrupted):
    """It moves the last bits."""
    path = interrupted / "run.json"
    about = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(about | {"chunks": {"FedAvg": 1, "Unbiased": None}}), "utf-8")
    with pytest.raises(CheckpointError, match="belongs to another run"):
        run(out=interrupted, resume=True)


def test_tables_of_an_unfinished_run_are_not_a_result(interrupted, whole):
    """Killed between the tables and the word that it has finished."""
    for name in ("rounds.parquet", "clients.parquet", "models.safetensors"):
        shutil.copy(whole / name, interrupted)
    with pytest.raises(FedtideError, match="has not finished"):
        fedtide.Result.load(interrupted)


def test_what_is_per_client_is_not_in_the_description(run, whole):
    """`run.json` stays small for any number of clients; the loaded result has it all."""
    written = json.loads((whole / "run.json").read_text("utf-8"))
    assert written["availability"] == {"name": "Bernoulli"}
    assert isinstance(written["importance"], str)
    table = pl.read_parquet(whole / "population.parquet")
    assert table.columns == ["client", "importance", "availability", "correlation", "class"]
    assert table["availability"].to_list() == [0.9, 0.9, 0.3, 0.3]
    loaded, ran = fedtide.Result.load(whole).about, run().about
    assert loaded | {"seconds": 0} == ran | {"seconds": 0}


def test_a_folder_of_an_earlier_version_is_still_read(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "run")
    about = fedtide.Result.load(whole).about
    (tmp_path / "run" / "run.json").write_text(json.dumps(about), "utf-8")
    (tmp_path / "run" / "population.parquet").unlink()
    assert fedtide.Result.load(tmp_path / "run").about == about


def test_another_importance_is_another_run(interrupted):
    problem, availability = (
        random_quadratic(clients=CLIENTS, dimension=2, importance=[1, 2, 3, 4]),
        Bernoulli([0.9, 0.9, 0.3, 0.3]),
    )
    with pytest.raises(CheckpointError, match="run: belongs to another run: the importance of its clients differs"):
        simulate(problem, availability, METHODS, **OPTIONS, out=interrupted, resume=True)
