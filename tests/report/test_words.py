import polars as pl

from fedtide.report.clients import fleet
from fedtide.report.figures import class_accuracy
from fedtide.report.statistics import per_seed, summary
from fedtide.report.words import answer, change, clean, percent, settings, short, value


def told(rounds: pl.DataFrame, baseline: str | None = None) -> str:
    return str(answer(summary(rounds, None, baseline), per_seed(rounds), None, None))


def ending(rounds: pl.DataFrame, method: str, gains: list[float]) -> pl.DataFrame:
    """The rounds with a method's accuracy replaced by FedAvg's plus a gain for each seed."""
    base = rounds.filter(method="FedAvg").with_columns(
        pl.lit(method).alias("method"),
        (pl.col("test_accuracy").cast(pl.Float64) + pl.col("seed").replace_strict(dict(enumerate(gains)))).alias(
            "test_accuracy"
        ),
    )
    kept = rounds.filter(pl.col("method") != method).with_columns(pl.col("test_accuracy").cast(pl.Float64))
    return pl.concat([kept, base])


def test_numbers_as_text():
    assert (percent(0.78912), percent(0.5, 0), percent(None)) == ("78.9%", "50%", "–")
    assert (value("objective", 0.553), value("objective", 1234.2), value("accuracy", 0.5)) == (
        "0.5530",
        "1234",
        "50.0%",
    )
    assert (change("accuracy", 0.0123), change("accuracy", -0.2), change("accuracy", -1e-9)) == (
        "+1.23",
        "−20.00",
        "0.00",
    )
    assert change("objective", -0.01234) == "−0.0123"
    assert (clean("a\x00\n b"), short("a long name, variant 2", 12)) == ("a b", "a long n…t 2")


def test_settings_without_an_owner_stand_for_themselves():
    assert settings({"a.b": True, "c": 0.25}) == [("a.b", "yes"), ("c", "0.25")]


def test_nothing_replaced_is_not_shown():
    assert settings({"c": 0.25, "replaced": "()"}) == [("c", "0.25")]
    assert settings({"replaced": "('Proximal',)"}) == [("replaced", "('Proximal',)")]


def test_a_clear_difference_is_stated_with_its_interval(make):
    two = make(methods=("FedAvg", "X"), seeds=4).rounds
    text = told(ending(two, "X", [0.02, 0.03, 0.02, 0.03]))
    assert "<strong>X</strong> ends best" in text
    assert "2.50 points above the baseline, FedAvg (95% interval +2.00 to +3.00)" in text
    assert "no clear difference" not in text


def test_an_interval_with_zero_is_no_clear_difference(make):
    two = make(methods=("FedAvg", "X"), seeds=4).rounds
    assert "no clear difference to the baseline, FedAvg (+1.00 points" in told(
        ending(two, "X", [0.05, -0.03, 0.04, -0.02])
    )


def test_a_best_baseline_is_compared_with_the_runner_up(make):
    two = make(methods=("FedAvg", "X"), seeds=4).rounds
    text = told(ending(two, "X", [-0.02, -0.03, -0.02, -0.03]))
    assert "<strong>FedAvg</strong> ends best" in text
    assert "2.50 points above the runner-up, X" in text


def test_equal_methods_are_called_equal(make):
    two = make(methods=("FedAvg", "X"), seeds=3).rounds
    assert "exactly where the runner-up, X, does" in told(ending(two, "X", [0.0, 0.0, 0.0]))


def test_one_seed_claims_no_interval(make):
    text = told(make(methods=("FedAvg", "CA-Fed"), seeds=1).rounds)
    assert "interval" not in text.replace("One seed gives no interval.", "")
    assert "One seed gives no interval." in text


def test_the_objective_is_better_when_lower(make):
    rounds = make(methods=("FedAvg", "CA-Fed"), seeds=3, accuracy=False).rounds
    text = told(rounds)
    assert "<strong>CA-Fed</strong> ends best" in text
    assert "below the baseline, FedAvg" in text
    assert "accuracy" not in text


def test_who_is_served_worst(small):
    order = fleet(small.clients, small.about)
    by_kind = class_accuracy(small.clients, order)
    text = str(answer(summary(small.rounds), per_seed(small.rounds), by_kind, order))
    low = by_kind.filter(method="CA-Fed").group_by("kind").agg(pl.col("accuracy").mean()).sort("accuracy").row(0)
    name = order.names[low[0]].replace(" = ", "\u00a0=\u00a0")
    assert f"the clients of class “{name}”: {percent(low[1])} on average" in text


def test_diverged_seeds_are_said(make):
    rounds = make(methods=("FedAvg", "CA-Fed"), seeds=2).rounds
    bad = (pl.col("method") == "FedAvg") & (pl.col("seed") == 1) & pl.col("objective").is_not_null()
    lost = pl.when(bad).then(pl.lit(float("nan"))).otherwise(pl.col("objective")).alias("objective")
    assert "1 of 2 seeds of FedAvg diverged" in told(rounds.with_columns(lost))
    everything = rounds.with_columns(pl.lit(float("inf")).alias("objective"))
    assert told(everything) == "No method finished: every seed diverged."
