"""What the tables hold: where a value is null, where it is nan, and what is left without a table of clients."""

import numpy as np
import polars as pl
import pytest

import fedtide
from fedtide.availability import Trace
from fedtide.methods import fedavg
from fedtide.problems.quadratic import random_quadratic
from fedtide.work import StepsPerClient

PRESENCE = np.ones((6, 4), bool)
PRESENCE[2] = False  # nobody in round 3
PRESENCE[3, 1:] = False  # and in round 4 only client 0, who takes no step
NOTHING, MISSING = "null", "nan"


@pytest.fixture(scope="module")
def result():
    lazy = StepsPerClient(np.array([0, 1, 1, 1]))
    methods = {"fine": fedavg(0.05, work=lazy), "diverged": fedavg(1e30, work=lazy)}
    with pytest.warns(RuntimeWarning, match="diverged"):
        return fedtide.simulate(random_quadratic(clients=4), Trace(PRESENCE), methods, rounds=6, evaluate_every=2)


def kinds(values: pl.Series) -> list[str]:
    return [NOTHING if v is None else MISSING if np.isnan(v) else "number" for v in values]


def test_what_does_not_exist_is_null(result):
    """As docs/records.md says of the table of rounds, column by column."""
    fine = result.rounds.filter(method="fine").sort("round")
    for column in ("available", "invited", "weight", "step"):
        assert kinds(fine[column]) == [NOTHING] + ["number"] * 6
    assert kinds(fine["loss"]) == [NOTHING, "number", "number", NOTHING, MISSING, "number", "number"]
    evaluated = fine["round"] % 2 == 0
    assert kinds(fine["objective"]) == ["number" if e else NOTHING for e in evaluated]
    for column in ("test_loss", "test_accuracy", "worst_decile"):  # a problem without test samples
        assert kinds(fine[column]) == [MISSING if e else NOTHING for e in evaluated]
    assert kinds(fine["skew"]) == [NOTHING] * 7


def test_what_diverged_is_not_finite(result):
    lost = result.rounds.filter(method="diverged").filter(pl.col("round") > 0).sort("round")
    evaluated = lost["round"] % 2 == 0
    assert not lost["objective"].filter(evaluated).is_finite().any()
    assert lost["objective"].filter(~evaluated).is_null().all()
    assert not lost["loss"].drop_nulls()[1:].is_finite().any()


def test_a_client_without_a_step_or_a_test_has_no_value(result):
    clients = result.clients.filter(method="fine")
    took_a_step = pl.col("active") & (pl.col("client") > 0)
    assert clients.filter(took_a_step)["loss"].is_finite().all()
    assert clients.filter(~took_a_step)["loss"].is_null().all()
    assert clients["test_loss"].is_null().all()
    assert clients["test_accuracy"].is_null().all()


@pytest.fixture(scope="module", params=["in memory", "from its folder"])
def unrecorded(request, tmp_path_factory, blobs, chains):
    """A run whose table of clients is too large to keep, at a small size."""
    folder = tmp_path_factory.mktemp("run") / "run"
    result = fedtide.simulate(
        blobs, chains, {"a": fedavg(0.1), "b": fedavg(0.2)}, rounds=4, seeds=2, evaluate_every=2, record_clients=False,
        out=None if request.param == "in memory" else folder,
    )  # fmt: skip
    return result if request.param == "in memory" else fedtide.Result.load(folder)


def test_without_clients_the_numbers_are_those_with_them(unrecorded, blobs, chains):
    methods = {"a": fedavg(0.1), "b": fedavg(0.2)}
    recorded = fedtide.simulate(blobs, chains, methods, rounds=4, seeds=2, evaluate_every=2)
    assert unrecorded.rounds.equals(recorded.rounds)
    assert unrecorded.summary("b").equals(recorded.summary("b"))
    assert unrecorded.table() == recorded.table()
    assert unrecorded.clients.schema == recorded.clients.schema
    assert unrecorded.clients.height == 0


def test_without_clients_there_is_a_report_that_says_so(unrecorded, tmp_path):
    text = unrecorded.report(tmp_path / "report.html").read_text("utf-8")
    assert text.count("This run has no records by client") == 1
    assert 'id="figure-learning"' in text
    assert fedtide.Result.load(unrecorded.save(tmp_path / "saved")).table() == unrecorded.table()


def test_without_clients_attendance_says_what_to_do(unrecorded):
    with pytest.raises(fedtide.FedtideError, match=r"did not record clients; run it with record_clients=True$"):
        unrecorded.attendance("a")
