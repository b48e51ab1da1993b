"""Trackers write what the records hold, read back by the trackers' own libraries, offline."""

import struct

import polars as pl
import pytest

import fedtide
from fedtide import track
from fedtide.availability import Bernoulli
from fedtide.errors import FedtideError
from fedtide.methods import fedavg, unbiased
from fedtide.problems import random_quadratic

METHODS = {"FedAvg": fedavg(rate=0.05), "a/b": unbiased(rate=0.02)}


def run(tracker):
    problem, fleet = random_quadratic(clients=3, dimension=2), Bernoulli([0.9, 0.9, 0.3])
    return fedtide.simulate(problem, fleet, METHODS, rounds=20, seeds=[5, 2], evaluate_every=10, callbacks=tracker)


def expected(result, label, seed):
    """{round: objective}"""
    table = result.rounds.filter(pl.col("objective").is_not_null(), method=label, seed=seed)
    return dict(table.select("round", "objective").iter_rows())


class Kept(track.Tracker):
    def begin(self, label, seed, settings):
        assert settings["solver.rate"] == float(METHODS[label].solver.rate)
        self.kept = {**getattr(self, "kept", {}), (label, seed): {}}
        return self.kept[label, seed]

    def log(self, run, values):
        assert not run.keys() & values.keys()
        run |= values

    def end(self, run, failed):
        run["failed"] = failed


def test_each_evaluation_is_logged_once():
    tracker = Kept()
    result = run(tracker)
    assert list(tracker.kept) == [(label, seed) for label in METHODS for seed in (5, 2)]
    for key, values in tracker.kept.items():
        assert values.pop("failed") is False
        assert {t: row["objective"] for t, row in values.items()} == expected(result, *key)
        assert "test_accuracy" not in values[20]  # there is none
        assert {"invited", "loss"} <= values[20].keys()


def test_a_run_that_fails_is_marked():
    def fail(metrics):
        raise ZeroDivisionError

    tracker = Kept()
    with pytest.raises(ZeroDivisionError):
        run([tracker, fail])
    assert tracker.kept["FedAvg", 5]["failed"] is True


@pytest.mark.parametrize("name", ["tensorboard", "mlflow", "wandb"])
def test_a_missing_library_is_named(name, monkeypatch, tmp_path):
    monkeypatch.setattr(track, "import_module", lambda name: (_ for _ in ()).throw(ModuleNotFoundError(name)))
    with pytest.raises(FedtideError, match=rf"^track\.{name}: needs pip install 'fedtide\[{name}\]'$"):
        getattr(track, name)(str(tmp_path))


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboardX", reason="needs pip install 'fedtide[tensorboard]'")
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason="needs tensorboard")
    result = run(track.tensorboard(tmp_path))
    for label, folder in (("FedAvg", "FedAvg"), ("a/b", "a-b")):
        for seed in (5, 2):
            read = events.EventAccumulator(str(tmp_path / folder / f"seed {seed}")).Reload()
            found = {event.step: event.value for event in read.Scalars("objective")}
            assert found == expected(result, label, seed)
            assert read.Tags()["tensors"] == ["settings/text_summary"]


def test_mlflow(tmp_path):
    library = pytest.importorskip("mlflow", reason="needs pip install 'fedtide[mlflow]'")
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    result = run(track.mlflow("phones", uri))
    run(track.mlflow("phones", uri))  # the same experiment
    client = library.MlflowClient(uri)
    runs = client.search_runs([client.get_experiment_by_name("phones").experiment_id], order_by=["start_time"])
    assert [r.info.run_name for r in runs] == 2 * [f"{label}, seed {seed}" for label in METHODS for seed in (5, 2)]
    assert {r.info.status for r in runs} == {"FINISHED"}
    assert runs[0].data.params["solver.rate"] == "0.05"
    for one in runs[:4]:
        found = {m.step: m.value for m in client.get_metric_history(one.info.run_id, "objective")}
        assert found == expected(result, one.data.tags["method"], int(one.data.tags["seed"]))


def stored(path):
    """The records of a file of Weights & Biases, which has the format of LevelDB's log."""
    data, place, record = path.read_bytes(), 7, b""
    while place + 7 <= len(data):
        if (rest := 32768 - place % 32768) < 7:
            place += rest
            continue
        _, size, kind = struct.unpack_from("<IHB", data, place)
        record += data[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # whole, or its last part
            yield record
            record = b""


def test_wandb(tmp_path, monkeypatch):
    library = pytest.importorskip("wandb", reason="needs pip install 'fedtide[wandb]'")
    from wandb.proto.wandb_internal_pb2 import Record

    monkeypatch.setenv("WANDB_SILENT", "true")
    result = run(track.wandb("phones", mode="offline", dir=str(tmp_path)))
    library.teardown()  # its service has then written everything
    found = {}
    for path in tmp_path.glob("wandb/offline-run-*/run-*.wandb"):
        records = [Record.FromString(record) for record in stored(path)]
        (name,) = {r.run.display_name for r in records if r.WhichOneof("record_type") == "run"}
        rows = [
            {item.key or item.nested_key[0]: float(item.value_json) for item in r.history.item}
            for r in records
            if r.WhichOneof("record_type") == "history"
        ]
        found[name] = {int(row["_step"]): row["objective"] for row in rows}
        assert [r.exit.exit_code for r in records if r.WhichOneof("record_type") == "exit"] == [0]
    assert len(found) == 4
    for label in METHODS:
        for seed in (5, 2):
            assert found[f"{label}, seed {seed}"] == pytest.approx(expected(result, label, seed))
