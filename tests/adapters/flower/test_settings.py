"""Settings from flat keys; what is wrong is one line with the key."""

import pytest

from fedtide.adapters.flower.exchange import Deadlines
from fedtide.adapters.flower.settings import DeadlineSettings, method_of, settings_of
from fedtide.errors import FedtideError
from fedtide.solvers import Proximal
from fedtide.work import Epochs


def test_defaults_and_hyphens():
    found = settings_of({"rounds": 7, "min-clients": 3, "deadline.least": 1, "checks.clip": 2.5, "app.mine": "x"})
    assert (found.rounds, found.min_clients, found.deadline.least, found.checks.clip) == (7, 3, 1, 2.5)
    assert found.folder.name == "run"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, "rounds: missing"),
        ({"rounds": 0}, "rounds = 0"),
        ({"rounds": 1, "round": 2}, "round: unknown; did you mean 'rounds'"),
        ({"rounds": 1, "late": "keep"}, "late = 'keep'"),
        ({"rounds": 1, "clients": "a, b, a"}, "clients = "),
        ({"rounds": 1, "run": "a/b"}, "run = 'a/b'"),
        ({"rounds": 1, "deadline.most": 1.0}, "deadline.most = 1.0"),
        ({"rounds": 1, "checks.norm": 1.0}, "checks.norm: unknown"),
        ({"rounds": 1, "deadline": 3}, "deadline = 3"),
    ],
)
def test_bad_settings_are_one_line(wrong, said):
    with pytest.raises(FedtideError) as error:
        settings_of(wrong)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_the_method_is_built_as_in_experiments():
    def build(**keys):
        return method_of(settings_of({"rounds": 1} | {k.replace("__", "."): v for k, v in keys.items()}), [1])

    method = build(method__name="fedavg", method__solver__name="proximal", method__solver__mu=0.5)
    assert isinstance(method.solver, Proximal)
    assert method.solver.mu == 0.5
    factors = {"method__schedule__name": "per_client", "method__schedule__factors": "[1.0, 0.5]"}
    assert build(method__name="fedavg", **factors).solver.schedule.factors.tolist() == [1.0, 0.5]
    with pytest.raises(FedtideError, match=r"method.schedule.factors = '\[1.0, 0.5': must be"):
        build(method__name="fedavg", **factors | {"method__schedule__factors": "[1.0, 0.5"})
    method = build(method__name="fedavg", local__epochs=2, local__batch=4)
    assert isinstance(method.solver.work, Epochs)
    with pytest.raises(FedtideError, match=r"method.rat: unknown; did you mean 'rate'"):
        build(method__name="fedavg", method__rat=1.0)
    with pytest.raises(FedtideError, match=r"method.name: missing"):
        build()


def test_deadlines_follow_what_answers_take():
    deadlines = Deadlines(DeadlineSettings(least=5, most=100, start=60))
    assert deadlines.seconds("train") == 60
    for _ in range(20):
        deadlines.observe("train", 10.0, 60.0)
    assert deadlines.seconds("train") == 20
    assert deadlines.seconds("hello") == 60  # another kind of question
    assert deadlines.warn("train") is None
    for _ in range(20):
        deadlines.observe("train", 90.0, 20.0)
    assert deadlines.seconds("train") == 100
    assert "raise deadline.most" in str(deadlines.warn("train"))
    assert deadlines.warn("train") is None  # said once
    for _ in range(200):
        deadlines.observe("train", 0.1, 20.0)
    assert deadlines.seconds("train") == 5
