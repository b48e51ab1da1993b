"""The sentence claims what the numbers show, no more."""

import numpy as np
import polars as pl

from fedtide.cli.sentence import sentence


def rounds(finals: dict[str, list[float]], column: str = "test_accuracy") -> pl.DataFrame:
    """A run of 10 rounds: for each method, the final value of each seed."""
    rows = [
        {
            "method": method,
            "seed": seed,
            "round": t,
            "objective": 1.0,
            "test_accuracy": None,
            column: value if t else 0.1,
        }
        for method, values in finals.items()
        for seed, value in enumerate(values)
        for t in (0, 10)
    ]
    empty = pl.lit(None, pl.Float32)
    return pl.DataFrame(rows, infer_schema_length=None).with_columns(
        pl.col("test_accuracy").cast(pl.Float32), empty.alias("test_loss"), empty.alias("worst_decile")
    )


NOISE = np.random.default_rng(0).normal(0, 0.01, 10)
SEEN = "methods met the same 6 clients coming and going for 10 rounds: "


def test_a_clear_winner():
    text = sentence(rounds({"A": list(0.70 + NOISE), "B": list(0.65 + NOISE), "C": list(0.60 + NOISE)}), 6)
    assert text == (
        f"3 {SEEN}A ends with the highest test accuracy, {100 * (0.7 + NOISE.mean()):.1f}%, "
        "and clearly so over 10 seeds: B and C end 5.00 to 10.00 points behind."
    )


def test_what_cannot_be_told_apart_is_said():
    text = sentence(rounds({"A": list(0.70 + NOISE), "B": list(0.70 + NOISE[::-1] - 1e-4), "C": list(0.60 + NOISE)}), 6)
    assert text.endswith("but B cannot be told from it over 10 seeds; C ends 10.00 points behind.")


def test_nothing_but_noise():
    text = sentence(rounds({"A": list(0.70 + NOISE), "B": list(0.70 + NOISE[::-1] - 1e-4)}), 6)
    assert text.endswith("over 10 seeds no other method is clearly behind it: the differences are within the noise.")


def test_one_seed_shows_no_difference():
    text = sentence(rounds({"A": [0.5], "B": [0.7]}), 6)
    assert text == (
        f"2 {SEEN}B ends with the highest test accuracy, 70.0%, "
        "but with one seed no difference can be told from chance."
    )


def test_one_method():
    assert sentence(rounds({"A": [0.5, 0.5]}), 6) == f"1 {SEEN}A ends with test accuracy 50.0%.".replace(
        "methods", "method"
    )


def test_objectives_are_better_when_lower():
    text = sentence(rounds({"A": list(0.70 + NOISE), "B": list(0.60 + NOISE)}, "objective"), 6)
    assert "B ends with the lowest objective, 0.6" in text
    assert text.endswith("A ends 0.1 behind.")


def test_all_diverged():
    text = sentence(rounds({"A": [float("nan")] * 2, "B": [float("inf")] * 2}, "objective"), 6)
    assert text == f"2 {SEEN}none finished, as every seed diverged."


def test_who_diverged_is_said():
    finals = {"A": [0.7, 0.7], "B": [float("nan"), 0.6], "C": [float("inf")] * 2, "D": [float("nan")] * 2}
    text = sentence(rounds(finals, "objective"), 6)
    assert text.endswith("; B diverged on 1 of 2 seeds; C and D diverged on every seed.")
