"""The page of `fedtide theory`."""

import numpy as np
import pytest

from fedtide.theory import CaFed, Clients, QuadraticFamily, Training, Weighting
from fedtide.theory.page import page as theory
from fedtide.theory.page.words import answer, error, kinds, left_out
from fedtide.theory.prediction import predict_methods

CLIENTS = 8
ALPHA = np.full(CLIENTS, 1 / CLIENTS)
PI = np.where(np.arange(CLIENTS) < 4, 0.9, 0.2)
LAM = np.where(np.arange(CLIENTS) % 2, 0.9, 0.0)
KINDS = [f"π = {p}, {'persistent' if lam else 'weakly correlated'}" for p, lam in zip(PI, LAM, strict=True)]


@pytest.fixture(scope="module")
def found():
    random = np.random.default_rng(0)
    family = QuadraticFamily(
        np.linspace(0.3, 1, CLIENTS), random.normal(size=(CLIENTS, 2)) + np.where(PI < 0.5, 2, 0)[:, None]
    )
    training = Training(0.05, 1.0, 2, np.inf)
    plans = {
        "FedAvg & friends": Weighting(ALPHA, training=training),
        "Unbiased": Weighting(ALPHA / PI, training=training),
        "CA-Fed": Weighting(ALPHA / PI, ca_fed=CaFed(0.05), training=training),
        "Wild": Weighting(ALPHA, training=training._replace(server_rate=1e4)),
        "Other": Weighting(note="Not modelled."),
    }
    return predict_methods(Clients(ALPHA, PI, LAM, KINDS), plans, 300, family, np.zeros(2))


def test_the_answer_states_the_numbers(found):
    text = str(answer(found))
    assert "Of 8 clients, 4.4 are available per round on average." in text
    assert "have the longest absences, 50 rounds on average" in text
    assert "<strong>Unbiased</strong> has an unbiased limit." in text
    assert "<strong>Wild</strong> diverges: the step is too large." in text
    ends = {label: f.path.error[-1] for label, f in found.methods.items() if f.path is not None and not f.diverges}
    best = min(ends, key=lambda label: ends[label])
    assert (
        f"<strong>{best.replace('&', '&amp;')}</strong> is predicted to be nearest to the optimum, {error(ends[best])}"
        in text
    )


def test_kinds_are_ordered_and_complete(found):
    groups = kinds(found)
    assert [k.availability for k in groups] == pytest.approx([0.9, 0.9, 0.2, 0.2])
    assert sorted(np.concatenate([k.clients for k in groups])) == list(range(CLIENTS))
    assert sum(k.target for k in groups) == pytest.approx(1)
    many = found._replace(clients=found.clients._replace(kinds=[str(k) for k in range(CLIENTS)]))
    assert len(kinds(many, most=3)) == 3


def test_the_exclusions_of_ca_fed(found):
    out = int((~found.methods["CA-Fed"].exclusions.kept).sum())
    assert out > 0
    assert left_out(found, found.methods["CA-Fed"].exclusions).startswith(f"It excludes {out} client")


def test_the_page(found):
    page = theory.render(found, {"title": "A <title>", "problem": "quadratic"})
    assert "A &lt;title&gt;" in page
    assert "FedAvg &amp; friends" in page
    assert "<script" not in page
    assert page.count("<figure") == 5
    assert "Not modelled." in page
    rows = {row[0]: row for row in theory.summary(found)}
    assert rows["Wild"][3] == "diverges"
    assert rows["Other"][1:] == ("–", "–", "–", "–")


def test_numbers_as_text():
    assert [error(x) for x in (0.0, 1e-12, 0.1234, 12.6, 45678.9, -0.01, 2.5e7)] == [
        "0", "0", "0.12", "13", "45,679", "−0.01", "2.5e+07",
    ]  # fmt: skip
