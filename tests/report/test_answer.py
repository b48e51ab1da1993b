import polars as pl
import pytest

from fedtide.report.answer import answer, excluded_shares
from fedtide.report.classes import class_accuracy
from fedtide.report.clients import fleet
from fedtide.summaries import per_seed, summary
from fedtide.text import change, clean, percent, settings, short, value


def stated(rounds: pl.DataFrame, baseline: str | None = None) -> str:
    return str(answer(summary(rounds, None, baseline), per_seed(rounds)))


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
    text = stated(ending(two, "X", [0.02, 0.03, 0.02, 0.03]))
    assert "<strong>X</strong> has the highest test accuracy: " in text
    assert "2.50 points above the baseline, FedAvg (95% interval +2.00 to +3.00)" in text
    assert "significantly" not in text


def test_an_interval_with_zero_is_not_significant(make):
    two = make(methods=("FedAvg", "X"), seeds=4).rounds
    assert "not significantly different from the baseline, FedAvg (+1.00 points; 95% interval" in stated(
        ending(two, "X", [0.05, -0.03, 0.04, -0.02])
    )


def test_a_best_baseline_is_compared_with_the_runner_up(make):
    two = make(methods=("FedAvg", "X"), seeds=4).rounds
    text = stated(ending(two, "X", [-0.02, -0.03, -0.02, -0.03]))
    assert "<strong>FedAvg</strong> has the highest test accuracy: " in text
    assert "2.50 points above the runner-up, X" in text


def test_equal_methods_are_called_equal(make):
    two = make(methods=("FedAvg", "X"), seeds=3).rounds
    assert "It is equal to the runner-up, X." in stated(ending(two, "X", [0.0, 0.0, 0.0]))


def test_one_seed_claims_no_interval(make):
    text = stated(make(methods=("FedAvg", "CA-Fed"), seeds=1).rounds)
    assert "interval" not in text.replace("One seed gives no interval: differences may be due to chance.", "")
    assert "One seed gives no interval: differences may be due to chance." in text


def test_the_objective_is_better_when_lower(make):
    rounds = make(methods=("FedAvg", "CA-Fed"), seeds=3, accuracy=False).rounds
    text = stated(rounds)
    assert "<strong>CA-Fed</strong> has the lowest objective: " in text
    assert "below the baseline, FedAvg" in text
    assert "accuracy" not in text


def test_every_method_that_is_not_significantly_different_is_named(make):
    rounds = make(methods=("FedAvg", "X", "Y", "Z"), seeds=4).rounds
    gains = {"X": [0.2, 0.3, 0.2, 0.3], "Y": [0.19, 0.3, 0.2, 0.3], "Z": [0.3, 0.18, 0.31, 0.17]}
    for method, own in gains.items():
        rounds = ending(rounds, method, own)
    text = stated(rounds)
    assert "<strong>X</strong> has the highest" in text
    assert "not significantly different from the runner-up, Y (" in text
    assert "Not significantly different from it: Z." in text


def test_a_single_method_is_compared_with_none(make):
    text = stated(make(methods=("FedAvg",), seeds=2).rounds)
    assert text.startswith("<strong>FedAvg</strong> reaches a test accuracy of ")
    assert "different" not in text


def test_who_is_served_worst(small):
    order = fleet(small.clients, small.about)
    by_kind = class_accuracy(small.clients, order)
    text = str(answer(summary(small.rounds), per_seed(small.rounds), by_kind, order))
    low = by_kind.filter(method="CA-Fed").group_by("kind").agg(pl.col("accuracy").mean()).sort("accuracy").row(0)
    name = order.names[low[0]].replace(" = ", "\u00a0=\u00a0")
    assert f"It serves clients of class “{name}” worst: {percent(low[1])} on average" in text


def test_diverged_seeds_are_reported(make):
    rounds = make(methods=("FedAvg", "CA-Fed"), seeds=2).rounds
    bad = (pl.col("method") == "FedAvg") & (pl.col("seed") == 1) & pl.col("objective").is_not_null()
    lost = pl.when(bad).then(pl.lit(float("nan"))).otherwise(pl.col("objective")).alias("objective")
    assert "1 of 2 seeds of FedAvg diverged and are excluded." in stated(rounds.with_columns(lost))
    everything = rounds.with_columns(pl.lit(float("inf")).alias("objective"))
    assert stated(everything) == "No method finished: every seed diverged."


def counted(available: list[int], invited: list[int]) -> pl.DataFrame:
    return pl.DataFrame({"method": ["CA-Fed"] * len(available), "available": available, "invited": invited})


@pytest.mark.parametrize(
    ("invited", "wanted"),
    [
        ([10, 0, 30], "CA-Fed excluded nobody: it invited every available client in every round, as Unbiased does."),
        ([10, 0, 29], "CA-Fed excluded 2.5% of the available clients, over all rounds."),
    ],
)
def test_it_says_whom_a_correlation_aware_method_excluded(make, invited, wanted):
    two = make(methods=("FedAvg", "CA-Fed"), seeds=4).rounds
    about = {"methods": [{"label": "CA-Fed", "settings": {"participation": "CorrelationAware"}}]}
    excluded = excluded_shares(counted([10, 0, 30], invited), about)
    assert wanted in str(answer(summary(two, None), per_seed(two), excluded=excluded))


def test_nothing_is_said_of_methods_that_exclude_nobody_by_design():
    """A sample of the invited, for instance, leaves out clients for another reason."""
    about = {"methods": [{"label": "CA-Fed", "settings": {"participation": "Subsample"}}, {"label": "FedAvg"}]}
    assert excluded_shares(counted([10], [3]), about) == {}
