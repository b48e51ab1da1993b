"""Rounds that nobody joins, under a schedule: memory moves at the rate that a client would have begun the round with.

Every run is compared with its recursion in NumPy: local steps on quadratics, then the method's equation with the
scheduled rate. Who was invited with what weight is taken from the records; that is another test's matter.
"""

import numpy as np
import pytest

import fedtide
from fedtide import methods as m
from fedtide.availability import Trace
from fedtide.problems.quadratic import quadratic
from fedtide.schedules import Geometric, PowerDecay
from fedtide.work import Steps, StepsPerClient

CLIENTS, RATE = 5, 0.2
RNG = np.random.default_rng(5)
CURVATURE, CENTRE = RNG.uniform(0.5, 2, CLIENTS), RNG.normal(size=(CLIENTS, 3))
ALPHA = np.array([0.3, 0.1, 0.25, 0.2, 0.15])
TAU = np.array([1, 4, 2, 0, 3])
CLUSTER = np.array([0, 1, 1, 0, 2])
PRESENCE = RNG.random((9, CLIENTS)) < 0.5
PRESENCE[[0, 3, 4, 8]] = False  # at the beginning, twice in a row, and at the end
METHODS = {
    "mifa": (m.mifa, {}),
    "fedvarp": (m.fedvarp, {}),
    "fedstale": (m.fedstale, {"trust": 0.4}),
    "fedlaavg": (m.fedlaavg, {"clients": 2}),
    "cluster_fedvarp": (m.cluster_fedvarp, {"clusters": 3, "assignment": CLUSTER}),
}
# Each with its factor by hand: of (round, local steps of the client, step).
SCHEDULES = {
    "rounds": (Geometric(0.7, "rounds"), lambda t, tau, i: 0.7**t),
    "steps": (PowerDecay(0.5, "steps"), lambda t, tau, i: (t * tau + i + 1.0) ** -0.5),
    # One sample each, so a pass is one step.
    "epochs": (PowerDecay(1.0, "epochs", every=2), lambda t, tau, i: 1 / ((t * tau + i) // 2 + 1.0)),
}


@pytest.fixture(scope="module")
def problem():
    return quadratic(CURVATURE, CENTRE, importance=ALPHA)


def by_hand(factor, trust, member, invited, weight):
    """The last model. `member` is whose row of memory a client has: its own, or its cluster's."""
    w, y = np.zeros(3), np.zeros((member.max() + 1, 3))  # y per unit of the rate
    for t in range(len(PRESENCE)):
        delta, first = np.zeros((CLIENTS, 3)), np.array([RATE * factor(t, tau, 0) for tau in TAU])
        for k in range(CLIENTS):
            at = w.copy()
            for i in range(TAU[k]):
                at -= RATE * factor(t, TAU[k], i) * CURVATURE[k] * (at - CENTRE[k])
            delta[k] = w - at
        trained = invited[t] & (TAU > 0)
        rate = first[trained].mean() if trained.any() else first[TAU > 0].mean()
        q = np.where(trained, weight[t], 0)
        w = w - (trust * rate * ALPHA @ y[member] + q @ (delta - trust * rate * y[member]))
        for row in set(member[trained]):
            here = trained & (member == row)
            y[row] = (delta[here] / first[here, None]).mean(axis=0)
    return w


def test_a_rate_may_depend_on_the_client_with_equal_numbers_of_steps(blobs):
    """Epochs are counted, of clients of unequal size."""
    method = m.fedvarp(rate=RATE, work=Steps(3, batch=4), schedule=PowerDecay(unit="epochs"))
    found = fedtide.simulate(blobs, Trace(np.arange(36).reshape(3, 12) < 24), method, rounds=3)
    assert found.rounds["step"].to_list()[-1] > 0


@pytest.mark.parametrize("unit", SCHEDULES)
@pytest.mark.parametrize("name", METHODS)
def test_memory_moves_at_the_rate_of_the_empty_round(problem, float64, name, unit):
    build, options = METHODS[name]
    schedule, factor = SCHEDULES[unit]
    method = build(rate=RATE, work=StepsPerClient(TAU, batch=1), schedule=schedule, **options)
    found = fedtide.simulate(problem, Trace(PRESENCE), {name: method}, rounds=len(PRESENCE), evaluate_every=9)
    table = found.clients.sort("round", "client")
    invited, weight = (table[column].to_numpy().reshape(PRESENCE.shape) for column in ("invited", "weight"))
    member = options.get("assignment", np.arange(CLIENTS))
    expected = by_hand(factor, options.get("trust", 1.0), member, invited, weight)
    np.testing.assert_allclose(found.models[name][0], expected, rtol=1e-6)  # weights are recorded in single precision
