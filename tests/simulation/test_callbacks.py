"""Callbacks get metrics after every segment and may end a method's training cleanly, also across interruptions."""

import json
import shutil

import numpy as np
import polars as pl
import pytest

import fedtide
from fedtide import early_stopping
from fedtide.availability import Bernoulli
from fedtide.clock import Clock, Devices
from fedtide.errors import CheckpointError, FedtideError, InvalidInput
from fedtide.methods import fedavg, unbiased
from fedtide.problems import random_quadratic
from fedtide.simulation import Metrics, simulate
from fedtide.simulation.blocks import Sharing, write_sharing

METHODS = {"FedAvg": fedavg(rate=0.01), "Unbiased": unbiased(rate=0.02)}
OPTIONS = {"rounds": 90, "seeds": [4, 1], "evaluate_every": 30}  # segments end at 30, 60 and 90
CLIENTS = 4


@pytest.fixture(scope="module")
def run():
    problem, fleet = random_quadratic(clients=CLIENTS, dimension=2), Bernoulli([0.9, 0.9, 0.3, 0.3])
    return lambda **options: simulate(problem, fleet, METHODS, **(OPTIONS | options))


@pytest.fixture(scope="module")
def whole(run):
    return run()


def stop(label, at):
    return lambda metrics: metrics.label == label and metrics.done >= at


def test_metrics_are_the_records(run, whole):
    heard: list[Metrics] = []
    assert run(callbacks=heard.append).rounds.equals(whole.rounds)
    assert [(m.label, m.done, m.total) for m in heard] == [(n, t, 90) for n in METHODS for t in (30, 60, 90)]
    own = whole.rounds.filter(method="Unbiased")
    assert heard[4].rounds.equals(own.filter(pl.col("round").is_between(31, 60)))
    assert heard[4].clients.equals(whole.clients.filter(pl.col("round").is_between(31, 60), method="Unbiased"))
    assert heard[4].evaluations["round"].unique().to_list() == [0, 30, 60]
    assert (
        heard[5]
        .evaluations.sort("seed", "round")
        .equals(own.filter(pl.col("objective").is_not_null()).sort("seed", "round"))
    )
    assert heard[0].about["seeds"] == [4, 1]
    assert run(record_clients=False, callbacks=[heard.append]).clients.is_empty()
    assert heard[-1].clients.is_empty()


def test_a_callback_ends_one_method_cleanly(run, whole, tmp_path):
    for folder in (None, tmp_path / "run"):
        found = run(callbacks=stop("FedAvg", 60), out=folder)
        assert found.about["stopped"] == {"FedAvg": 60}
        last = {"FedAvg": 60, "Unbiased": 90}
        for label, end in last.items():
            kept = whole.rounds.filter(pl.col("round") <= end, method=label)
            assert found.rounds.filter(method=label).equals(kept)
            active, _ = found.attendance(label)
            assert active.shape == (2, end, CLIENTS)
            np.testing.assert_array_equal(active, whole.attendance(label)[0][:, :end])
        assert found.summary()["round"].to_list() == [60, 90]
    assert found.models["FedAvg"].tolist() == run(rounds=60).models["FedAvg"].tolist()
    page = found.report(tmp_path / "page.html").read_text("utf-8")
    assert "Methods ran for different numbers of rounds: their last evaluations are at rounds 60, 90." in page
    assert fedtide.Result.load(tmp_path / "run").rounds.equals(found.rounds)


@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize("where", [("FedAvg", 30), ("FedAvg", 60), ("Unbiased", 0), ("Unbiased", 60)])
def test_a_resumed_run_stops_where_it_would_have(run, tmp_path, where, again):
    """With the callback; without it, a method that has already been ended remains so."""

    def interrupt(label, done, total):
        if (label, done) == where:
            raise KeyboardInterrupt

    callback = stop("FedAvg", 60)
    with pytest.raises(KeyboardInterrupt):
        run(out=tmp_path / "run", callbacks=callback, progress=interrupt)
    heard: list[Metrics] = []
    callbacks = [callback, heard.append] if again else ()
    found = run(out=tmp_path / "run", callbacks=callbacks, resume=True)
    expected = 60 if again or where[0] == "Unbiased" else 90
    assert found.rounds.filter(method="FedAvg")["round"].max() == expected
    if again:
        first = heard[0]
        assert first.evaluations["round"].max() == first.done == (where[1] if where[0] == "FedAvg" else 60)
        assert first.rounds.is_empty()
        assert first.rounds.columns == found.rounds.columns
        assert found.rounds.equals(run(callbacks=callback).rounds)


def test_a_run_with_a_clock_stops_and_resumes_as_well(run, tmp_path):
    def interrupt(label, done, total):
        if (label, done) == ("FedAvg", 30):
            raise KeyboardInterrupt

    options = {"clock": Clock(Devices()), "callbacks": stop("FedAvg", 60)}
    whole = run(**options)
    with pytest.raises(KeyboardInterrupt):
        run(out=tmp_path / "run", progress=interrupt, **options)
    found = run(out=tmp_path / "run", resume=True, **options)
    assert found.about["stopped"] == {"FedAvg": 60}
    assert found.rounds.equals(whole.rounds)
    assert found.clients.equals(whole.clients)


def test_all_callbacks_are_called_and_entered(run):
    class Tracker:
        def __init__(self):
            self.events = []

        def __enter__(self):
            self.events.append("begin")

        def __call__(self, metrics):
            self.events.append(metrics.done)

        def __exit__(self, kind, *rest):
            self.events.append(kind)

    trackers = Tracker(), Tracker()
    run(callbacks=[lambda metrics: np.True_, *trackers])
    assert [tracker.events for tracker in trackers] == [["begin", 30, 30, None]] * 2

    def fail(metrics):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(callbacks=[trackers[0], fail])
    assert trackers[0].events[-1] is ZeroDivisionError


def test_what_is_no_callback_is_refused(run):
    with pytest.raises(InvalidInput, match=r"^callbacks\[1\] = 3: must be a function of fedtide\.simulation\.Metrics$"):
        run(callbacks=[print, 3])
    with pytest.raises(InvalidInput, match=r"^callbacks = None: must be a function of .*, or several$"):
        run(callbacks=None)
    with pytest.raises(InvalidInput, match=r"^callbacks\[0\]\(…\) = 60: must be True \(end .*\), False or None$"):
        run(callbacks=lambda metrics: metrics.total - metrics.done)


def test_a_damaged_description_is_refused(run, tmp_path):
    def interrupt(label, done, total):
        if label == "Unbiased":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(out=tmp_path / "run", progress=interrupt)
    path = tmp_path / "run" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"stopped": {"FedAvg": 0}}), "utf-8")
    with pytest.raises(CheckpointError, match=r"damaged \(stopped\.FedAvg = 0: must be"):
        run(out=tmp_path / "run", resume=True)
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"stopped": {}}), "utf-8")
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    write_sharing(tmp_path / "run", Sharing(1))
    with pytest.raises(FedtideError, match="divided into blocks; resume it without callbacks"):
        run(out=tmp_path / "run", resume=True, callbacks=print)


def metrics_of(name, values):
    """Two seeds whose mean are the values, every ten rounds."""
    rounds = [10 * i for i in range(len(values)) for _ in range(2)]
    columns = {"test_accuracy": [None] * len(rounds), "objective": [1.0] * len(rounds)}
    columns |= {name: [x + d for x in values for d in (-0.5, 0.5)]}
    table = pl.DataFrame({"round": rounds, **columns}, schema_overrides=dict.fromkeys(columns, pl.Float64))
    return Metrics("m", rounds[-1], 100, table, table.clear(), table.clear(), {})


@pytest.mark.parametrize(
    ("options", "name", "values", "stops"),
    [
        ({}, "objective", [3, 2, 1], False),
        ({}, "objective", [3, 1, 2], False),
        ({}, "objective", [3, 1, 2, 1], True),  # 20 rounds without a smaller one
        ({"margin": 0.5}, "objective", [3, 1, 0.6, 0.5], True),
        ({"margin": 0.5}, "objective", [3, 1, 0.6, 0.4], False),
        ({}, "test_accuracy", [0.3, 0.5, 0.4, 0.5], True),
        ({}, "test_accuracy", [0.3, 0.5, 0.4, 0.6], False),
        ({"measure": "tail_loss"}, "tail_loss", [3, 1, 2, 1], True),
        ({"measure": "worst_decile"}, "worst_decile", [1, 2, 3], False),
        ({}, "objective", [3, np.nan, np.nan], True),
    ],
)
def test_early_stopping(options, name, values, stops):
    assert early_stopping(patience=20, **options)(metrics_of(name, values)) == stops


def test_early_stopping_in_a_run(run):
    found = run(rounds=600, callbacks=early_stopping(patience=60, margin=1e-6))
    assert 60 < found.about["stopped"]["Unbiased"] < 600
    with pytest.raises(InvalidInput, match=r"^measure = 'loss': must be one of objective, "):
        early_stopping(10, "loss")
    with pytest.raises(InvalidInput, match=r"^patience = 0: must be a whole number"):
        early_stopping(0)
