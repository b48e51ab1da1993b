import numpy as np
import pytest

from fedtide.availability import FiniteChain, Markov
from fedtide.errors import InvalidInput

TURN = [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]]


def test_two_states_are_the_two_state_chain():
    pi, lam = 0.3, 0.6
    on, arrive = lam + (1 - lam) * pi, (1 - lam) * pi
    chain = FiniteChain([[on, 1 - on], [arrive, 1 - arrive]], [[True], [False]])
    np.testing.assert_allclose(chain.availability, Markov([pi], [lam]).availability, atol=1e-12)
    np.testing.assert_allclose(chain.correlation, [lam], atol=1e-12)


def test_hand_worked_law():
    # Doubly stochastic, so uniform; client 0 in state 0: P(0, 0) = 1/6, λ = (1/6 − 1/9) / (2/9) = 1/4. Client 2 in
    # none, client 3 in all.
    chain = FiniteChain(TURN, [[0, 3], [1, 3], [1, 3]], clients=4)
    np.testing.assert_allclose(chain.availability, [1 / 3, 2 / 3, 0, 1], atol=1e-12)
    np.testing.assert_allclose(chain.correlation, [1 / 4, 1 / 4, 0, 0], atol=1e-12)


def test_visits_only_what_it_may_and_as_often_as_it_should():
    trace = FiniteChain(TURN, [[0], [1], [2]], clients=3).sample(0, 20_001)
    assert (trace.sum(1) == 1).all()
    state = trace.argmax(1)
    share = np.zeros((3, 3))
    np.add.at(share, (state[:-1], state[1:]), 1 / 20_000)
    assert (share[np.array(TURN) == 0] == 0).all()
    # Moves are independent given the state; with 20,000 rounds 0.02 is more than 6 standard errors.
    np.testing.assert_allclose(share, np.array(TURN) / 3, atol=0.02)


def test_both_ways_to_write_sets():
    matrix = np.array([[True, True, False], [False, False, False], [False, False, True]])
    lists = FiniteChain(TURN, [[1, 0], [], [2]], clients=3)
    np.testing.assert_array_equal(lists.active_sets, matrix)
    for written in (matrix, matrix.tolist()):
        np.testing.assert_array_equal(FiniteChain(TURN, written).sample(4, 30), lists.sample(4, 30))


@pytest.mark.parametrize(
    ("transition", "sets", "clients", "message"),
    [
        ([[1.0, 0.0], [0.5, 0.5]], [[0], [1]], 2, "irreducible, but state 1 is never reached from state 0"),
        ([[0.0, 1.0], [1.0, 0.0]], [[0], [1]], 2, "aperiodic"),
        ([[0, 0, 0.5, 0.5], [0, 0, 0.5, 0.5], [1, 0, 0, 0], [0.3, 0.7, 0, 0]], [[], [], [], [0]], 1, "aperiodic"),
        ([[0.5, 0.4], [0.5, 0.5]], [[0], [1]], 2, r"transition\[0\] = .*a row that sums to 1, not 0.9"),
        ([[1.5, -0.5], [0.5, 0.5]], [[0], [1]], 2, r"transition\[0\]\[1\] = -0.5: must be a probability"),
        ([[0.5, 0.5]], [[0]], 1, "a square matrix"),
        (TURN, [[0], [1]], 2, "one set for each of the 3 states"),
        (TURN, 3, 2, "one set for each of the 3 states"),
        (TURN, [[0], [1], [[0], [1]]], 2, r"active_sets\[2\]"),
        (TURN, [[0.5], [1], [0]], 2, r"active_sets\[0\]"),
        (TURN, [[0], [1], [2]], None, "`clients`"),
        (TURN, [[0], [1], [5]], 3, r"active_sets\[2\] = \[5\]: must be clients in 0 … 2"),
        (TURN, [[0], [1, 1], [2]], 3, r"active_sets\[1\] = \[1, 1\]: must be distinct"),
        (TURN, [[True], [True], [True, False]], None, "one boolean for each of 1 clients"),
        (TURN, [[True], [True], [False]], 2, "one boolean for each of 2 clients"),
    ],
)
def test_bad_chains(transition, sets, clients, message: str):
    with pytest.raises(InvalidInput, match=message) as error:
        FiniteChain(transition, sets, clients)
    assert "\n" not in str(error.value)
