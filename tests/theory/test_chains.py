import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedtide.errors import InvalidInput
from fedtide.theory import Chain, TwoState, from_transition, lowest_correlation, product, product_constants

NAMES = (
    "stationary", "second_eigenvalue", "rate", "relaxation_time", "hitting_times", "return_times", "log_coefficient",
)  # fmt: skip


@st.composite
def two_state(draw):
    pi = draw(st.floats(0.02, 0.98))
    low = float(lowest_correlation(pi))
    return TwoState(pi, low + draw(st.floats(0.01, 0.99)) * (0.99 - low))


@given(two_state())
@settings(deadline=None, max_examples=60)
def test_closed_forms_equal_the_numerical_ones(chain):
    numerical = Chain(chain.transition)
    for name in NAMES:
        np.testing.assert_allclose(getattr(chain, name), getattr(numerical, name), rtol=1e-8, atol=1e-9, err_msg=name)
    for t in (0, 1, 2, 7):
        np.testing.assert_allclose(chain.distance(t), numerical.distance(t), atol=1e-12)
    for distance in (0.3, 0.25, 0.01):
        near = [abs(float(chain.distance(t)) - distance) < 1e-9 for t in (0, 1, int(chain.mixing_time(distance)))]
        assume(not any(near))  # at the threshold itself rounding decides
        assert chain.mixing_time(distance) == numerical.mixing_time(distance)
        np.testing.assert_allclose(chain.mixing_bounds(distance), numerical.mixing_bounds(distance), rtol=1e-6)


@given(two_state(), st.floats(0.001, 0.4))
@settings(deadline=None, max_examples=60)
def test_mixing_time_lies_between_its_bounds(chain, distance):
    low, high = chain.mixing_bounds(distance)
    assert low <= chain.mixing_time(distance) <= np.ceil(high)


def test_numbers_of_the_paper():
    rare = TwoState(0.1, 0.9)
    assert rare.runs.absent == pytest.approx(100)
    assert rare.runs.present == pytest.approx(1 / (0.1 * 0.9))
    assert rare.return_times[1] == pytest.approx(10)
    for lam in (-0.1, 0.0, 0.5):
        assert TwoState(0.1, lam).return_times[1] == pytest.approx(10)  # Kac: whatever λ
    assert TwoState(0.3, 0.0).mixing_time() == 1
    assert rare.long_run_variance == pytest.approx(0.09 * 19)


def test_autocovariance_and_runs_are_those_of_the_matrix():
    chain = TwoState(0.3, 0.6)
    P = chain.transition
    for lag in range(5):
        both = chain.stationary[1] * np.linalg.matrix_power(P, lag)[1, 1]
        assert chain.autocovariance(lag) == pytest.approx(both - 0.3**2)
    assert chain.runs.present == pytest.approx(1 / P[1, 0])
    assert chain.runs.absent == pytest.approx(1 / P[0, 1])
    lags = np.arange(1, 400)
    assert chain.long_run_variance == pytest.approx(0.21 + 2 * (0.21 * 0.6**lags).sum())


@given(two_state(), st.integers(1, 9))
@settings(deadline=None, max_examples=60)
def test_mean_gap_is_that_of_the_chain_of_open_gaps(chain, cutoff):
    """States (rounds since the last was closed, here or not): gaps are closed at the inverse rate of their length."""
    P, states = chain.transition, 2 * cutoff
    steps = np.zeros((states, states))
    for gap in range(cutoff):
        for here in (0, 1):
            for then in (0, 1):
                closed = then or gap + 1 >= cutoff
                steps[2 * gap + here, 2 * (0 if closed else gap + 1) + then] += P[here, then]
    law = np.linalg.matrix_power(steps, 2**16)[1]  # from a visit: states that are never reached have no weight
    closing = law[:2].sum()  # rounds after which no gap is open
    assert chain.mean_gap(cutoff) == pytest.approx(1 / closing, rel=1e-6)
    assert TwoState(chain.availability, chain.correlation).mean_gap(10**9) == pytest.approx(1 / chain.availability)


def test_arrays_are_clients():
    chain = TwoState([0.2, 0.5], [0.1, 0.7])
    assert chain.transition.shape == (2, 2, 2)
    np.testing.assert_allclose(chain.transition[1], TwoState(0.5, 0.7).transition)
    np.testing.assert_array_equal(chain.mixing_time(0.01), [TwoState(0.2, 0.1).mixing_time(0.01), 11])


@given(two_state(), two_state(), two_state())
@settings(deadline=None, max_examples=20)
def test_product_of_chains(a, b, c):
    joint = product(a, b, c)
    largest = max(chain.second_eigenvalue for chain in (a, b, c))
    assert joint.second_eigenvalue == pytest.approx(largest, abs=1e-8)
    np.testing.assert_allclose(joint.stationary, np.kron(np.kron(a.stationary, b.stationary), c.stationary), atol=1e-9)
    found = product_constants([x.availability for x in (a, b, c)], [x.correlation for x in (a, b, c)])
    assert np.exp(found.log_states) == pytest.approx(8)
    assert found.rate == pytest.approx(joint.rate, abs=1e-8)
    spread = np.exp(sum(chain.log_coefficient for chain in (a, b, c)))
    assert np.exp(found.log_coefficient) == pytest.approx(np.sqrt(7) * spread)
    # C_P λ^t really bounds the distance to stationarity, entry by entry.
    for t in (1, 3, 10):
        away = np.abs(np.linalg.matrix_power(joint.transition, t) - joint.stationary).max()
        assert away <= np.exp(found.log_coefficient) * largest**t + 1e-12


def test_a_chain_that_is_not_reversible():
    turning = Chain([[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]])
    assert not turning.reversible
    bounds = turning.mixing_bounds(0.05)
    assert bounds.upper == np.inf
    assert bounds.lower <= turning.mixing_time(0.05)
    np.testing.assert_allclose(turning.return_times, 3)


def test_millions_of_sets_of_clients_need_no_matrix():
    found = product_constants(np.full(2000, 0.5), np.full(2000, 0.3))
    assert found.rate == pytest.approx(0.65)
    assert found.log_states == pytest.approx(2000 * np.log(2))
    assert np.isfinite(found.log_coefficient)


def test_from_transition_inverts():
    chain = TwoState(0.37, -0.2)
    back = from_transition(chain.transition)
    assert (back.availability, back.correlation) == (pytest.approx(0.37), pytest.approx(-0.2))


@pytest.mark.parametrize(
    ("build", "word"),
    [
        (lambda: TwoState(0.1, -0.5), "correlation = -0.5: must be in"),
        (lambda: TwoState(0.1, 1.0), "correlation"),
        (lambda: TwoState(0.0, 0.0), "availability"),
        (lambda: Chain([[0.5, 0.6], [0.5, 0.5]]), "transition"),
        (lambda: Chain([[0.0, 1.0], [1.0, 0.0]]), "aperiodic"),
        (lambda: Chain(np.eye(2)), "irreducible"),
        (lambda: TwoState(0.5, 0.0).mean_gap(0), "cutoff"),
    ],
)
def test_bad_input(build, word):
    with pytest.raises(InvalidInput, match=word):
        build()
