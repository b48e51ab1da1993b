import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtide.availability import Always, Bernoulli, Markov
from fedtide.errors import InvalidInput


@pytest.fixture(scope="module")
def chains() -> np.ndarray:
    """bool[4000, 4, 200]: 200 chains for each of four (π, λ)."""
    return chains_of().sample(0, 4000).reshape(4000, 4, 200)


PI = np.array([0.1, 0.5, 0.5, 0.9])
LAM = np.array([0.9, -0.6, 0.6, 0.2])


def chains_of() -> Markov:
    return Markov(np.repeat(PI, 200), np.repeat(LAM, 200))


@pytest.mark.parametrize("lag", [0, 1, 2, 3, 7])
def test_autocovariance(chains: np.ndarray, lag: int):
    rounds = len(chains)
    both = (chains[: rounds - lag] & chains[lag:]).mean(0) - PI[:, None] ** 2
    # The 200 chains are independent; 5.5 standard errors of their mean are exceeded with probability 4e-8 each.
    error = both.std(1, ddof=1) / 200**0.5
    np.testing.assert_array_less(np.abs(both.mean(1) - PI * (1 - PI) * LAM**lag), 5.5 * error)


def test_starts_in_its_stationary_law():
    # 20,000 clients: 5.5 standard errors of a share of 0.1 are 0.0117.
    assert abs(Markov(0.1, 0.9, clients=20_000).sample(1, 1).mean() - 0.1) < 0.0117


def test_mean_off_run(chains: np.ndarray):
    # Runs that begin in the first half; one that outlasts the second half has probability 0.99^2000 = 2e-9.
    rare = chains[:, 0]
    lengths = []
    for client in rare.T:
        begins = np.flatnonzero(client[:1999] & ~client[1:2000]) + 1
        ends = np.flatnonzero(client)
        lengths += [ends[ends > b][0] - b for b in begins]
    # Geometric with mean 1/((1−λ)π) = 100 and that standard deviation; 5.5 standard errors: 4e-8.
    assert len(lengths) > 2000
    assert abs(np.mean(lengths) - 100) < 5.5 * 100 / len(lengths) ** 0.5


def test_the_lowest_correlation_of_one_half_alternates():
    trace = Markov(0.5, -1.0, clients=50).sample(0, 20)
    assert (trace[1:] != trace[:-1]).all()


def test_constant_clients():
    trace = Markov([0.0, 1.0], [0.5, 0.0]).sample(0, 100)
    assert not trace[:, 0].any()
    assert trace[:, 1].all()


def test_inadmissible_correlation_names_client_value_and_range():
    expected = r"correlation\[1\] = -0\.2: must be in \[-0\.1111, 1\) for availability 0\.9"
    with pytest.raises(InvalidInput, match=expected):
        Markov([0.5, 0.9], [-0.2, -0.2])
    with pytest.raises(InvalidInput, match=r"correlation\[0\] = 1\.0: must be in \[-1, 1\)"):
        Markov([0.5], [1.0])


@given(st.floats(0.01, 0.99), st.floats(0, 1))
def test_admissible_exactly_when_both_transition_probabilities_are(pi: float, share: float):
    lowest = max(1 - 1 / pi, 1 - 1 / (1 - pi))
    lam = lowest + share * (0.999 - lowest)
    chain = Markov([pi], [lam])
    on_on, off_on = lam + (1 - lam) * pi, (1 - lam) * pi
    assert -1e-9 <= on_on <= 1 + 1e-9
    assert -1e-9 <= off_on <= 1 + 1e-9
    assert (chain.availability, chain.correlation) == ([pi], [lam])
    with pytest.raises(InvalidInput):
        Markov([pi], [lowest - 1e-6])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Markov([0.5, 1.2], 0.0), r"availability\[1\] = 1\.2: must be in \[0, 1\]"),
        (lambda: Markov([0.5, float("nan")], 0.0), r"availability\[1\] = nan: must be in \[0, 1\]"),
        (lambda: Markov([0.5, 0.5], [0.1, 0.1, 0.1]), "correlation = '3 entries': must be one for each of 2 clients"),
        (lambda: Markov(0.5, 0.0), "availability = 0.5: must be a number and `clients`"),
        (lambda: Bernoulli([]), "availability = "),
        (lambda: Bernoulli("often", clients=2), "availability"),
        (lambda: Bernoulli(0.5, clients=0), "clients = 0: must be a whole number, 1 or more"),
        (lambda: Always(-1), "clients = -1: must be a whole number, 1 or more"),
        (lambda: Always(1.5), "clients = 1.5: must be a whole number, 1 or more"),
        (lambda: Always(2).sample(-1, 2), "seed = -1"),
        (lambda: Always(2).sample(0, -2), "rounds = -2"),
    ],
)
def test_bad_input_is_one_line(build, message: str):
    with pytest.raises(InvalidInput, match=message) as error:
        build()
    assert "\n" not in str(error.value)


def test_no_rounds_are_an_empty_trace():
    assert Markov([0.5, 0.5], 0.0).sample(0, 0).shape == (0, 2)


def test_one_number_serves_all_clients():
    np.testing.assert_array_equal(Markov(0.3, [0.1, 0.2]).availability, [0.3, 0.3])
    np.testing.assert_array_equal(Markov(0.3, 0.2, clients=2).correlation, [0.2, 0.2])
