import math
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtide.errors import FedtideError
from fedtide.report import summary
from fedtide.statistics import interval
from fedtide.summaries import paired, per_seed, worst_decile


def table(
    values: Mapping[str, Sequence[Sequence[float | None]]],
    objective: Mapping[str, Sequence[Sequence[float]]] | None = None,
) -> pl.DataFrame:
    """A rounds table from {method: [seed: [accuracy at round 0, 1, …]]}; the objective is 1 − accuracy unless given."""
    rows = []
    for method, seeds in values.items():
        for seed, curve in enumerate(seeds):
            for t, accuracy in enumerate(curve):
                goal = 1 - (accuracy or 0) if objective is None else objective[method][seed][t]
                rows.append((method, seed, t, goal, accuracy, None if accuracy is None else accuracy / 2))
    schema = ["method", "seed", "round", "objective", "test_accuracy", "worst_decile"]
    frame = pl.DataFrame(rows, schema=schema, orient="row").with_columns(test_loss=pl.col("objective"))
    return frame.cast(dict.fromkeys(("objective", "test_accuracy", "worst_decile", "test_loss"), pl.Float64))


def test_hand_worked_means_and_paired_differences():
    found = summary(table({"a": [[0.0, 0.4, 0.6], [0.0, 0.5, 0.7]], "b": [[0.0, 0.5, 0.8], [0.0, 0.6, 0.8]]}))
    a, b = found.iter_rows(named=True)
    assert a["final"] == pytest.approx(0.65)
    assert a["average"] == pytest.approx((0.5 + 0.6) / 2)  # round 0 does not count
    assert a["worst_decile"] == pytest.approx(0.325)
    assert a["objective"] == pytest.approx(0.35)
    assert (a["baseline"], b["baseline"]) == (True, False)
    assert (b["seeds"], b["diverged"], b["round"], b["metric"]) == (2, 0, 2, "accuracy")
    assert b["difference"] == pytest.approx((0.2 + 0.1) / 2)
    assert b["average_difference"] == pytest.approx((0.15 + 0.1) / 2)
    # Of two seeds every resample mean is one of the differences or their mean: the interval ends at the differences.
    assert (b["difference_low"], b["difference_high"]) == pytest.approx((0.1, 0.2))


def test_the_baseline_differs_from_itself_by_nothing():
    row = summary(table({"a": [[0.1, 0.3], [0.1, 0.9]], "b": [[0.1, 0.2], [0.1, 0.3]]})).row(0, named=True)
    assert [row[f"difference{end}"] for end in ("", "_low", "_high")] == [0, 0, 0]
    assert row["final_low"] < row["final_high"]


def test_a_chosen_baseline_turns_the_sign():
    rounds = table({"a": [[0.1, 0.3], [0.1, 0.4]], "b": [[0.1, 0.2], [0.1, 0.35]]})
    forth, back = summary(rounds), summary(rounds, baseline="b")
    assert forth["difference"][1] == pytest.approx(-back["difference"][0])
    assert back["baseline"].to_list() == [False, True]


def test_an_unknown_baseline_is_named():
    rounds = table({"fedavg": [[0.1, 0.3]]})
    with pytest.raises(FedtideError, match=r"baseline = 'fedavgg'.*did you mean 'fedavg'"):
        summary(rounds, baseline="fedavgg")
    with pytest.raises(FedtideError, match="empty"):
        summary(rounds.clear())


def test_one_seed_has_no_interval():
    row = summary(table({"a": [[0.1, 0.3]], "b": [[0.1, 0.5]]})).row(1, named=True)
    assert row["difference"] == pytest.approx(0.2)
    assert row["difference_low"] is None
    assert row["final_high"] is None


def test_a_constant_difference_has_an_interval_of_no_width():
    rounds = table({"a": [[0.0, 0.1 * s] for s in range(1, 5)], "b": [[0.0, 0.1 * s + 0.05] for s in range(1, 5)]})
    row = summary(rounds).row(1, named=True)
    assert row["difference_low"] == row["difference_high"] == row["difference"] == pytest.approx(0.05)
    assert row["final_low"] < row["final_high"]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_diverged_seeds_leave_pairwise_and_are_counted(bad):
    accuracy = {"a": [[0.1, 0.5], [0.1, 0.6], [0.1, 0.9]], "b": [[0.1, 0.7], [0.1, 0.1], [0.1, 0.8]]}
    goal = {"a": [[1, 0.5], [1, 0.4], [1, bad]], "b": [[1, 0.3], [1, bad], [1, 0.2]]}
    a, b = summary(table(accuracy, goal)).iter_rows(named=True)
    assert (a["seeds"], a["diverged"], b["seeds"], b["diverged"]) == (2, 1, 2, 1)
    assert a["final"] == pytest.approx(0.55)
    assert b["final"] == pytest.approx(0.75)
    assert b["difference"] == pytest.approx(0.2)  # seed 0 alone is finished by both
    assert b["difference_low"] is None
    assert b["objective"] == pytest.approx(0.25)


def test_a_run_that_diverged_on_the_way_is_out_even_if_it_came_back():
    found = summary(table({"a": [[0.1, 0.2, 0.5], [0.1, 0.2, 0.4]]}, {"a": [[1, math.inf, 0.5], [1, 0.8, 0.6]]}))
    assert found.select("seeds", "diverged", "final").row(0) == (1, 1, pytest.approx(0.4))


def test_a_method_that_always_diverges_has_no_numbers():
    nan = math.nan
    found = summary(table({"a": [[0.1, 0.5]], "b": [[0.1, 0.1]]}, {"a": [[1, 0.5]], "b": [[1, nan]]}))
    assert found.filter(method="b").select("final", "difference", "average", "objective").row(0) == (None,) * 4


@pytest.mark.parametrize("missing", [None, math.nan])
def test_without_accuracy_the_objective_is_the_metric(missing):
    accuracy = {"a": [[missing] * 3] * 2, "b": [[missing] * 3] * 2}
    goal = {"a": [[9, 4, 2], [9, 3, 1]], "b": [[9, 2, 1], [9, 2, 0.5]]}
    a, b = summary(table(accuracy, goal)).iter_rows(named=True)
    assert a["metric"] == "objective"
    assert (a["final"], a["average"], a["worst_decile"]) == (1.5, 2.5, None)
    assert b["difference"] == pytest.approx(-0.75)


def test_rounds_that_were_not_evaluated_do_not_count():
    rounds = table({"a": [[0.1, 0.2, 0.4]]})
    gap = rounds.tail(1).with_columns(
        pl.lit(3).cast(pl.Int64).alias("round"),
        *(pl.lit(None, pl.Float64).alias(c) for c in ("objective", "test_loss", "test_accuracy", "worst_decile")),
    )
    assert summary(pl.concat([rounds, gap])).equals(summary(rounds))


def test_the_worst_decile_comes_from_the_clients_where_the_rounds_lack_it():
    rounds = table({"a": [[0.1, 0.5]]}).with_columns(pl.lit(None, pl.Float64).alias("worst_decile"))
    clients = pl.DataFrame({"method": ["a"] * 20, "seed": [0] * 20, "round": [1] * 20, "client": range(20)})
    clients = clients.with_columns(test_accuracy=pl.col("client") / 20)
    assert worst_decile(clients)["worst_decile"].to_list() == pytest.approx([(0 + 0.05) / 2])
    assert summary(rounds, clients)["worst_decile"].to_list() == pytest.approx([0.025])
    assert summary(rounds)["worst_decile"].to_list() == [None]


def test_the_order_of_rows_does_not_matter(small):
    shuffled = small.rounds.sample(fraction=1, shuffle=True, seed=3)
    assert summary(shuffled, baseline="FedAvg").sort("method").equals(summary(small.rounds).sort("method"))


def test_pairing_removes_what_seeds_share():
    rng = np.random.default_rng(0)
    shared = rng.normal(0.5, 0.1, 10)
    rounds = table({"a": [[0.0, x] for x in shared], "b": [[0.0, x + 0.01] for x in shared + rng.normal(0, 1e-3, 10)]})
    a, b = summary(rounds).iter_rows(named=True)
    assert a["final_high"] > b["final_low"]  # the methods' own intervals overlap
    assert b["difference_low"] > 0
    assert paired(per_seed(rounds), "b", "a").low == b["difference_low"]


def test_intervals_cover():
    # 400 intervals of 10 normal values; the BCa interval of so few covers about 91 %. Fewer than 350 (87.5 %) has
    # probability below 1 % if it covers 91 %, and an interval of one standard error (68 %) never reaches 350.
    rng = np.random.default_rng(1)
    hits = 0
    for values in rng.normal(size=(400, 10)):
        found = interval(values)
        hits += found.low <= 0 <= found.high  # pyright: ignore[reportOperatorIssue, reportOptionalOperand]
    assert 350 <= hits <= 395


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=6))
def test_an_interval_lies_within_the_values(values):
    found = interval(np.array(values))
    assert found.low is not None
    assert found.high is not None
    slack = 1e-9 * max(1, *map(abs, values))
    assert min(values) - slack <= found.low <= found.high <= max(values) + slack
