"""Schedules are their formulas, in every unit."""

import numpy as np
import pytest

from fedtide.errors import InvalidInput
from fedtide.schedules import Constant, Geometric, PerClient, PowerDecay
from fedtide.types import Task

ROUNDS, STEPS, A_PASS = 4, 6, 3  # two passes over the data a round


def factors(schedule) -> np.ndarray:
    """[rounds, steps]"""

    def task(t):
        return Task(STEPS, lambda w, step: (w, w), t, A_PASS)

    return np.array([[float(schedule.factor(task(t), i)) for i in range(STEPS)] for t in range(ROUNDS)])


ROUND = np.repeat(np.arange(ROUNDS), STEPS).reshape(ROUNDS, STEPS)
STEP = np.arange(ROUNDS * STEPS).reshape(ROUNDS, STEPS)
COUNTS = {"rounds": ROUND, "steps": STEP, "epochs": STEP // A_PASS}


def test_constant():
    assert (factors(Constant()) == 1).all()


@pytest.mark.parametrize("unit", COUNTS)
def test_power_decay(unit):
    """a_n = C / n^δ with n from 1."""
    np.testing.assert_allclose(factors(PowerDecay(0.8, unit)), (COUNTS[unit] + 1.0) ** -0.8, rtol=1e-6)


@pytest.mark.parametrize("unit", COUNTS)
def test_geometric(unit):
    np.testing.assert_allclose(factors(Geometric(0.5, unit, every=2)), 0.5 ** (COUNTS[unit] // 2), rtol=1e-6)


def test_the_two_published_schedules():
    """(A) 0.1/n in epochs, last of 100 rounds of 5 epochs 2e-4; (B) 0.1/(⌊n/N⌋ + 1): constant within a round."""
    n = COUNTS["epochs"]
    np.testing.assert_allclose(0.1 * factors(PowerDecay()), 0.1 / (n + 1), rtol=1e-6)
    every_round = factors(PowerDecay(every=STEPS // A_PASS))
    np.testing.assert_allclose(every_round, 1 / (ROUND + 1), rtol=1e-6)
    last = Task(5 * A_PASS, lambda w, step: (w, w), 99, A_PASS)
    assert 0.1 * float(PowerDecay().factor(last, 5 * A_PASS - 1)) == pytest.approx(2e-4)
    assert 0.1 * float(PowerDecay(every=5).factor(last, 5 * A_PASS - 1)) == pytest.approx(1e-3)


def test_per_client():
    schedule = PerClient([1, 0.5, 2.0], Geometric(0.5))
    task = Task(STEPS, lambda w, step: (w, w), 1, A_PASS)
    assert [float(schedule.factor(task._replace(client=k), 0)) for k in range(3)] == [0.5, 0.25, 1.0]
    assert schedule.factor(task._replace(client=np.arange(3)), 0).tolist() == [0.5, 0.25, 1.0]
    assert float(schedule.factor(task, 0)) == 0.5  # of all clients
    assert PerClient([1.0, 2.0]).fit(np.ones(2)).schedule.factor(task, 0) == 1


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: PowerDecay(-1.0), "schedule.power = -1.0: must be 0 or more"),
        (lambda: PowerDecay(unit="epoch"), "schedule.unit = 'epoch': must be one of .*did you mean 'epochs'"),
        (lambda: PowerDecay(every=0), "schedule.every = 0"),
        (lambda: Geometric(0.0), r"schedule.ratio = 0.0: must be in \(0, 1\]"),
        (lambda: Geometric(1.5), "schedule.ratio = 1.5"),
        (lambda: Geometric(unit="days"), "schedule.unit = 'days'"),
        (lambda: PerClient(0.5), "schedule.factors = 0.5: must be one positive number for each client"),
        (lambda: PerClient(["a"]), r"schedule.factors = \['a'\]: must be one positive number for each client"),
        (lambda: PerClient([1.0, 0.0]), r"schedule.factors\[1\] = 0.0: must be a positive number"),
        (lambda: PerClient([np.inf]), r"schedule.factors\[0\] = inf: must be a positive number"),
        (lambda: PerClient([1.0], 0.5), "schedule.schedule = 0.5: must be a schedule such as Constant"),
        (
            lambda: PerClient([1.0], PerClient([1.0])),
            "schedule.schedule = 'PerClient': must be one that is the same for",
        ),
        (lambda: PerClient([1.0, 2.0]).fit(np.ones(3)), "schedule.factors = '2 entries': must be one for each of 3"),
    ],
)
def test_errors_name_the_bad_field(build, message):
    with pytest.raises(InvalidInput, match=message):
        build()
