"""A ledger as a log of availability, and as an estimator's past."""

import sqlite3

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("sqlalchemy", reason="the ledger needs pip install 'fedtide[flower]'")

from sqlalchemy import insert

from fedtide.adapters.ledger import ClientInRound, Enrolled, Ledger, estimated, schema
from fedtide.estimators import Bayesian, Discounted, Interval, Oracle
from fedtide.types import Population

ESTIMATORS = [Bayesian(), Discounted(half_life=5.0), Interval(cutoff=4)]


def write(ledger, run, matrix, clients="abc", began=None, at=0.0):
    """A run of this presence; rounds 10 s apart and 8 s long unless `began` says otherwise."""
    count = len(matrix[0])
    ledger.begin_run(run, "fedavg", {}, [Enrolled(clients[k], k, 1, 1 / count) for k in range(count)], at=at)
    for t, row in enumerate(matrix):
        rows = [ClientInRound(clients[k], bool(there), None if there else "no-reply") for k, there in enumerate(row)]
        start = 10.0 * t if began is None else began[t]
        ledger.write_round(run, t + 1, start, start + 8, None, rows)


def select(ledger, view):
    with ledger.database.reading() as connection:
        rows = connection.exec_driver_sql(f'select device, start, "end", run from {view}')
        return sorted(tuple(row) for row in rows)


def test_intervals_are_rounds_in_a_row(ledger):
    write(ledger, "r", [[1, 0, 0], [1, 1, 0], [0, 1, 0], [1, 1, 0]])
    assert select(ledger, "availability_log") == [
        ("a", 0.0, 20.0, "r"),
        ("a", 30.0, 38.0, "r"),
        ("b", 10.0, 38.0, "r"),
    ]
    assert select(ledger, "availability_windows") == [(device, 0.0, 38.0, "r") for device in "abc"]


def test_what_nobody_looked_at_is_not_observed(ledger):
    write(
        ledger, "r", [[1, 0]] * 6, began=[0.0, 10.0, 20.0, 60.0, 101.0, 111.0]
    )  # 40 s is four times usual; 41 s is more
    assert select(ledger, "availability_log") == [("a", 0.0, 68.0, "r"), ("a", 101.0, 119.0, "r")]
    windows = [(device, *window, "r") for device in "ab" for window in ((0.0, 68.0), (101.0, 119.0))]
    assert select(ledger, "availability_windows") == windows


def test_a_clock_set_back_ends_a_window(ledger):
    write(ledger, "r", [[1]] * 4, began=[100.0, 110.0, 50.0, 60.0])
    assert select(ledger, "availability_log") == [("a", 50.0, 68.0, "r"), ("a", 100.0, 118.0, "r")]


def test_runs_are_apart_and_strangers_are_left_out(ledger):
    write(ledger, "r", [[1]])
    write(ledger, "s", [[0, 1], [1, 0]], began=[50.0, 55.0])
    ledger.write_round("r", 1, 0.0, 8.0, None, [ClientInRound("a", True), ClientInRound("x", True, "not-listed")])
    assert select(ledger, "availability_log") == [("a", 0.0, 8.0, "r"), ("a", 55.0, 63.0, "s"), ("b", 50.0, 55.0, "s")]
    assert select(ledger, "availability_windows") == [
        ("a", 0.0, 8.0, "r"),
        ("a", 50.0, 63.0, "s"),
        ("b", 50.0, 63.0, "s"),
    ]


def test_the_views_hold_the_matrix(ledger):
    matrix = np.random.default_rng(3).random((60, 5)) < 0.5
    write(ledger, "r", matrix, clients="abcde")
    rebuilt = np.zeros_like(matrix)
    for device, start, end, _ in select(ledger, "availability_log"):
        rebuilt[int(start // 10) : int(np.ceil(end / 10)), "abcde".index(device)] = True
    assert (rebuilt == matrix).all()


def test_sqlite_alone_can_read_it(tmp_path):
    with Ledger(tmp_path / "ledger.db") as ledger:
        write(ledger, "r", [[1, 0], [1, 1]])
    plain = sqlite3.connect(f"file:{tmp_path / 'ledger.db'}?mode=ro", uri=True)
    log = plain.execute('select device, start, "end" from availability_log order by device').fetchall()
    plain.close()
    assert log == [("a", 0.0, 18.0), ("b", 10.0, 18.0)]


def by_hand(estimator, population, matrix):
    state, estimate = estimator.init(population), None
    for row in matrix:
        estimate, state = estimator.update(state, jnp.asarray(row, bool))
    return estimate, state


def population(clients):
    return Population(jnp.full(clients, 1 / clients), jnp.full(clients, 5))


def close(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-6), a, b)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_estimated_from_all_earlier_rounds(ledger, estimator):
    past = np.random.default_rng(0).random((2, 30, 3)) < [0.9, 0.5, 0.2]
    write(ledger, "first", past[0], at=1.0)
    write(ledger, "second", past[1][:, [2, 0, 1]], clients="cab", at=2.0)
    write(ledger, "later", past[0], at=4.0)
    write(ledger, "now", [[1, 0, 1]], at=3.0)
    seen = np.concatenate([*past, [[1, 0, 1]]])
    estimate, state = estimated(ledger, "now", estimator, population(3))
    expected = by_hand(estimator, population(3), seen)
    close((estimate, state), expected)
    assert jax.tree.map(jnp.shape, state) == jax.tree.map(jnp.shape, expected[1])


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_a_new_client_costs_the_others_no_history(ledger, estimator):
    past = np.random.default_rng(1).random((30, 2)) < [0.9, 0.3]
    write(ledger, "first", past, clients="ab", at=1.0)
    write(ledger, "now", [[1, 1, 0], [0, 1, 1]], clients="nba", at=2.0)
    estimate, state = estimated(ledger, "now", estimator, population(3))
    own = {"n": [1, 0], "b": [*past[:, 1], 1, 1], "a": [*past[:, 0], 0, 1]}
    for number, client in enumerate("nba"):
        alone, _ = by_hand(estimator, population(1), np.array(own[client])[:, None])
        np.testing.assert_allclose(estimate.availability[number], alone.availability[0], rtol=1e-6)
        np.testing.assert_allclose(estimate.correlation[number], alone.correlation[0], rtol=1e-6)
    # and it goes on from there
    after, _ = estimator.update(state, jnp.array([True, True, True]))
    alone, _ = by_hand(estimator, population(1), np.array([*own["a"], 1])[:, None])
    np.testing.assert_allclose(after.availability[2], alone.availability[0], rtol=1e-6)


def test_priors_for_each_client_stay_theirs(ledger):
    write(ledger, "first", [[1], [1]], clients="a", at=1.0)
    write(ledger, "now", [[1, 0]], clients="ab", at=2.0)
    estimate, _ = estimated(ledger, "now", Bayesian(on=jnp.array([1.0, 3.0])), population(2))
    np.testing.assert_allclose(estimate.availability, [4 / 5, 3 / 5], rtol=1e-6)


def test_nothing_known_yet(ledger):
    ledger.begin_run("now", "fedavg", {}, [Enrolled("a", 0, 1, 1.0)])
    estimate, state = estimated(ledger, "now", Bayesian(), population(1))
    assert estimate is None
    close(state, Bayesian().init(population(1)))


def test_estimates_come_to_the_truth(ledger):
    """A chain with π = 0.6, λ = 0.5: 1000 rounds give π̂ a standard deviation of 0.027, λ̂ of 0.028; four of them."""
    rng = np.random.default_rng(5)
    matrix = np.zeros((1000, 1), bool)
    for t in range(1000):
        stay = 0.6 + 0.5 * (matrix[t - 1, 0] - 0.6)
        matrix[t] = rng.random() < stay
    truth = Population(jnp.ones(1), jnp.ones(1), jnp.array([0.6]), jnp.array([0.5]))
    write(ledger, "now", matrix[:1])
    numbered = [{"run": "now", "round": t + 1} for t in range(1, 1000)]
    with ledger.database.writing() as connection:  # in one transaction: a thousand would take their time
        connection.execute(insert(schema.rounds), [{**key, "began": 0.0, "ended": 0.0} for key in numbered])
        rows = [
            {**key, "client": "a", "here": bool(matrix[key["round"] - 1, 0]), "included": False} for key in numbered
        ]
        connection.execute(insert(schema.presence), rows)
    estimate, _ = estimated(ledger, "now", Bayesian(), truth)
    assert estimate is not None
    assert abs(estimate.availability[0] - 0.6) < 0.11
    assert abs(estimate.correlation[0] - 0.5) < 0.12
    revealed, _ = estimated(ledger, "now", Oracle(), truth)
    assert revealed is not None
    np.testing.assert_allclose(revealed.availability, 0.6, rtol=1e-6)
